"""Regular expressions of clients, matched in time linear in the length of the name: those of
subscriptions (KIP-848), and of transactional ids (KIP-1152).

Kafka uses RE2's syntax, which has no backreferences and no look-around, so no expression of a
client can block a coordinator. Python's `re` backtracks; hence this small automaton, over the
characters of names. It supports literals, `.`, classes, groups, `|`, `*`, `+`, `?`, `{m,n}` (also
lazy, which matches the same), `^`, `$`, `\\A`, `\\z`, `\\d`, `\\w`, `\\s` and their opposites,
`\\Q...\\E`, `(?i)` and `(?:...)`. What RE2 has beyond that (`\\b`, `\\p`, named classes and
groups) is refused with INVALID_REGULAR_EXPRESSION. An expression matches a whole name.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from ottla.errors import ErrorCode, KafkaError

PATTERN_SIZE_MAX: Final = 4_096  # characters
REPEAT_MAX: Final = 1_000  # RE2's own limit
PROGRAM_SIZE_MAX: Final = 10_000  # steps
DEPTH_MAX: Final = 100  # groups in groups
WORK_MAX: Final = 200_000  # steps visited for all names together; cached ones are free
STEP_WORK: Final = 4  # to cache one

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
_NO_CHARACTERS: Final[frozenset[str]] = frozenset()
_CLASSES: Final = {  # and their opposites, by the capital letter
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset(" \t\n\r\f"),
}
_CONTROLS: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


class _Characters(NamedTuple):
    """One character of these."""

    characters: frozenset[str]


class _Sequence(NamedTuple):
    parts: tuple[Node, ...]


class _Alternation(NamedTuple):
    choices: tuple[Node, ...]


class _Repetition(NamedTuple):
    part: Node
    least: int
    most: int | None


class _Anchor(NamedTuple):
    at_end: bool


Node: TypeAlias = "_Characters | _Sequence | _Alternation | _Repetition | _Anchor"

_EMPTY: Final = _Sequence(())


class RegexPattern:
    """A compiled expression; INVALID_REGULAR_EXPRESSION if it is invalid."""

    __slots__ = ("_program", "_start", "_states", "_work", "text")

    def __init__(self, text: str, alphabet: frozenset[str] = ALPHABET) -> None:
        """`alphabet` has all characters that a name can have."""
        self.text = text
        self._work = 0
        try:
            self._program = _Program(_RegexParser(text, alphabet).parse())
        except _SyntaxError as error:
            raise self._invalid(str(error)) from error
        self._states: dict[frozenset[int], _State] = {}
        self._start = _State(self._program.follow([0], at_start=True))

    def _invalid(self, why: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{self.text[:200]}` is not a valid regular expression: {why}.",
        )

    def matches(self, name: str) -> bool:
        """KafkaError once all names together have taken too much work (`WORK_MAX`)."""
        if not name:
            return self._program.end in self._program.follow([0], at_start=True, at_end=True)
        state = self._start
        for character in name[:-1]:
            next_state = state.after.get(character)
            if next_state is None:
                next_state = self._after(state, character)
            if not next_state.steps:
                return False
            state = next_state
        ends = state.ends.get(name[-1])
        return self._ends(state, name[-1]) if ends is None else ends

    def _after(self, state: _State, character: str) -> _State:
        steps = self._follow(state, character, at_end=False)
        next_state = self._states.get(steps)
        if next_state is None:
            next_state = self._states[steps] = _State(steps)
        state.after[character] = next_state
        return next_state

    def _ends(self, state: _State, character: str) -> bool:
        state.ends[character] = ends = self._program.end in self._follow(
            state, character, at_end=True
        )
        return ends

    def _follow(self, state: _State, character: str, *, at_end: bool) -> frozenset[int]:
        """Compute a step that is not cached. The limit of work also limits the cache."""
        program = self._program
        steps = program.follow(program.after(state.steps, character), at_end=at_end)
        self._work += STEP_WORK + len(state.steps) + len(steps)
        if self._work > WORK_MAX:
            raise self._invalid("it takes too long to match")
        return steps


class _State:
    """A set of steps of the program, and the states that each character leads to."""

    __slots__ = ("after", "ends", "steps")

    def __init__(self, steps: frozenset[int]) -> None:
        self.steps = steps
        self.after: dict[str, _State] = {}
        self.ends: dict[str, bool] = {}  # does a name that ends with this character match?


class _SyntaxError(Exception):
    pass


class _Program:
    """An automaton: steps with an edge on `characters`, or with `epsilon` edges."""

    __slots__ = ("anchors", "characters", "end", "epsilon")

    def __init__(self, node: Node) -> None:
        self.characters: list[frozenset[str]] = [_NO_CHARACTERS]
        self.epsilon: list[list[int]] = [[]]
        self.anchors: dict[int, bool] = {}  # steps to pass only at the start, or (True) at the end
        self.end = self._add(node, 0)

    def _step(self) -> int:
        if len(self.epsilon) >= PROGRAM_SIZE_MAX:
            raise _SyntaxError("it is too large")
        self.characters.append(_NO_CHARACTERS)
        self.epsilon.append([])
        return len(self.epsilon) - 1

    def _add(self, node: Node, start: int) -> int:
        """Add the steps of a node, from this step on; returns the step where it ends."""
        match node:
            case _Characters(characters):
                step = self._step()  # a separate step, because `start` may have other edges
                self.epsilon[start].append(step)
                self.characters[step] = characters
                return self._step()  # always the next one: see `after`
            case _Sequence(parts):
                for part in parts:
                    start = self._add(part, start)
                return start
            case _Alternation(choices):
                end = self._step()
                for choice in choices:
                    first = self._step()
                    self.epsilon[start].append(first)
                    self.epsilon[self._add(choice, first)].append(end)
                return end
            case _Anchor(at_end):
                step = self._step()
                self.epsilon[start].append(step)
                self.anchors[step] = at_end
                end = self._step()
                self.epsilon[step].append(end)
                return end
            case _Repetition(part, least, most):
                return self._add_repeat(part, least, most, start)

    def _add_repeat(self, part: Node, least: int, most: int | None, start: int) -> int:
        for _ in range(least):
            start = self._add(part, start)
        if most is None:
            loop = self._step()
            self.epsilon[start].append(loop)
            self.epsilon[self._add(part, loop)].append(loop)
            end = self._step()
            self.epsilon[loop].append(end)
            return end
        ends = [start]
        for _ in range(most - least):
            first = self._step()
            self.epsilon[start].append(first)
            start = self._add(part, first)
            ends.append(start)
        end = self._step()
        for step in ends:
            self.epsilon[step].append(end)
        return end

    def after(self, steps: Iterable[int], character: str) -> list[int]:
        return [step + 1 for step in steps if character in self.characters[step]]

    def follow(
        self, steps: Iterable[int], *, at_start: bool = False, at_end: bool = False
    ) -> frozenset[int]:
        """All steps that can be reached from these without a character."""
        found = set(steps)
        waiting = list(found)
        while waiting:
            step = waiting.pop()
            anchor = self.anchors.get(step)
            if anchor is not None and not (at_end if anchor else at_start):
                continue
            for target in self.epsilon[step]:
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        return frozenset(found)


class _RegexParser:
    """Recursive descent, one method for each level of precedence."""

    def __init__(self, text: str, alphabet: frozenset[str]) -> None:
        if len(text) > PATTERN_SIZE_MAX:
            raise _SyntaxError(f"it has more than {PATTERN_SIZE_MAX} characters")
        self.text = text
        self.alphabet = alphabet
        self.position = 0
        self.depth = 0
        self.any_case = False

    def parse(self) -> Node:
        node = self._alternation()
        if self.position < len(self.text):
            raise _SyntaxError("unexpected )")
        return node

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise _SyntaxError("it ends too early")
        self.position += 1
        return character

    def _accept(self, text: str) -> bool:
        if not self.text.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def _alternation(self) -> Node:
        choices = [self._sequence()]
        while self._accept("|"):
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else _Alternation(tuple(choices))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() and self._peek() not in "|)":
            part = self._repetition()
            if part != _EMPTY:
                parts.append(part)
        return _Sequence(tuple(parts))

    def _repetition(self) -> Node:
        node = self._atom()
        repeated = False
        while (bounds := self._bounds()) is not None:
            if repeated:
                raise _SyntaxError("invalid nested repetition operator")
            if isinstance(node, _Anchor):
                raise _SyntaxError("missing argument to repetition operator")
            repeated = True
            if node != _EMPTY:  # nothing, a thousand times a thousand times, would be expanded
                node = _Repetition(node, *bounds)
            self._accept("?")  # lazy
        return node

    def _bounds(self) -> tuple[int, int | None] | None:
        if self._accept("*"):
            return 0, None
        if self._accept("+"):
            return 1, None
        if self._accept("?"):
            return 0, 1
        start = self.position
        if self._accept("{"):
            end = self.text.find("}", start)
            least, comma, most = self.text[start + 1 : max(end, 0)].partition(",")
            if end >= 0 and least.isdecimal() and (not most or most.isdecimal()):
                self.position = end + 1
                return _checked(int(least), int(most) if most else None if comma else int(least))
            self.position = start  # as in RE2, a brace without bounds is a literal
        return None

    def _atom(self) -> Node:
        character = self._take()
        match character:
            case ".":
                return _Characters(self.alphabet - {"\n"})
            case "^":
                return _Anchor(at_end=False)
            case "$":
                return _Anchor(at_end=True)
            case "(":
                return self._group()
            case "[":
                return _Characters(self._class())
            case "\\":
                return self._escaped()
            case "*" | "+" | "?":
                raise _SyntaxError("missing argument to repetition operator")
        return _Characters(self._cased(character))

    def _group(self) -> Node:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise _SyntaxError(f"it has more than {DEPTH_MAX} groups in each other")
        any_case = self.any_case
        if self._accept("?"):
            if self._accept("i)"):
                self.any_case = True
                self.depth -= 1
                return _EMPTY
            if self._accept("i:"):
                self.any_case = True
            elif not self._accept(":"):
                raise _SyntaxError(f"invalid or unsupported group (?{self._peek()}")
        node = self._alternation()
        if not self._accept(")"):
            raise _SyntaxError("missing closing )")
        self.any_case = any_case
        self.depth -= 1
        return node

    def _escaped(self) -> Node:
        character = self._take()
        if character == "A":
            return _Anchor(at_end=False)
        if character == "z":
            return _Anchor(at_end=True)
        if character == "Q":
            end = self.text.find("\\E", self.position)
            literal = self.text[self.position : end if end >= 0 else len(self.text)]
            self.position += len(literal) + (2 if end >= 0 else 0)
            return _Sequence(tuple(_Characters(self._cased(character)) for character in literal))
        return _Characters(self._escape(character))

    def _escape(self, character: str) -> frozenset[str]:
        if character in _CLASSES:
            return _CLASSES[character] & self.alphabet
        if character.lower() in _CLASSES:
            return self.alphabet - _CLASSES[character.lower()]
        if character in _CONTROLS:
            return self.alphabet & {_CONTROLS[character]}
        if character.isascii() and character.isalnum():
            raise _SyntaxError(f"invalid or unsupported escape \\{character}")
        return self._cased(character)

    def _class(self) -> frozenset[str]:
        negated = self._accept("^")
        found: set[str] = set()
        first = True
        while first or self._peek() != "]":
            first = False
            if self._peek() == "[" and self.text[self.position + 1 : self.position + 2] == ":":
                raise _SyntaxError("classes by name are not supported")
            low = self._take()
            if low == "\\":
                low = self._take()
                escaped = self._escape(low)
                if low.isalnum():
                    found |= escaped
                    continue
            high = low
            if self._peek() == "-" and self.text[self.position + 1 : self.position + 2] != "]":
                self._take()
                high = self._take()
                high = self._take() if high == "\\" else high
                if high < low:
                    raise _SyntaxError(f"invalid character class range {low}-{high}")
            for character in self.alphabet:
                if low <= character <= high:
                    found |= self._cased(character)
        self._take()
        return self.alphabet - found if negated else frozenset(found)

    def _cased(self, character: str) -> frozenset[str]:
        if self.any_case:
            return frozenset((character.lower(), character.upper())) & self.alphabet
        return frozenset(character) & self.alphabet


def _checked(least: int, most: int | None) -> tuple[int, int | None]:
    if least > REPEAT_MAX or (most is not None and (most > REPEAT_MAX or most < least)):
        raise _SyntaxError("invalid repeat count")
    return least, most
