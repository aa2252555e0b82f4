"""ICC colour profiles: their tags, and a profile of those alone that decide how colours are shown. Source: ICC.1:2022,
sections 7 (header and tags) and 10 (types)."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ingest.images.files.magic import is_text
from ingest.images.files.pieces import Kind, Piece, unclaimed

_HEADER_BYTES, _ENTRY_BYTES = 128, 12
_MAX_TAGS = 100
_MAX_SMALL_BYTES = 4096
"""Limit of a known tag, but for those of `_TABLES`."""
_COLOURS = ("wtpt", "chad", "rXYZ", "gXYZ", "bXYZ", "rTRC", "gTRC", "bTRC", "kTRC")
"""White point, adaptation to it, primaries and curves."""
_TABLES = frozenset(
    f"{kind}{number}" for kind in ("A2B", "B2A", "D2B", "B2D", "pre") for number in range(4)
) | frozenset([*_COLOURS[5:], "gamt"])
_SMALL = frozenset(
    [
        *("wtpt", "chad", "rXYZ", "gXYZ", "bXYZ", "bkpt", "lumi", "meas", "view", "tech", "chrm", "cicp", "clrt"),
        *("clot", "clro", "calt", "cprt", "desc", "dmnd", "dmdd", "vued", "scrn", "scrd", "targ", "resp", "rig0"),
        *("rig2", "pseq", "psid", "ncl2", "ncol", "bfd ", "crdi", "devs", "meta", "MHC2"),
        *("dscm", "mmod", "ndin", "vcgt", "vcgp", "aarg", "aagg", "aabg"),  # of Apple
    ]
)
_BYTES_OF_TYPE = {b"XYZ ": 20, b"sf32": 44}
_PARA_NUMBERS = (1, 3, 4, 5, 7)
_MAX_CURVE = 4096
_STEEPEST = 10
"""Largest slope of a curve; that of gamma 2.4 is 2.4."""
_D50 = struct.pack(">3i", 63_190, 65_536, 54_061)


def profile_pieces(profile: bytes) -> Iterator[Piece]:
    """Yield the known tags, and what no known tag accounts for."""
    claimed = [(0, _HEADER_BYTES + 4)]
    for number, (name, first, last) in enumerate(_tags(profile)):
        if name in _TABLES or (name in _SMALL and last - first <= _MAX_SMALL_BYTES):
            entry = _HEADER_BYTES + 4 + number * _ENTRY_BYTES
            claimed += [(entry, entry + _ENTRY_BYTES), (first, last)]
    rest = b"".join(profile[first:last] for first, last in unclaimed(claimed, len(profile)))
    yield Piece(Kind.METADATA, profile)
    yield Piece(Kind.METADATA if is_text(rest) else Kind.UNKNOWN_CHUNK, rest)


def plain_profile(profile: bytes) -> bytes | None:
    """Return a profile with the same white point, primaries and curves, and nothing else but words that are always the
    same. None for other kinds of profiles, such as those of printers, and for damaged ones."""
    tags = {name: profile[first:last] for name, first, last in _tags(profile)}
    colours = {name: _plain_tag(tags[name]) for name in _COLOURS if name in tags}
    needed = ("kTRC",) if profile[16:20] == b"GRAY" else _COLOURS[2:8]
    if not all(colours.values()) or not colours.keys() >= {"wtpt", *needed} or profile[20:24] != b"XYZ ":
        return None
    return _made(profile, {name: content for name, content in colours.items() if content})


def _made(profile: bytes, colours: Mapping[str, bytes]) -> bytes:
    """Return a profile of the same version, kind and spaces, with these tags and words that are always the same."""
    contents = {"desc": _text(profile, b"colours"), "cprt": _text(profile, b"none"), **colours}
    version, kind, spaces = profile[8:10], profile[12:16], profile[16:24]
    table, data, offsets = struct.pack(">I", len(contents)), b"", dict[bytes, int]()
    for name, content in contents.items():
        if content not in offsets:
            offsets[content] = _HEADER_BYTES + 4 + len(contents) * _ENTRY_BYTES + len(data)
            data += content + b"\0" * (-len(content) % 4)
        table += name.encode() + struct.pack(">II", offsets[content], len(content))
    size = struct.pack(">I", _HEADER_BYTES + len(table) + len(data))
    intent = profile[64:68] if profile[64:68] in [bytes([0, 0, 0, number]) for number in range(4)] else b"\0" * 4
    head = size + b"\0" * 4 + version + b"\0\0" + kind + spaces + b"\0" * 12 + b"acsp" + b"\0" * 24 + intent
    return (head + _D50).ljust(_HEADER_BYTES, b"\0") + table + data


def _tags(profile: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield name, first and last byte of each tag."""
    for number in range(min(_MAX_TAGS, int.from_bytes(profile[_HEADER_BYTES : _HEADER_BYTES + 4]))):
        start = _HEADER_BYTES + 4 + number * _ENTRY_BYTES
        entry = profile[start : start + _ENTRY_BYTES]
        first, num_bytes = int.from_bytes(entry[4:8]), int.from_bytes(entry[8:12])
        yield entry[:4].decode("latin-1"), first, min(first + num_bytes, len(profile))


