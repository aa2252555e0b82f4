"""The folder that `tune set` writes: WebDataset shards, and set.json, which is written last.

    SET/set.json                 description of the set: `SetRecord`
    SET/train-000000.tar         per picture its original file, and a JSON with the expected answer
    SET/validation-000000.tar    the same, for pictures that are held back

A folder without set.json is incomplete and is refused.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ingest.errors import EngineError, LabelsError
from ingest.storage.file_format import FORMAT, Format, refuse_other_format
from ingest.storage.place import place, reason_of
from scoring.protocols import protocol
from scoring.protocols.interface import Protocol
from scoring.taxonomy import KEYS
from scoring.tuning.targets import Target, TargetKind

RECORD = "set.json"
UNFINISHED = "unfinished"
"""Name of a file that is in the folder while the set is made."""

SPLITS = ("train", "validation")
SHARD_NAME = re.compile(r"(train|validation)-[0-9]{6,9}\.tar")

MAX_RECORD_BYTES = 2**26
MAX_ITEM_BYTES = 2**20
"""Limit of the JSON of one picture."""


class SetRecord(BaseModel):
    """The content of set.json; fields that an older version wrote, and this one needs not, are left out."""

    model_config = ConfigDict(frozen=True)

    format: Format = FORMAT
    privsieve_version: str
    target: TargetKind
    protocol: str
    """Name of the protocol whose prompt the model is tuned on, with variants."""

    protocol_version: str
    prompt_file: str | None
    """Content of the --prompt-file, null if the shipped texts were used."""

    source: str
    labels_sha256: str
    annotators: tuple[str, ...]
    licences: tuple[str, ...]
    """Licences of the labels."""

    draw: dict[str, object]
    """The draw: number of pictures, share that is held back, seed."""

    num_pictures: int
    """Number of pictures of the source: the sum of the five numbers below, of `num_listed` and of
    `num_not_compared`."""

    num_labelled: int
    """Number of distinct pictures with a usable label."""

    num_copies: int
    """Number of further files with the bytes of one of these; a picture is used once."""

    num_without_target: int
    """Number of labelled pictures whose label, or missing conversation, gives no expected answer."""

    num_unreadable: int
    """Number of pictures that cannot be read, and labelled ones that cannot be decoded."""

    num_unlabelled: int

    num_listed: int = 0
    """Number of labelled pictures, with copies, on the operator's hash list: never copied."""

    num_not_compared: int = 0
    """Number of labelled pictures that cannot be fully compared with the list: never copied either."""

    num_unused_labels: int
    """Number of labels without a picture in the source."""

    num_excluded: dict[str, int]
    """Numbers left out since an evaluation set holds the same file (`sha256`) or a near duplicate of it (`phash`)."""

    num_groups: int
    """Number of groups of near duplicates among the pictures of the set."""

    counts: dict[str, dict[str, int]]
    """Split -> class or level -> number of pictures; `pictures` is all of them."""

    num_values: dict[str, dict[str, int]]
    """Attribute -> value -> number of training pictures; empty unless the target is slots."""

    files: dict[str, str]
    """Shard -> its sha256."""

    @property
    def num_not_drawn(self) -> int:
        """Number of usable pictures, in no evaluation set, that were not drawn."""
        num_drawn = sum(self.counts[split]["pictures"] for split in SPLITS)
        return self.num_labelled - sum(self.num_excluded.values()) - num_drawn

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        total = self.num_labelled + self.num_copies + self.num_without_target
        total += self.num_unreadable + self.num_unlabelled + self.num_listed + self.num_not_compared
        has_counts = set(self.counts) == set(SPLITS) and all("pictures" in numbers for numbers in self.counts.values())
        if not has_counts or not set(self.num_excluded) >= {"sha256", "phash"}:
            raise ValueError("counts are missing")
        if total != self.num_pictures or self.num_not_drawn < 0:
            raise ValueError("the counts do not add up")
        if not all(SHARD_NAME.fullmatch(name) for name in self.files):
            raise ValueError("a file has another name than a shard")
        return self


