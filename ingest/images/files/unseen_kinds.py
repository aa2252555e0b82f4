"""Kinds of content of a file that no engine sees; `ingest.images.files.unseen` finds them.

A module of its own, since the schema of the rows needs no decoder.
"""

FRAMES = "frames"
TRAILING_DATA = "trailing_data"
EMBEDDED_IMAGE = "embedded_image"
UNKNOWN_CHUNK = "unknown_chunk"

UNSEEN_KINDS = {
    EMBEDDED_IMAGE: "another picture inside the file, unless it is a smaller copy of what was scanned",
    FRAMES: "frames or pages after those that were scanned",
    TRAILING_DATA: "data after the end of the picture",
    UNKNOWN_CHUNK: "a part of the file that is neither a picture nor known metadata",
}
"""Every kind and its meaning."""
