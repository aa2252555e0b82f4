"""Releases that tests write, and what is in them."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from ingest.errors import StorageError
from ingest.formats.released import OWN_NAMES
from ingest.storage.place import Place
from ingest.storage.removal import remove_tree
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.ingest.crafted import HIDING, frames, jpeg
from tests.jobs.made import rows, tar
from tests.making import Patch
from tests.nasty import encoded

KEEP_ALL = "name: keep-all\nrules: []\ndefault: keep\nquarantined: keep\n"
FIRST_DROPPED = 'name: p\ndefault: keep\nrules:\n  - {name: first, when: "index = 0", then: drop, reason: r}\n'
CLEAN = "name: clean\nfiles: clean\nrules: []\ndefault: keep\nquarantined: keep\n"
NO_FACES = (
    "name: no-faces\ndefault: keep\nrules:\n"
    "  - {name: faces, when: level = 1, then: drop, reason: a face}\n"
    "  - {name: profile, when: level = 3, then: flag, reason: a profile}\n"
)
COVER = (
    "name: cover\ndefault: keep\nrules:\n"
    '  - {{name: people, when: "{when}", then: redact, cover: [{cover}], reason: shows a person}}\n'
)
FACES = COVER.format(when="biometrics >= 0.5", cover="faces")

DEMO = Path(__file__).parents[2] / "jobs" / "demo" / "corpus" / "tree"


def files(folder: Path) -> dict[str, bytes]:
    """Path relative to the folder -> content, of all files below it."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def released(out: Path) -> dict[str, str]:
    """Checks that exactly the files that release.json names are there, with these hashes; returns it."""
    found = files(out)
    summary = json.loads(found.pop("release.json"))
    decisions = pq.read_table(io.BytesIO(found.pop("not-for-publication/decisions.parquet")))
    found.pop("not-for-publication/source.json")
    for name in ("SHA256SUMS", *summary["own_sha256"].keys() - {"not-for-publication/decisions.parquet"}):
        found.pop(name)
    assert summary["sha256"] == {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    assert sum(summary["actions"].values()) == summary["num_images"] == decisions.num_rows
    by_rule = decisions.group_by(["rule", "action"]).aggregate([("index", "count")]).to_pylist()
    assert {(rule, action): n for rule, of in summary["rules"].items() for action, n in of.items()} == {
        (row["rule"], row["action"]): row["index_count"] for row in by_rule
    }
    hashes: dict[str, str] = summary["sha256"]
    return hashes


def rows_by_key(out: Path, table: str = "decisions") -> dict[str, dict[str, Any]]:
    """Key -> the row about it, the last if there are several, of a table that is not for publication."""
    return {row["key"]: row for row in pq.read_table(out / f"not-for-publication/{table}.parquet").to_pylist()}


def decided(out: Path) -> dict[str, tuple[str, str]]:
    """Key -> (action, rule) of every sample."""
    return {key: (row["action"], row["rule"]) for key, row in rows_by_key(out).items()}


def labels_of(folder: Path, keys: Sequence[object], name: str = "labels") -> Path:
    """Each of these pictures is private."""
    path = folder / f"{name}.parquet"
    columns: dict[str, Sequence[object]] = {
        "key": list(keys),
        "annotator": ["me"] * len(keys),
        "private": [1] * len(keys),
    }
    write_labels(to_labels(columns, len(keys)), str(path), LabelsOrigin("hand"))
    return path


def with_gps() -> bytes:
    exif = Image.Exif()
    exif[0x8825] = {1: "N", 2: (1.0, 2.0, 3.0), 3: "E", 4: (1.0, 2.0, 3.0)}
    return encoded(Image.linear_gradient("L").convert("RGB"), "JPEG", exif=exif.tobytes())


PICTURES = {
    "a.jpg": with_gps(),
    "b.png": HIDING["behind_png.png"][0](),
    "c.gif": frames(20, "GIF"),
    "d.bmp": encoded(Image.new("RGB", (40, 30)), "BMP"),
    "e.jpg": b"<html>not a picture</html>",
    "f.jpg": jpeg() + b"more" * 100,
}

URL = "https://{}.example.org/picture.jpg"
"""URL of each picture in tars; {} is the first letter of its key."""


def make_corpus(folder: Path, layout: str) -> Path:
    source = folder / layout
    source.mkdir()
    if layout == "tars":
        captions = {f"{name[0]}.txt": b"a caption" for name in PICTURES}
        urls = {f"{name[0]}.json": json.dumps({"url": URL.format(name[0])}).encode() for name in PICTURES}
        tar(source / "0.tar", dict(sorted({**PICTURES, **captions, **urls}.items())))
    elif layout == "tree":
        for name, content in PICTURES.items():
            (source / name).write_bytes(content)
    else:
        images = [{"bytes": content, "path": name} for name, content in PICTURES.items()]
        table = pa.table({"image": images, "caption": ["a caption"] * len(images)})
        pq.write_table(table, source / "0.parquet", row_group_size=2)
    return source


def pictures(release: Path, layout: str) -> Iterator[tuple[str, bytes]]:
    """Key and content of each picture in a release."""
    if layout == "tars":
        with tarfile.open(release / "0.tar") as archive:
            for member in archive:
                content = archive.extractfile(member)
                assert content is not None
                if not member.name.endswith((".txt", ".json")):
                    yield member.name.split(".")[0], content.read()
    elif layout == "tree":
        for path in sorted(release.glob("*.*")):
            if path.name not in OWN_NAMES:
                yield path.name, path.read_bytes()
    else:
        for image in pq.read_table(release / "0.parquet")["image"].to_pylist():
            yield image["path"], image["bytes"]


NO_RULES = "name: guarantee-only\nrules: []\ndefault: keep\nscreened: drop\n"


def guaranteed(folder: Path, policy: str = NO_RULES, recall: float = 0.95, **more: object) -> Path:
    """A policy with this guarantee, in a file of its own."""
    file = folder / f"guaranteed-{len(list(folder.glob('guaranteed-*')))}.yaml"
    file.write_text(f"{policy}guarantee: {json.dumps({'recall': recall, **more})}\n")
    return file


def with_policy(folder: Path, text: str) -> Path:
    (folder / "policy.yaml").write_text(text)
    return folder / "policy.yaml"


def decisions(release: Path) -> dict[str, dict[str, object]]:
    return {key[0]: row for key, row in rows_by_key(release).items()}


def asked(release: Path, *lines: str) -> Path:
    path = release.parent / "requests.txt"
    path.write_text("# asked for in November\n\n" + "".join(f"{line}\n" for line in lines))
    return path


def stopped_at(monkeypatch: Patch, number: int, *modules: str) -> Callable[[], None]:
    """From now on, the write, copy or removal of this number fails, as on a full disk. modules: that remove folders."""
    count = 0

    def failing(call: Callable[..., object]) -> Callable[..., object]:
        def called(*args: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == number:
                raise StorageError("the disk is full")
            return call(*args, **options)

        return called

    for name in ("write", "create", "remove"):
        monkeypatch.setattr(Place, name, failing(getattr(Place, name)))
    for module in modules:
        monkeypatch.setattr(f"{module}.remove_tree", failing(remove_tree))
    return monkeypatch.undo


def by_severity(run: Path) -> list[dict[str, object]]:
    """Scored rows, the least severe first."""
    return sorted(
        (r for r in rows(run) if r["status"] == "scored"), key=lambda r: (int(str(r["s_lex"])), str(r["key"]))
    )