class _Described(BaseModel):
    """The JSON next to a picture."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Target
    class_name: Annotated[str | None, Field(alias="class")]
    key: str
    sha256: str
    group: str
    """Group of near duplicates: the smallest sha256 among them."""


@dataclass(frozen=True)
class Item:
    """One picture of a training set."""

    shard: Path
    offset: int
    """Offset of the encoded picture in the shard."""

    num_bytes: int
    key: str
    class_name: str | None
    target: Target

    def encoded(self) -> bytes:
        try:
            with self.shard.open("rb") as file:
                file.seek(self.offset)
                return file.read(self.num_bytes)
        except OSError as error:
            raise LabelsError(f"{self.shard}: cannot be read: {reason_of(error)}") from None


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
        """Return the protocol of the set's prompt. LabelsError if the wording has changed in this version."""
        texts = None if self.record.prompt_file is None else self.record.prompt_file.encode()
        try:
            now = protocol(self.record.protocol, texts)
        except EngineError as error:
            raise LabelsError(f"{self.folder}: its protocol cannot be used: {error}; make the set again") from None
        if now.version != self.record.protocol_version:
            raise LabelsError(
                f'{self.folder}: was made for "{self.record.protocol_version}", and this version of privsieve asks '
                f'"{now.version}"; make the set again with tune set'
            )
        return now

    def items(self, split: str) -> list[Item]:
        """Return the pictures of a split, in the order of the shards. LabelsError if a shard is damaged."""
        names = sorted(name for name in self.record.files if name.startswith(f"{split}-"))
        items = [item for name in names for item in _items(self.folder / name, self.record.target)]
        wanted = self.record.counts[split]["pictures"]
        if len(items) != wanted:
            raise LabelsError(
                f"{self.folder}: holds {len(items)} pictures of the split {split}, and its {RECORD} says {wanted}; "
                "make the set again"
            )
        return items

    def check_files(self) -> None:
        """Raise LabelsError if a shard is missing or has changed."""
        for name, sha256 in self.record.files.items():
            if not (self.folder / name).is_file():
                raise LabelsError(f"{self.folder}: {name} is missing; make the set again")
            if file_sha256(self.folder / name) != sha256:
                raise LabelsError(f"{self.folder}: {name} has changed since the set was made; make the set again")


def open_set(folder: str) -> TrainingSet:
    """Open a training set. LabelsError if the folder holds no complete one of a known version."""
    root_place = place(folder)
    if not root_place.is_local:
        raise LabelsError(f"{folder}: a training set is read from a folder of this machine; copy it here")
    root = Path(root_place.path)
    if not (root / RECORD).is_file():
        if (root / UNFINISHED).is_file():
            raise LabelsError(f"{folder}: its tune set was interrupted; run the same command again")
        raise LabelsError(f"{folder}: holds no training set ({RECORD} is missing); make one with tune set")
    try:
        if (root / RECORD).stat().st_size > MAX_RECORD_BYTES:
            raise ValueError("too large")
        content = json.loads((root / RECORD).read_bytes())
        refuse_other_format(content, f"{folder}: its {RECORD}", "make the set again", LabelsError)
        return TrainingSet(root, SetRecord.model_validate(content))
    except OSError as error:
        raise LabelsError(f"{root / RECORD}: cannot be read: {reason_of(error)}") from None
    except (ValueError, RecursionError):
        raise LabelsError(f"{folder}: its {RECORD} is damaged; make the set again") from None


def described(target: Target, class_name: str | None, key: str, sha256: str, group: str) -> dict[str, object]:
    """Return the content of the JSON next to a picture, without empty fields of the target."""
    has = {name: value for name, value in asdict(target).items() if value is not None}
    return {"target": has, "class": class_name, "key": key, "sha256": sha256, "group": group}


def file_sha256(file: Path) -> str:
    """Hash a file. LabelsError if it cannot be read."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise LabelsError(f"{file}: cannot be read: {reason_of(error)}") from None


def _items(shard: Path, kind: str) -> Iterator[Item]:
    """Yield the pictures of a shard. The members of a picture differ in the text after the first dot of the name."""
    try:
        with tarfile.open(shard, "r:") as tar:
            by_stem: dict[str, dict[bool, tarfile.TarInfo]] = {}
            for member in tar:
                stem, _, extension = member.name.partition(".")
                pair = by_stem.setdefault(stem, {})
                if not member.isreg() or member.sparse is not None or (extension == "json") in pair:
                    raise ValueError("not as tune set writes it")
                pair[extension == "json"] = member
            for pair in by_stem.values():
                picture, json_stream = pair[False], tar.extractfile(pair[True])
                assert json_stream is not None
                content = json_stream.read(MAX_ITEM_BYTES + 1)
                if len(content) > MAX_ITEM_BYTES:
                    raise ValueError("too large")
                yield _item(shard, picture, _Described.model_validate_json(content, strict=True), kind)
    except (tarfile.TarError, KeyError, ValueError, EOFError, OverflowError, OSError):
        raise LabelsError(f"{shard}: is damaged; make the set again") from None


def _item(shard: Path, picture: tarfile.TarInfo, content: _Described, kind: str) -> Item:
    """Make an item. ValueError if the target is of another kind than the set's."""
    target = content.target
    fields = (target.slots, target.answer, target.turns)
    wanted = {"slots": target.slots, "dialogue": target.turns}.get(kind, target.answer)
    if wanted is None or sum(field is not None for field in fields) != 1:
        raise ValueError("a target of another kind")
    if target.slots is not None and (len(target.slots) != len(KEYS) or not set(target.slots) <= {0, 1, 2, None}):
        raise ValueError("slots that are none")
    return Item(shard, picture.offset_data, picture.size, content.key, content.class_name, target)
