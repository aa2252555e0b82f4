"""Build the bundled demo corpus from a folder of pictures and its manifest.

    python -m benchmarks.pack PICTURES MANIFEST.csv

Run it by hand, only when the choice of pictures changes. MANIFEST.csv has the columns file, licence, licence_tier,
category, has_exif, source_repo, source_path, privbench_class and the attributes; `file` is relative to PICTURES. The
same input gives the same bytes. Also writes `labels.csv`: the manifest's labels of each picture, as a labels table.
"""

import csv
import hashlib
import io
import json
import shutil
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from PIL import Image

from scoring.taxonomy import KEYS

DEMO = Path(__file__).resolve().parents[1] / "jobs" / "demo"
MAX_SIDE_PX = 1024
JPEG_QUALITY = 88
AS_IT_IS_BYTES = 125_000
"""A picture no larger than this, and than MAX_SIDE_PX, is taken byte for byte."""
TIERS = ("A", "B")
SAMPLES_PER_SHARD = 16

ANNOTATOR = "privsieve-demo"

Row = dict[str, str]


class Packed(NamedTuple):
    """A picture or broken input in the corpus."""

    file: str
    picture: str
    key: str
    sha256: str


# Picture (stem of its file) or broken input -> caption, in corpus order.
SHARD_SAMPLES: tuple[tuple[str, str], ...] = (
    ("d012", "a cup of coffee on a wooden table"),
    ("d045", "a specimen of a driver licence"),
    ("d034", "people on a crosswalk"),
    ("d018", "a pagoda by a lake"),
    ("broken:empty.jpg", "a picture that was not downloaded"),
    ("d068", "a chat on a phone"),
    ("d028", "a man on a sofa"),
    ("d013", "a cat, close up"),
    ("d054", "a form filled in by hand"),
    ("d036", "a skier on a slope"),
    ("d047", "a specimen of a payment card"),
    ("broken:error_page.jpg", "a page in place of a picture"),
    ("d020", "a dog on a boardwalk"),
    ("d052", "a specimen of a passport"),
    ("d041", "an old photograph of a saloon"),
    ("d064", "an artificial fingerprint"),
    ("d014", "a rocket on its launch pad"),
    ("d025", "an official portrait of an astronaut"),
    ("d057", "a pay stub"),
    ("d019", "a house with a garden"),
    ("broken:truncated.jpg", "a picture whose download broke off"),
    ("d059", "a page of text with black bars"),
    ("d033", "food stalls on a market"),
    ("d046", "a specimen of a resident card"),
    ("d042", "an old photograph of a monument"),
    ("d016", "a photograph of the inside of an eye"),
    ("d027", "a woman in a street"),
    ("d067", "a label of a pharmacy"),
    ("d032", "a skateboarder in mid-jump"),
    ("broken:drawing.svg", "a drawing with vectors"),
    ("d056", "a drawn driver licence"),
)
# Picture or broken input -> its name in the folder tree; a picture's folder is the first word of its category.
TREE_FILES: tuple[tuple[str, str], ...] = (
    ("d043", "painting"),
    ("d044", "lion"),
    ("d024", "nutrition_label"),
    ("d048", "business_card"),
    ("d066", "voter_card"),
    ("d015", "coins"),
    ("d022", "scissors"),
    ("d029", "woman"),
    ("d030", "man"),
    ("d061", "plate_1"),
    ("d062", "plate_2"),
    ("broken:drawing.svg", "art/sketch"),
    ("broken:error_page.jpg", "document/scan"),
    ("broken:empty.jpg", "portrait/visitor"),
    ("broken:truncated.jpg", "vehicle/upload"),
)
TRUNCATED_FROM = "d020"


def main(pictures: Path, manifest: Path) -> None:
    with manifest.open(newline="", encoding="utf-8") as lines:
        rows = {PurePosixPath(row["file"]).stem: row for row in csv.DictReader(lines)}
    corpus = DEMO / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    table = [*_write_shards(corpus, pictures, rows), *_write_tree(corpus, pictures, rows)]
    (DEMO / "LICENCES.md").write_text(_licences(table, rows), encoding="utf-8")
    _write_labels(table, rows)


