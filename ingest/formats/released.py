"""Input and result of every format's `write`: which samples of a shard are released, and what was written.

A corpus may have changed since it was scanned. Then the decisions are about other pictures, and nothing of the shard
may be released. The hash of every copied image shows whether that happened.
"""

import json
from dataclasses import asdict, dataclass

from ingest.errors import IncompleteError
from ingest.formats.members import Members
from ingest.sample import printable

RELEASE = "release.json"

DECISIONS = "decisions.parquet"
"""Files next to the shards of a release; they are known here so that a release can be scanned again."""


@dataclass(frozen=True)
class Kept:
    """The samples of a shard that are released."""

    sha256: dict[int, str]
    """Index -> hash of the encoded image as it was scanned."""

    num_samples: int | None
    """Samples that the shard had when it was scanned; None if only some of them were scanned."""

    members: Members = "listed"
    """Which files or columns are released with the images."""

    category: str | None = None
    """Source of the category, as in `Source`."""

    def check_number(self, shard: str, num_found: int) -> None:
        """IncompleteError if the number of samples has changed."""
        too_few = num_found <= max(self.sha256, default=-1)
        if too_few or self.num_samples not in (None, num_found):
            expected = "more" if self.num_samples is None else str(self.num_samples)
            raise changed(shard, f"it has {num_found} samples, and had {expected}")

    def check_image(self, shard: str, index: int, key: str, sha256: str | None) -> None:
        """IncompleteError if `sha256` of a kept sample's image (None if it has none) differs from the scan's."""
        if sha256 != self.sha256[index]:
            raise changed(shard, f"sample {printable(key)} holds another image")


@dataclass(frozen=True)
class Written:
    """What was written of a shard."""

    num_samples: int

    files: dict[str, str]
    """Name relative to the release -> sha256 of the file, in hex."""

    dropped: dict[int, str]
    """Index -> why this kept sample was not written after all."""

    left_out: dict[str, int]
    """Files and columns of the written samples that were not released: extension, or "column " and a name -> number."""

    def to_json(self) -> str:
        """ASCII only: undecodable file names survive as lone surrogate escapes."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | bytes) -> "Written":
        """ValueError if the text is damaged or from an older version."""
        content = json.loads(text)
        try:
            dropped = {int(index): str(why) for index, why in content["dropped"].items()}
            return Written(int(content["num_samples"]), dict(content["files"]), dropped, dict(content["left_out"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("not a record of what was written") from error


def changed(shard: str, what: str) -> IncompleteError:
    """Return the error for a shard that has changed since the scan."""
    return IncompleteError(
        f"{printable(shard)} has changed since it was scanned: {what}; nothing is released; "
        "restore it, or scan the source into a new run"
    )
