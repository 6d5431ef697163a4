"""Maximum bipartite matching: the largest number of pairs that use each side once."""

from __future__ import annotations

from collections.abc import Sequence


def matching_size(fitting: Sequence[Sequence[int]]) -> int:
    """`fitting[i]` are the places that fit i. Kuhn's algorithm with an explicit stack."""
    taken: dict[int, int] = {}
    return sum(_place(start, fitting, taken) for start in range(len(fitting)))


def _place(start: int, fitting: Sequence[Sequence[int]], taken: dict[int, int]) -> bool:
    """Place one more, moving others to their alternatives if need be."""
    came_from: dict[int, tuple[int, int | None]] = {}
    todo: list[tuple[int, int | None]] = [(start, None)]
    while todo:
        person, left = todo.pop()
        for place in fitting[person]:
            if place in came_from:
                continue
            came_from[place] = (person, left)
            if place in taken:
                todo.append((taken[place], place))
                continue
            at: int | None = place
            while at is not None:
                person, at_before = came_from[at]
                taken[at] = person
                at = at_before
            return True
    return False
