"""How image metadata names its columns. Names are compared in lower case; a name without an entry is kept."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MetadataColumn:
    """A column that metadata has under several names."""

    name: str
    """In what `fetch` writes."""

    known: tuple[str, ...]
    """Names for the same thing, the preferred one first."""

    meaning: str


COLUMNS: tuple[MetadataColumn, ...] = (
    MetadataColumn("url", ("url", "image_url", "img_url", "image_link"), "address of the image"),
    MetadataColumn(
        "caption",
        ("caption", "text", "txt", "alt_text", "alt", "top_caption", "title"),
        "the text that goes with it",
    ),
    MetadataColumn("source_key", ("key", "uid", "sample_id", "image_id", "id"), "the data set's own name of the row"),
    MetadataColumn("source_width", ("original_width", "width"), "width that the metadata states, px"),
    MetadataColumn("source_height", ("original_height", "height"), "height that the metadata states, px"),
    MetadataColumn("source_sha256", ("sha256",), "hash that the metadata states of the image file"),
    MetadataColumn("hash", ("hash",), "the data set's hash of the row, not of the image"),
    MetadataColumn("license", ("license", "licence"), "licence that the page stated"),
    MetadataColumn("nsfw", ("nsfw",), "a label, UNLIKELY, UNSURE or NSFW"),
    MetadataColumn("punsafe", ("punsafe", "p_unsafe"), "probability that the image is not safe for work, 0–1"),
    MetadataColumn("pwatermark", ("pwatermark", "p_watermark"), "probability of a watermark, 0–1"),
    MetadataColumn("similarity", ("similarity",), "cosine of image and text in the data set's own CLIP model"),
    MetadataColumn("category", ("category",), "class that the data set gives"),
)
"""Probabilities and similarities of other models (COYO's, DataComp's) mean something else and keep their names."""

RESERVED = frozenset(
    """caption url key status error_message width height original_width original_height exif md5 sha256
    sha512""".split()  # noqa: SIM905
)
"""Columns that img2dataset writes itself."""


def normalised_names(names: Sequence[str]) -> dict[str, str]:
    """Name in the metadata -> name in what is written, one for each and no two the same.

    >>> normalised_names(["URL", "TEXT", "WIDTH", "punsafe"])
    {'URL': 'url', 'TEXT': 'caption', 'WIDTH': 'source_width', 'punsafe': 'punsafe'}
    """
    by_lower = {name.lower(): name for name in reversed(names)}
    chosen: dict[str, str] = {}
    for column in COLUMNS:
        found = next((by_lower[known] for known in column.known if known in by_lower), None)
        if found is not None:
            chosen[found] = column.name
    taken = set(chosen.values())
    for name in names:
        if name not in chosen:
            wanted = f"source_{name.lower()}" if name.lower() in RESERVED else name.lower()
            while wanted in taken:
                wanted += "_2"
            chosen[name] = wanted
            taken.add(wanted)
    return {name: chosen[name] for name in names}
