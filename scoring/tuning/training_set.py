"""The folder that `tune-set` writes: WebDataset shards, and set.json, which is written last.

    SET/set.json                 what the set is: `SetRecord`
    SET/train-000000.tar         per picture its file as it was, and a JSON with what the model should answer
    SET/validation-000000.tar    the same, for pictures that are held back

A folder without set.json is not whole and is refused.
"""

import hashlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ingest.errors import EngineError, LabelsError
from scoring.protocols import protocol
from scoring.protocols.interface import Protocol, ProtocolOptions
from scoring.tuning.targets import Target

RECORD = "set.json"
SPLITS = ("train", "validation")
FORMAT_VERSION = 1
BLOCK_BYTES = 2**20


class SetRecord(BaseModel):
    """The content of set.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format_version: int
    privsieve_version: str
    target: str
    """slots, severity, binary or dialogue."""

    protocol: str
    """Name of the protocol whose prompt the model is tuned on, with variants."""

    protocol_version: str
    prompt_file: str | None
    """Content of the --prompt-file, null if the shipped texts were used."""

    source: str
    labels_sha256: str
    """Of the labels file."""

    annotators: tuple[str, ...]
    licences: tuple[str, ...]
    """Of the labels and, where given, of the pictures."""

    draw: dict[str, object]
    """What was drawn: the fields of `drawing.Draw`."""

    keeps_ambiguous: bool
    """Whether 0.5 is a class of its own; else it counts as 0."""

    num_labelled: int
    """Pictures of the source that have a usable label."""

    num_without_target: int
    """Pictures whose label does not say what this target needs."""

    num_unreadable: int
    """Pictures of the source that cannot be decoded."""

    num_excluded: dict[str, int]
    """Left out since an evaluation set holds the same file (`sha256`) or a near duplicate of it (`phash`)."""

    num_groups: int
    """Groups of near duplicates among the pictures of the set."""

    counts: dict[str, dict[str, int]]
    """Split -> class or level -> number of pictures."""

    num_values: dict[str, dict[str, int]]
    """Attribute -> value -> number of training pictures; empty unless the target is slots."""

    files: dict[str, str]
    """Shard -> its sha256."""


@dataclass(frozen=True)
class Item:
    """One picture of a training set."""

    shard: Path
    offset: int
    """Of the encoded picture in the shard."""

    num_bytes: int
    key: str
    class_name: str | None
    target: Target

    def encoded(self) -> bytes:
        with self.shard.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.num_bytes)


@dataclass(frozen=True)
class TrainingSet:
    """A whole training set on this machine."""

    folder: Path
    record: SetRecord

    @cached_property
    def digest(self) -> str:
        """sha256 in hex of set.json, which names the hash of every shard."""
        return hashlib.sha256((self.folder / RECORD).read_bytes()).hexdigest()

    def protocol(self) -> Protocol:
        """The protocol with whose prompt the set was made. LabelsError if this version asks in other words."""
        texts = None if self.record.prompt_file is None else self.record.prompt_file.encode()
        try:
            now = protocol(self.record.protocol, ProtocolOptions(texts))
        except EngineError as error:
            raise LabelsError(f"{self.folder}: its protocol cannot be used: {error}; make the set again") from None
        if now.version != self.record.protocol_version:
            raise LabelsError(
                f'{self.folder}: was made for "{self.record.protocol_version}", and this version of privsieve asks '
                f'"{now.version}"; make the set again with tune-set'
            )
        return now

    def items(self, split: str) -> list[Item]:
        """The pictures of a split, in the order of the shards. LabelsError if a shard is damaged."""
        names = sorted(name for name in self.record.files if name.startswith(f"{split}-"))
        return [item for name in names for item in _items(self.folder / name)]

    def check_files(self) -> None:
        """LabelsError if a shard is missing or has changed."""
        for name, sha256 in self.record.files.items():
            if not (self.folder / name).is_file():
                raise LabelsError(f"{self.folder}: {name} is missing; make the set again")
            if file_sha256(self.folder / name) != sha256:
                raise LabelsError(f"{self.folder}: {name} has changed since the set was made; make the set again")


def open_set(folder: str) -> TrainingSet:
    """LabelsError if the folder holds no whole training set of a version that is known."""
    root = Path(folder).expanduser()
    if not (root / RECORD).is_file():
        raise LabelsError(f"{folder}: holds no training set ({RECORD} is missing); make one with tune-set")
    try:
        content = json.loads((root / RECORD).read_bytes())
        if isinstance(content, dict) and content.get("format_version") != FORMAT_VERSION:
            raise LabelsError(
                f"{folder}: its format_version is {content.get('format_version')}, and {FORMAT_VERSION} is known; "
                "make the set again with this version of privsieve"
            )
        record = SetRecord.model_validate(content)
    except (ValueError, ValidationError):
        raise LabelsError(f"{folder}: its {RECORD} is damaged; make the set again") from None
    if any(Path(name).name != name for name in record.files):
        raise LabelsError(f"{folder}: its {RECORD} names a file outside of the folder; make the set again")
    return TrainingSet(root, record)


def described(target: Target, class_name: str | None, key: str, sha256: str, group: int) -> dict[str, object]:
    """What the JSON beside a picture holds."""
    return {"target": asdict(target), "class": class_name, "key": key, "sha256": sha256, "group": group}


def file_sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _items(shard: Path) -> Iterator[Item]:
    """A picture comes before its JSON: the names of both sort alike, and `json` follows no image extension."""
    try:
        with tarfile.open(shard, "r:") as tar:
            members = [member for member in tar if member.isreg()]
            by_stem: dict[str, dict[bool, tarfile.TarInfo]] = {}
            for member in members:
                stem, _, extension = member.name.partition(".")
                by_stem.setdefault(stem, {})[extension == "json"] = member
            for pair in by_stem.values():
                picture, described_by = pair[False], pair[True]
                told = tar.extractfile(described_by)
                assert told is not None
                yield _item(shard, picture, json.loads(told.read()))
    except (tarfile.TarError, KeyError, ValueError, TypeError, OSError):
        raise LabelsError(f"{shard}: is damaged; make the set again") from None


def _item(shard: Path, picture: tarfile.TarInfo, content: dict[str, object]) -> Item:
    target = content["target"]
    assert isinstance(target, dict)
    slots = target["slots"]
    made = Target(None if slots is None else tuple(slots), target["answer"])
    class_name = content["class"]
    return Item(
        shard,
        picture.offset_data,
        picture.size,
        str(content["key"]),
        None if class_name is None else str(class_name),
        made,
    )
