"""Kerberos by MIT's libgssapi_krb5 (RFC 2744), which Debian calls libgssapi-krb5-2.

    library = gss_library()                                   ImportError if it is not installed
    service = library.acceptor("kafka/host@REALM", keytab)    a service's own key
    user = library.initiator(keytab=..., principal=...)       a user's ticket
    service.accept(), user.initiate("kafka@host")             one login each: a GssContext

Only what SASL needs is declared. Every object that the library makes is released by its owner, and
the library reads and writes only memory that it has allocated itself or that lives through a call.
`step` of a user's context asks the KDC over the network; a service's context reads its keytab and
writes the replay cache, and asks no other process.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any, Final

from ottla.auth.gssapi import GssFailure

SONAME: Final = "libgssapi_krb5.so.2"

INITIATE: Final = 1
ACCEPT: Final = 2
MUTUAL, INTEGRITY, ANONYMOUS = 2, 32, 64
INDEFINITE: Final = 0xFFFFFFFF
CONTINUE_NEEDED: Final = 1
ERRORS: Final = 0xFFFF0000  # of a major status; the rest only informs
MECHANISM_CODE: Final = 2  # of gss_display_status: the minor status
GSS_CODE: Final = 1
SENTENCES_MAX: Final = 4  # of one status


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _KeyValue(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _KeyValues(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_KeyValue)))


def _oid(elements: bytes) -> _Oid:
    return _Oid(len(elements), elements)


KRB5: Final = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
PRINCIPAL_NAME: Final = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")
HOSTBASED_SERVICE: Final = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04")

_BUFFER, _OID, _NUMBER, _HANDLE = POINTER(_Buffer), POINTER(_Oid), POINTER(c_uint32), c_void_p
_HANDLES = POINTER(c_void_p)
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "import_name": (_BUFFER, _OID, _HANDLES),
    "canonicalize_name": (_HANDLE, _OID, _HANDLES),
    "display_name": (_HANDLE, _BUFFER, POINTER(_OID)),
    "release_name": (_HANDLES,),
    "release_buffer": (_BUFFER,),
    "acquire_cred_from": (
        *(_HANDLE, c_uint32, POINTER(_OidSet), c_int, POINTER(_KeyValues)),
        *(_HANDLES, c_void_p, _NUMBER),
    ),
    "release_cred": (_HANDLES,),
    "accept_sec_context": (
        *(_HANDLES, _HANDLE, _BUFFER, c_void_p, _HANDLES, POINTER(_OID), _BUFFER),
        *(_NUMBER, _NUMBER, _HANDLES),
    ),
    "init_sec_context": (
        *(_HANDLE, _HANDLES, _HANDLE, _OID, c_uint32, c_uint32, c_void_p, _BUFFER),
        *(POINTER(_OID), _BUFFER, _NUMBER, _NUMBER),
    ),
    "delete_sec_context": (_HANDLES, _BUFFER),
    "wrap": (_HANDLE, c_int, c_uint32, _BUFFER, POINTER(c_int), _BUFFER),
    "unwrap": (_HANDLE, _BUFFER, _BUFFER, POINTER(c_int), _NUMBER),
    "display_status": (c_uint32, c_int, _OID, _NUMBER, _BUFFER),
}


@functools.cache
def gss_library() -> GssLibrary:
    """ImportError if the library is not installed."""
    try:
        return GssLibrary(ctypes.CDLL(SONAME))
    except (OSError, AttributeError) as error:
        raise ImportError(f"Kerberos needs {SONAME}: apt-get install libgssapi-krb5-2") from error


class GssLibrary:
    """The library's functions, called without their prefix (gss_) and their minor status."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._functions = {name: getattr(library, f"gss_{name}") for name in _FUNCTIONS}
        for name, arguments in _FUNCTIONS.items():
            self._functions[name].argtypes = (_NUMBER, *arguments)
            self._functions[name].restype = c_uint32

    def acceptor(self, principal: str, keytab: str) -> GssCredential:
        """A service's key. GssFailure if the keytab has no key for it."""
        name = self._name(principal, PRINCIPAL_NAME)
        return self._credential(name, ACCEPT, {"keytab": keytab})

    def initiator(self, *, principal: str = "", keytab: str = "", cache: str = "") -> GssCredential:
        """A user's ticket: with a keytab it is fetched when needed and renewed before it expires;
        without one it comes from `cache`. GssFailure if there is neither."""
        paths = {"client_keytab": keytab, "ccache": cache}
        name = self._name(principal, PRINCIPAL_NAME) if principal else None
        return self._credential(name, INITIATE, {key: at for key, at in paths.items() if at})

    def full_name(self, principal: str) -> str:
        """`principal` with this machine's realm if it has none."""
        given, found = self._name(principal, PRINCIPAL_NAME), GssHandle(self, "release_name")
        self.call("canonicalize_name", given.value, byref(KRB5), byref(found.value))
        return self.shown(found)

    def service_name(self, text: str) -> GssHandle:
        """`kafka@host`."""
        return self._name(text, HOSTBASED_SERVICE)

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function and return its major status; GssFailure with the library's message."""
        minor = c_uint32()
        major = int(self._functions[name](byref(minor), *arguments))
        if major & ERRORS:
            raise GssFailure(self._words(major, minor.value))
        return major

    def taken(self, buffer: _Buffer) -> bytes:
        """The bytes of a buffer that the library has filled; releases the buffer."""
        try:
            return ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
        finally:
            self.release("release_buffer", buffer)

    def release(self, name: str, handle: Any, *more: Any) -> None:
        self._functions[name](byref(c_uint32()), byref(handle), *more)

    def shown(self, name: GssHandle) -> str:
        display_name = _Buffer()
        self.call("display_name", name.value, byref(display_name), None)
        return self.taken(display_name).decode(errors="surrogateescape")

    def _name(self, text: str, kind: _Oid) -> GssHandle:
        data, found = lent(text.encode(errors="surrogateescape")), GssHandle(self, "release_name")
        self.call("import_name", byref(data), byref(kind), byref(found.value))
        return found

    def _credential(
        self, name: GssHandle | None, usage: int, paths: Mapping[str, str]
    ) -> GssCredential:
        found = GssHandle(self, "release_cred")
        pairs = (_KeyValue * len(paths))(
            *(_KeyValue(key.encode(), path.encode()) for key, path in paths.items())
        )
        store = _KeyValues(len(paths), pairs)
        # Kerberos only: SPNEGO would let the peer choose among all installed mechanisms.
        only = _OidSet(1, ctypes.pointer(KRB5))
        self.call(
            "acquire_cred_from",
            *(None if name is None else name.value, INDEFINITE, byref(only), usage),
            *(byref(store), byref(found.value), None, None),
        )
        return GssCredential(self, found)

    def _words(self, major: int, minor: int) -> str:
        """The message for operators. It may quote the peer, so control characters are replaced."""
        messages = self._sentences(minor, MECHANISM_CODE) or self._sentences(major, GSS_CODE)
        text = ": ".join(messages)
        return "".join(letter if letter.isprintable() else "?" for letter in text)

    def _sentences(self, status: int, kind: int) -> list[str]:
        more, messages = c_uint32(), []
        for _ in range(SENTENCES_MAX if status else 0):
            buffer = _Buffer()
            try:
                arguments = (status, kind, byref(KRB5), byref(more), byref(buffer))
                self._functions["display_status"](byref(c_uint32()), *arguments)
            finally:
                messages.append(self.taken(buffer).decode(errors="replace"))
            if not more.value:
                break
        return messages


