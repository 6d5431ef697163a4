"""A certificate's subject as Java writes it (RFC 2253): `CN=alice,OU=team,O=org`.

This text is the principal of a TLS client, and ACLs name it, so it must be Java's to the letter:
the most specific name first, the few attributes that RFC 2253 names, all others as their object
identifier with the value in hexadecimal. It is parsed from the certificate's bytes, because `ssl`
returns names without their types.
"""

from __future__ import annotations

from typing import Final, NamedTuple

KNOWN: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
ENCODINGS: Final = {
    0x0C: "utf-8",  # UTF8String
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # T61String
    0x16: "ascii",  # IA5String
    0x1B: "ascii",  # GeneralString
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}
ESCAPED: Final = ',=+<>#;"\\'
SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_IDENTIFIER: Final = 0x06
VERSION: Final = 0xA0
SUBJECT_PLACE: Final = 4  # after serial number, signature, issuer and validity


class DerElement(NamedTuple):
    """A piece of DER: its tag, its content, and all of it."""

    tag: int
    content: bytes
    whole: bytes


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate in DER; ValueError if the bytes are not a certificate."""
    try:
        outer = elements(certificate)[0]
        fields = elements(elements(outer.content)[0].content)
        if fields[0].tag == VERSION:
            fields = fields[1:]
        subject = fields[SUBJECT_PLACE]
    except IndexError:
        raise ValueError("not a certificate") from None
    if subject.tag != SEQUENCE:
        raise ValueError("not a certificate")
    return ",".join(_relative(element) for element in reversed(elements(subject.content)))


def _relative(element: DerElement) -> str:
    """One relative distinguished name; several attributes in it are joined by a plus sign."""
    if element.tag != SET:
        raise ValueError("not a relative distinguished name")
    return "+".join(_attribute(pair) for pair in elements(element.content))


def _attribute(pair: DerElement) -> str:
    kind, value = elements(pair.content)
    if kind.tag != OBJECT_IDENTIFIER:
        raise ValueError("not an attribute of a name")
    dotted = identifier(kind.content)
    name = KNOWN.get(dotted)
    if name is None or value.tag not in ENCODINGS:
        return f"{name or dotted}=#{value.whole.hex()}"
    return f"{name}={_escaped(value.content.decode(ENCODINGS[value.tag]))}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{char}" if char in ESCAPED else char for char in text)
    stripped = escaped.strip(" ")
    if not stripped:
        return "\\ " * len(escaped)
    before = len(escaped) - len(escaped.lstrip(" "))
    after = len(escaped) - len(escaped.rstrip(" "))
    return "\\ " * before + stripped + "\\ " * after


def identifier(content: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(number) for number in (first, numbers[0] - 40 * first, *numbers[1:]))


def elements(data: bytes) -> list[DerElement]:
    """The consecutive elements in `data`."""
    found: list[DerElement] = []
    position = 0
    while position < len(data):
        start = position
        tag, size = data[position], data[position + 1]
        position += 2
        if size & 0x80:
            width = size & 0x7F
            size = int.from_bytes(data[position : position + width], "big")
            position += width
        content = data[position : position + size]
        if len(content) != size:
            raise ValueError("the certificate is cut off")
        position += size
        found.append(DerElement(tag, content, data[start:position]))
    return found
