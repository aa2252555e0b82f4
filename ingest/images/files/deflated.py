"""How much of deflated pixel data a picture needs. The rest is never shown."""

import zlib

from ingest.images.files.pieces import IGNORED_BYTES

_HEADER_BYTES, _CHECKSUM_BYTES = 2, 4
_READ_BYTES, _UNPACKED_BYTES = 2**16, 2**20
"""Bytes read and unpacked at a time, so that memory does not grow with the picture."""


def used_bytes(packed: bytes, num_needed: int) -> int:
    """Return where the zlib stream ends, or where the bytes that a picture needs end if more follow.

    The checksum is left to the decoder, which saves a fifth of the time.
    """
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    offset, num_left = min(_HEADER_BYTES, len(packed)), num_needed
    last = offset
    while offset < len(packed):
        given = packed[offset : offset + _READ_BYTES]
        offset += len(given)
        while given and not unpacker.eof:
            try:
                unpacked = unpacker.decompress(given, max(1, min(num_left, _UNPACKED_BYTES)))
            except zlib.error:
                return last
            if unpacked and not num_left:
                return last
            num_left -= len(unpacked)
            given = unpacker.unconsumed_tail
            if unpacked:
                last = offset - len(given)
        if unpacker.eof:
            end = min(offset - len(unpacker.unused_data) + _CHECKSUM_BYTES, len(packed))
            return end if num_left or end - last <= IGNORED_BYTES else last
    # Blocks that unpack to nothing can hold much.
    return len(packed) if num_left or len(packed) - last <= IGNORED_BYTES else last