class GssHandle:
    """A resource of the library, released with its owner."""

    def __init__(self, library: GssLibrary, release: str, *arguments: Any) -> None:
        self.value = c_void_p()
        self._library = library
        self._release = release
        self._arguments = arguments

    def __del__(self) -> None:
        if self.value:
            self._library.release(self._release, self.value, *self._arguments)


class GssCredential:
    """A service's key or a user's ticket; threads may share it."""

    def __init__(self, library: GssLibrary, handle: GssHandle) -> None:
        self._library = library
        self._handle = handle

    def accept(self) -> LibraryContext:
        return LibraryContext(self._library, self._handle, None)

    def initiate(self, service: str) -> LibraryContext:
        """A context as the client of `service`, such as `kafka@host`."""
        return LibraryContext(self._library, self._handle, self._library.service_name(service))


class LibraryContext:
    """A GssContext: a service's if `target` is None, else a user's."""

    def __init__(
        self, library: GssLibrary, credential: GssHandle, target: GssHandle | None
    ) -> None:
        self.complete = False
        self.peer = ""
        self.lifetime_s: int | None = None
        self._library = library
        self._credential = credential
        self._target = target
        self._context = GssHandle(library, "delete_sec_context", None)

    def step(self, token: bytes) -> bytes:
        assert not self.complete
        answer, flags, seconds = _Buffer(), c_uint32(), c_uint32()
        try:
            if self._target is None:
                major = self._accept(token, answer, flags, seconds)
            else:
                major = self._initiate(self._target, token, answer, flags, seconds)
        finally:
            output_token = self._library.taken(answer)
        self.complete = not major & CONTINUE_NEEDED
        if self.complete:
            self._check(flags.value)
            self.lifetime_s = None if seconds.value == INDEFINITE else seconds.value
        return output_token

    def wrap(self, data: bytes) -> bytes:
        wrapped = _Buffer()
        self._library.call(
            "wrap", self._context.value, 0, 0, byref(lent(data)), None, byref(wrapped)
        )
        return self._library.taken(wrapped)

    def unwrap(self, data: bytes) -> bytes:
        wrapped = _Buffer()
        self._library.call(
            "unwrap", self._context.value, byref(lent(data)), byref(wrapped), None, None
        )
        return self._library.taken(wrapped)

    def _accept(self, token: bytes, answer: _Buffer, flags: c_uint32, seconds: c_uint32) -> int:
        peer = GssHandle(self._library, "release_name")
        major = self._library.call(
            "accept_sec_context",
            *(byref(self._context.value), self._credential.value, byref(lent(token)), None),
            *(byref(peer.value), None, byref(answer), byref(flags), byref(seconds), None),
        )
        if peer.value:
            self.peer = self._library.shown(peer)
        return major

    def _initiate(
        self, target: GssHandle, token: bytes, answer: _Buffer, flags: c_uint32, seconds: c_uint32
    ) -> int:
        return self._library.call(
            "init_sec_context",
            *(self._credential.value, byref(self._context.value), target.value, byref(KRB5)),
            *(MUTUAL | INTEGRITY, 0, None, byref(lent(token)) if token else None, None),
            *(byref(answer), byref(flags), byref(seconds)),
        )

    def _check(self, flags: int) -> None:
        if flags & ANONYMOUS:
            raise GssFailure("an anonymous ticket")
        if not flags & INTEGRITY or (self._target is not None and not flags & MUTUAL):
            raise GssFailure("a context without integrity, or whose other side is not proven")


def lent(data: bytes) -> _Buffer:
    """Bytes for a call: the buffer keeps them alive."""
    buffer = _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))
    buffer.owner = data
    return buffer
