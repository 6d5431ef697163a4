"""Finds the handler of a path. Subjects may contain `/` as %2F: paths are split, then decoded.

Under /contexts/{context}/, every path is the same request as without it, with the context in front
of its subject.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from urllib.parse import parse_qs, unquote

from ottla.registry.registry_error import RegistryError
from ottla.registry.rest.call import RestCall
from ottla.registry.rest.route_rights import RouteRight
from ottla.registry.subjects import PREFIX, context_name

Handler = Callable[[RestCall], Awaitable[object]]
Query = dict[str, list[str]]

NOT_FOUND: Final = "HTTP 404 Not Found"
NOT_ALLOWED: Final = "HTTP 405 Method Not Allowed"
QUALIFIED: Final = ("subjects", "config", "mode")


class Router:
    """`routes`: method, path with {words}, handler, and its right."""

    def __init__(self, routes: Iterable[tuple[str, str, Handler, RouteRight]]) -> None:
        self._routes: dict[int, list[tuple[str, list[str], Handler]]] = {}
        for method, path, handler, right in routes:
            words = path.strip("/").split("/")
            self._routes.setdefault(len(words), []).append(
                (method, words, with_right_check(handler, right))
            )

    def find(
        self, method: str, raw_path: bytes, query_string: bytes
    ) -> tuple[Handler, dict[str, str], Query]:
        """RegistryError 404 or 405."""
        text = raw_path.decode("latin-1").partition("?")[0]
        words = [unquote(word) for word in text.strip("/").split("/")]
        query = (
            parse_qs(query_string.decode("latin-1"), keep_blank_values=True) if query_string else {}
        )
        if words[0] == "contexts" and len(words) > 2:
            words = in_context(words[1], words[2:], query)
        path_known = False
        for route_method, pattern, handler in self._routes.get(len(words), ()):
            found = _match(pattern, words)
            if found is None:
                continue
            if route_method == method:
                return handler, found, query
            path_known = True
        raise RegistryError(405, NOT_ALLOWED) if path_known else RegistryError(404, NOT_FOUND)


def with_right_check(handler: Handler, right: RouteRight) -> Handler:
    """Checks without an await before the handler: a handler reads its subject before it waits for
    anything, so the subject that was checked is the one that is used."""

    def checked(call: RestCall) -> Awaitable[object]:
        right(call)
        return handler(call)

    return checked


def in_context(context: str, words: list[str], query: Query) -> list[str]:
    """The same request without /contexts, with the context in its subject."""
    prefix = f":{context_name(context)}:"
    for name in ("subject", "subjectPrefix"):
        subject = query.get(name, [""])[0]
        if not subject.startswith(PREFIX):
            query[name] = [prefix + subject]
    for index, word in enumerate(words[:-1]):
        if word in QUALIFIED and not words[index + 1].startswith(PREFIX):
            return [*words[: index + 1], prefix + words[index + 1], *words[index + 2 :]]
    if words[-1] in ("config", "mode"):
        return [*words, prefix]
    return words


def _match(pattern: list[str], words: list[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for expected, word in zip(pattern, words, strict=True):
        if expected.startswith("{"):
            found[expected[1:-1]] = word
        elif expected != word:
            return None
    return found