def _write_shards(corpus: Path, pictures: Path, rows: dict[str, Row]) -> list[Packed]:
    table = []
    (corpus / "shards").mkdir(parents=True)
    for shard in range(0, len(SHARD_SAMPLES), SAMPLES_PER_SHARD):
        name = f"{shard // SAMPLES_PER_SHARD:05d}"
        with tarfile.open(corpus / "shards" / f"{name}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for index, (picture, caption) in enumerate(SHARD_SAMPLES[shard : shard + SAMPLES_PER_SHARD]):
                key = f"{name}{index:04d}"
                encoded, extension = _encoded(picture, pictures, rows)
                fields = {"category": _category(picture, rows), "key": key, "caption": caption}
                _add(tar, key + extension, encoded)
                _add(tar, key + ".json", json.dumps(fields).encode())
                _add(tar, key + ".txt", caption.encode())
                table.append(Packed(f"shards/{name}.tar: {key}{extension}", picture, key, _hash(encoded)))
    return table


def _write_tree(corpus: Path, pictures: Path, rows: dict[str, Row]) -> list[Packed]:
    table = []
    for picture, name in TREE_FILES:
        encoded, extension = _encoded(picture, pictures, rows)
        if "/" not in name:
            name = f"{_category(picture, rows).partition('/')[0]}/{name}"
        path = corpus / "tree" / (name + extension)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded)
        table.append(Packed(f"tree/{name}{extension}", picture, path.name, _hash(encoded)))
    return table


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)  # mtime, uid and gid are 0
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _category(picture: str, rows: dict[str, Row]) -> str:
    return "web/broken" if picture.startswith("broken:") else rows[picture]["category"]


def _encoded(picture: str, pictures: Path, rows: dict[str, Row]) -> tuple[bytes, str]:
    """Return the bytes of a picture or broken input, and the extension for them."""
    if picture.startswith("broken:"):
        name = PurePosixPath(picture.removeprefix("broken:"))
        return _broken(name.stem, pictures, rows), name.suffix
    row = rows[picture]
    if row["licence_tier"] not in TIERS:
        raise SystemExit(f"{picture}: licence tier {row['licence_tier']} does not go into the corpus")
    original = (pictures / row["file"]).read_bytes()
    with Image.open(io.BytesIO(original)) as image:
        if len(original) <= AS_IT_IS_BYTES and max(image.size) <= MAX_SIDE_PX:
            return original, {"JPEG": ".jpg", "PNG": ".png"}[image.format or ""]
        return _jpeg(image, keep_exif=row["has_exif"] == "1"), ".jpg"


def _jpeg(image: Image.Image, *, keep_exif: bool) -> bytes:
    exif = image.getexif().tobytes() if keep_exif else b""
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        image = Image.new("RGB", rgba.size, "white")
        image.paste(rgba, mask=rgba.getchannel("A"))
    image = image.convert("L" if image.mode == "L" else "RGB")
    image.thumbnail((MAX_SIDE_PX, MAX_SIDE_PX), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=JPEG_QUALITY, optimize=True, exif=exif)
    return out.getvalue()


def _broken(kind: str, pictures: Path, rows: dict[str, Row]) -> bytes:
    if kind == "empty":
        return b""
    if kind == "error_page":
        return b"<!DOCTYPE html><html><head><title>404</title></head><body>Not Found</body></html>\n"
    if kind == "drawing":
        return b'<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64"><rect width="9" height="9"/></svg>\n'
    whole, _ = _encoded(TRUNCATED_FROM, pictures, rows)
    return whole[: len(whole) * 45 // 100]


def _hash(encoded: bytes) -> str:
    return hashlib.sha256(encoded).hexdigest()


def _write_labels(table: list[Packed], rows: dict[str, Row]) -> None:
    """Write the labels of `scoring.labels.table`, without those of broken inputs, which show nothing."""
    with (DEMO / "labels.csv").open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["sha256", "key", "annotator", "class", *KEYS])
        for _, picture, key, sha256 in table:
            if not picture.startswith("broken:"):
                row = rows[picture]
                values = [f"{float(row[attribute]):g}" for attribute in KEYS]
                writer.writerow([sha256, key, ANNOTATOR, row["privbench_class"], *values])


def _licences(table: list[Packed], rows: dict[str, Row]) -> str:
    lines = [
        "# Licences of the demo pictures",
        "",
        "Written by `pack.py`. Paths are relative to `corpus/`. Pictures may be downscaled to 1024 pixels and",
        "encoded again; nothing else was changed. Tier A: stated for the picture itself, or in the public domain.",
        "Tier B: under the licence of the repository that publishes it. Names and data on documents are fictitious",
        "or those of specimens. `labels.csv` was made by hand for privsieve, by one person, and is under its licence.",
        "",
        "| File | Source | Licence | Tier |",
        "|---|---|---|---|",
    ]
    for file, picture, _, _ in table:
        if picture == "broken:truncated.jpg":
            row, note = rows[TRUNCATED_FROM], " (cut on purpose)"
        elif picture.startswith("broken:"):
            lines.append(f"| `{file}` | made by `pack.py`, broken on purpose | CC0 | A |")
            continue
        else:
            row, note = rows[picture], ""
        own = row["source_path"] == "-"
        source = "our own drawing" if own else f"{row['source_repo']}, `{row['source_path']}`{note}"
        lines.append(f"| `{file}` | {source} | {row['licence']} | {row['licence_tier']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m benchmarks.pack PICTURES MANIFEST.csv")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
