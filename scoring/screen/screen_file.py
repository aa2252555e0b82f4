"""The folder of a screen: screen.json, screen.safetensors, and the encoder that the user named, if any.

A screen comes from elsewhere as often as not, so it is read strictly: every file has the hash that screen.json gives,
screen.json has its own, every number its place and shape. Its encoder runs within limits (`encoder.py`).
"""

import hashlib
import json
import math
from collections.abc import Mapping

import numpy as np
from pydantic_core import from_json

from ingest.errors import LabelsError
from ingest.storage.file_format import refuse_other_format
from ingest.storage.given_files import given_content
from ingest.storage.place import Place, place
from scoring.screen.encoder import ENCODER_FILE, MAX_ENCODER_BYTES
from scoring.screen.fusion import Gate
from scoring.screen.heads import Numbers
from scoring.screen.model import FittedScreen, Predictor
from scoring.screen.record import ScreenRecord

RECORD = "screen.json"
WEIGHTS = "screen.safetensors"

MAX_RECORD_BYTES = 16 * 2**20
MAX_WEIGHTS_BYTES = 2**30
MAX_AXES = 4
"""Axes of a tensor; heads and gates have at most 2."""

GATE = ("gate.hidden", "gate.output")


def write_screen(url: str, record: ScreenRecord, predictor: Predictor, encoder: bytes | None) -> FittedScreen:
    """Write a new folder, screen.json last, so that a folder without it is no screen. StorageError if it cannot.

    record: its `files` are filled in here.
    """
    from safetensors.numpy import save

    tensors = {_head(name): np.ascontiguousarray(head) for name, head in predictor.heads.items()}
    if predictor.gate is not None:
        parts = (predictor.gate.hidden, predictor.gate.output)
        tensors |= {name: np.ascontiguousarray(part) for name, part in zip(GATE, parts, strict=True)}
    contents = {WEIGHTS: save(tensors)} | ({} if encoder is None else {ENCODER_FILE: encoder})
    root = place(url)
    for name, content in contents.items():
        root.at(name).write(content)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    described = record.model_copy(update={"files": hashes})
    described = described.model_copy(update={"sha256": _own_hash(described.model_dump_json())})
    root.at(RECORD).write(described.model_dump_json(indent=1).encode())
    return read_screen(url)


def read_screen(url: str) -> FittedScreen:
    """Read a screen. LabelsError in one line if it is damaged, changed or of another format."""
    root = place(url)
    if not root.at(RECORD).exists():
        if root.exists() and not root.is_dir():
            raise LabelsError(f"{url} is a file; give the folder of the screen, which screen fit wrote")
        raise LabelsError(f"{url} is no screen: it has no {RECORD}; make one with: privsieve screen fit")
    text = given_content(root.at(RECORD), f"{url}/{RECORD}", MAX_RECORD_BYTES)
    try:
        refuse_other_format(from_json(text), f"{url}/{RECORD}", "fit the screen again", LabelsError)
        record = ScreenRecord.model_validate_json(text)
    except ValueError:  # its text may quote the file
        raise LabelsError(f"{url}/{RECORD} is damaged; copy the screen again, or fit it again") from None
    if record.sha256 != _own_hash(text):
        raise LabelsError(
            f"{url}/{RECORD} was changed after the fit, so its promise means nothing; copy the screen again, or fit it "
            "again"
        )
    has_encoder = any(modality.name == "encoder" for modality in record.modalities)
    if set(record.files) != ({WEIGHTS, ENCODER_FILE} if has_encoder else {WEIGHTS}):
        raise LabelsError(f"{url}/{RECORD} does not name the files that its modalities need; fit the screen again")
    contents = {name: _checked(root, name, digest, url) for name, digest in record.files.items()}
    predictor = _predictor(record, _tensors(contents[WEIGHTS], url), url)
    return FittedScreen(record, predictor, contents.get(ENCODER_FILE), hashlib.sha256(text).hexdigest())


def _own_hash(text: str | bytes) -> str:
    """Return the hash of all that a screen.json says but for this hash itself."""
    fields = json.loads(text)
    del fields["sha256"]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _head(modality: str) -> str:
    return f"{modality}.head"


def _predictor(record: ScreenRecord, tensors: Mapping[str, Numbers], url: str) -> Predictor:
    heads = {modality.name: _head(modality.name) for modality in record.modalities}
    parts = GATE if record.fusion == "gate" else ()
    are_numbers = all(value.dtype == np.float64 and np.isfinite(value).all() for value in tensors.values())
    if set(tensors) != {*heads.values(), *parts} or not are_numbers:
        raise _misfit(url)
    gate = Gate(*(tensors[name] for name in parts)) if parts else None
    are_heads = all(tensors[heads[each.name]].shape == (each.length + 1,) for each in record.modalities)
    if not are_heads or not (gate is None or gate.fits(len(heads))):
        raise _misfit(url)
    return Predictor(record.modalities, {name: tensors[head] for name, head in heads.items()}, gate, record.curve)


def _misfit(url: str) -> LabelsError:
    return LabelsError(f"{url}/{WEIGHTS} does not hold what {RECORD} says; fit the screen again")


def _checked(root: Place, name: str, digest: str, url: str) -> bytes:
    max_bytes = MAX_WEIGHTS_BYTES if name == WEIGHTS else MAX_ENCODER_BYTES
    content = given_content(root.at(name), f"{url}/{name}", max_bytes)
    if hashlib.sha256(content).hexdigest() != digest:
        raise LabelsError(f"{url}/{name} is not the file that {RECORD} names; copy the screen again, or fit it again")
    return content


def _tensors(content: bytes, url: str) -> dict[str, Numbers]:
    """Read the tensors. LabelsError unless the file has a header that fits its length, before the library reads it."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        num_header = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + min(num_header, MAX_RECORD_BYTES)])
        shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
        # Their count first: the product of many large numbers takes minutes.
        if not all(len(shape) <= MAX_AXES and 0 <= math.prod(shape) <= MAX_WEIGHTS_BYTES for shape in shapes):
            raise ValueError
        tensors: dict[str, Numbers] = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LabelsError(f"{url}/{WEIGHTS} is damaged; copy the screen again, or fit it again") from None
    return tensors