def _plain_tag(tag: bytes) -> bytes | None:
    """Return a tag of numbers without what follows them; None for other types, and for a curve not `_is_gentle`."""
    kind = tag[:4]
    if kind == b"para" and tag[8:9] == b"\0" and tag[9:10] < bytes([len(_PARA_NUMBERS)]):
        num_bytes = 12 + 4 * _PARA_NUMBERS[tag[9]]
        plain = kind + b"\0" * 4 + tag[8:10] + b"\0\0" + tag[12:num_bytes]
        numbers = [number / 65_536 for (number,) in struct.iter_unpack(">i", tag[12:num_bytes])]
        if len(plain) != num_bytes or not _is_gentle(_drawn(tag[9], numbers)):
            return None
    elif kind == b"curv" and (count := int.from_bytes(tag[8:12])) <= _MAX_CURVE:
        num_bytes = 12 + 2 * count
        plain = kind + b"\0" * 4 + tag[8:num_bytes]
        steps = [number / 65_535 for (number,) in struct.iter_unpack(">H", tag[12:num_bytes])]
        if len(plain) != num_bytes or not _is_gentle(_drawn(0, [steps[0] * 65_535 / 256]) if count == 1 else steps):
            return None
    elif kind in _BYTES_OF_TYPE:
        num_bytes = _BYTES_OF_TYPE[kind]
        plain = kind + b"\0" * 4 + tag[8:num_bytes]
    else:
        return None
    return plain if len(plain) == num_bytes else None


def _drawn(kind: int, numbers: Sequence[float]) -> list[float] | None:
    """Return a parametric curve at 257 places (ICC.1:2022, section 10.18); None if it has no value at one of them."""
    gamma, a, b, c, d, e, f = (*numbers, *[0.0] * 7)[:7] if kind else (numbers[0], 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if kind in (1, 2):  # below -b / a the curve is flat; c is an offset
        d, e, f, c = (-b / a if a else 0.0), c, c, 0.0
    try:
        places = (number / 256 for number in range(257))
        values = [(a * x + b) ** gamma + e if x >= d else c * x + f for x in places]
        drawn = [value for value in values if isinstance(value, float)]  # else the root of a negative number
    except (OverflowError, ZeroDivisionError):
        return None
    return drawn if len(drawn) == 257 else None


def _is_gentle(curve: Sequence[float] | None) -> bool:
    """Return whether a curve rises, and nowhere so steeply that it shows what differs by a level or two in the file."""
    if curve is None:
        return False
    steepest = _STEEPEST / max(1, len(curve) - 1)
    return all(0 <= after - before <= steepest for before, after in pairwise(curve))


def _text(profile: bytes, words: bytes) -> bytes:
    """Return words as a tag of the profile's version."""
    if profile[8:9] >= b"\4":
        wide = words.decode().encode("utf-16-be")
        return b"mluc" + struct.pack(">4xII2s2sII", 1, 12, b"en", b"US", len(wide), 28) + wide
    return b"desc" + struct.pack(">4xI", len(words) + 1) + words + b"\0" * 79
