"""Small corpora of drawn pictures that are no near duplicates of each other, and their labels."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from examples.signs import picture
from jobs.runtime.progress import SILENT
from jobs.tuning.training_set import TuneSetRequest, run_tune_set
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.taxonomy import KEYS
from scoring.tuning.training_set import SetRecord
from tests.jobs.made import tar

NOT_A_PICTURE = b"<html>not found</html>"


def drawn(number: int, kind: str = "PNG", scale: float = 1.0) -> bytes:
    """The file of picture `number`: always the same bytes."""
    pixels = picture(np.random.default_rng(number), ("face", "landscape", "passport", "book")[number % 4])
    image = Image.fromarray(pixels).resize((256, 256), Image.Resampling.BICUBIC)
    image = image.resize((round(256 * scale), round(256 * scale)), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def files(count: int, kind: str = "PNG") -> dict[str, bytes]:
    return {f"{number:03d}.{kind.lower()}": drawn(number, kind) for number in range(count)}


def tree(folder: Path, pictures: Mapping[str, bytes]) -> Path:
    for name, content in pictures.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def webdataset(folder: Path, pictures: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    names = list(pictures)
    for shard, part in enumerate((names[::2], names[1::2])):
        tar(folder / f"{shard:05d}.tar", {name: pictures[name] for name in part})
    return folder


def parquet(folder: Path, pictures: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    table = pa.table({"image": list(pictures.values()), "id": list(pictures)})
    pq.write_table(table, folder / "part.parquet", row_group_size=3)
    return folder


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def labels(file: Path, num_rows: int, **columns: Sequence[object]) -> Path:
    given = {"annotator": ["people"] * num_rows, **{name.rstrip("_"): cells for name, cells in columns.items()}}
    write_labels(to_labels(given, num_rows), str(file), LabelsOrigin("hand"))
    return file


def by_hash(file: Path, pictures: Mapping[str, bytes], **columns: Sequence[object]) -> Path:
    """Labels of these pictures; every second one is private, of the classes card and face in turn, unless given."""
    num = len(pictures)
    private = [number % 2 for number in range(num)]
    classes = [("card", "face")[number // 2 % 2] if private[number] else None for number in range(num)]
    hashes = [sha256(content) for content in pictures.values()]
    if not columns:
        columns = {"private": private, "class_": classes}
    return labels(file, num, sha256=hashes, **columns)


def values(**of: float | None) -> dict[str, float | None]:
    """One value per attribute: 0, unless it is given."""
    return {key: of.get(key, 0.0) for key in KEYS}


def attribute_columns(rows: Sequence[Mapping[str, float | None]]) -> dict[str, list[float | None]]:
    return {key: [row[key] for row in rows] for key in KEYS}


def made(source: Path, truth: Path, out: Path, target: str = "binary", **more: object) -> SetRecord:
    request = TuneSetRequest(source=str(source), labels=str(truth), out=str(out), target=target, **more)  # type: ignore[arg-type]
    return run_tune_set(request, SILENT)
