"""Members of tars as bytes, such as `tarfile` does not write them."""

import tarfile

from ingest.formats import tar


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    return info.tobuf(tarfile.GNU_FORMAT)


def member(name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    return header(name, kind, len(content)) + content + b"\0" * (-len(content) % 512)


def pax(kind: bytes = tarfile.XHDTYPE, **records: str) -> bytes:
    lines = b""
    for name, value in records.items():
        line = f" {name}={value}\n".encode("utf-8", "surrogateescape")
        num_bytes = next(n for n in range(len(line), len(line) + 9) if len(str(n)) + len(line) == n)
        lines += b"%d%s" % (num_bytes, line)
    return member("pax", lines, kind)


END = tar.END


def sparse(name: str, stored: bytes, size: int) -> bytes:
    """An old GNU sparse member: `stored` at its beginning, then a hole up to `size` bytes."""
    block = bytearray(header(name, tarfile.GNUTYPE_SPARSE, len(stored)))
    block[345:512] = b"\0" * 167
    block[386:410] = b"%011o\0%011o\0" % (0, len(stored))
    block[483:495] = b"%011o\0" % size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + stored + b"\0" * (-len(stored) % 512)
