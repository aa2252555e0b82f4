"""Six small releases, and all that `filter`, `takedown` and `release apply` write in them, as text.

`python -m tests.releases.golden` writes `golden/` anew; read its diff before you commit it. The text is the same on
each machine: `_marked` names the facts that are not, which it checks and replaces by marks.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, tar
from tests.jobs.releases import files
from tests.nasty import encoded, png

GOLDEN = Path(__file__).parent / "golden"
STARTED = date.today()


def _png(shade: int) -> bytes:
    return png(32, 24, 8, 2, (b"\0" + bytes((shade, 90, 200 - shade)) * 32) * 24)


def _jpeg(shade: int) -> bytes:
    return encoded(Image.new("RGB", (32, 24), (shade, 120, 60)), "JPEG")


PICTURES = {
    "a.png": _png(10),
    "b.png": _png(40),
    "c.png": _png(70) + b"a tail that is not scanned" * 10,
    "d.jpg": _jpeg(90),
    "e.jpg": b"<html>not found</html>",
    "f.png": _png(10),
    "g.jpg": _jpeg(200),
}
"""Each is of one colour, so that all encoders write the same bytes. a and f are equal, e cannot be decoded."""

CAPTIONS = {name: f"picture {name[0]}, call 555-010-4477" for name in PICTURES}
URLS = {name: f"https://host.example.org/{name}" for name in PICTURES}


def _tars() -> None:
    Path("source").mkdir()
    for number, keys in enumerate(("abcd", "efg")):
        members: dict[str, bytes] = {}
        for name in (name for name in PICTURES if name[0] in keys):
            about = json.dumps({"url": URLS[name], "width": 32}).encode()
            texts = {f"{name[0]}.txt": CAPTIONS[name].encode(), f"{name[0]}.json": about, f"{name[0]}.npy": b"unknown"}
            members |= {name: PICTURES[name], **texts}
        tar(Path("source", f"{number}.tar"), members)


def _folder() -> None:
    for name, content in PICTURES.items():
        path = Path("source", "cats" if name < "d" else "dogs", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.with_suffix(".txt").write_text(CAPTIONS[name])


def _parquet() -> None:
    Path("source").mkdir()
    images = [{"bytes": content, "path": name} for name, content in PICTURES.items()]
    table = {"image": images, "caption": [*CAPTIONS.values()], "url": [*URLS.values()], "blob": [b"\xff"] * len(images)}
    pq.write_table(pa.table(table), "source/0.parquet", row_group_size=4)


def _tars_and_table() -> None:
    """The table has one URL twice, one that was not scanned, one that could not be downloaded, and a row without."""
    _tars()
    unknown = [URLS["a.png"], "https://host.example.org/later", "https://host.example.org/gone", None]
    texts = [*CAPTIONS.values(), "a again", "later", "gone", "none"]
    status = ["success"] * (len(URLS) + 2) + ["failed_to_download", "success"]
    pq.write_table(pa.table({"url": [*URLS.values(), *unknown], "caption": texts, "status": status}), "table.parquet")


def _tars_and_previous() -> None:
    """From the release before, g was taken down. Since then the second shard has changed."""
    _tars()
    _scan("earlier")
    done("filter", "earlier", "--policy", "policy.yaml", "--out", "previous", "--quiet")
    Path("asked.txt").write_text("g\n")
    done("release", "takedown", "previous", "asked.txt", "--quiet")
    tar(Path("source", "1.tar"), {"f.png": _png(160), "g.jpg": PICTURES["g.jpg"], "h.png": _png(130)})


@dataclass(frozen=True)
class Case:
    """How a release is made in the current folder, verified and changed."""

    corpus: Callable[[], None]
    """Writes `source`, and the files that the options name."""

    taken_down: str
    """Key of a picture."""

    policy: str = ""
    """Lines beside those of RULES."""

    options: tuple[str, ...] = ()
    """Of `filter`."""

    has_pictures: bool = True
    """Whether a copy of it has something for `release apply`."""


RULES = (
    "name: golden\ndefault: keep\nrules:\n"
    "  - {name: second, when: \"regexp_matches(key, 'b(.png)?$')\", then: drop, reason: asked for}\n"
    '  - {name: third, when: "len(unseen) > 0", then: flag, reason: it has a tail}\n'
)
COVER = "  - {name: whole, when: \"key IN ('d', 'g')\", then: redact, cover: [image], reason: not to be seen}\n"

CASES = {
    "tars": Case(_tars, "d", "texts: masked\n"),
    "folder": Case(_folder, "dogs/d.jpg", "files: clean\n"),
    "parquet": Case(_parquet, "d.jpg"),
    "covered": Case(_tars, "d", COVER),
    "urls": Case(_tars_and_table, "a", options=("--urls", "table.parquet"), has_pictures=False),
    "after_another": Case(_tars_and_previous, "d", options=("--previous", "previous")),
}


def done(*arguments: object) -> None:
    assert privsieve(*arguments) == 0, arguments


def _scan(run: str) -> None:
    """The record of such a run names no folder, version or code, so that its hash is the same everywhere."""
    scan_in_process(Path("source"), Path(run))


def _table(file: Path) -> str:
    """How a Parquet file is written, then its rows, as JSON lines. Its bytes differ between versions of Arrow."""
    table, parquet = pq.read_table(file), pq.ParquetFile(file)
    groups = [parquet.metadata.row_group(number) for number in range(parquet.num_row_groups)]
    compressions = {group.column(n).compression for group in groups for n in range(group.num_columns)}
    head = {
        "schema": {field.name: str(field.type) for field in table.schema},
        "row_groups": [group.num_rows for group in groups],
        "compression": sorted(compressions),
    }

    def plain(value: object) -> str:
        return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else str(value)

    return "".join(json.dumps(row, default=plain) + "\n" for row in (head, *table.to_pylist()))


def _marked(text: str, folder: Path) -> str:
    """Replace what differs between runs, machines or versions of Arrow. A wrong hash or another day stays, and shows.

    - hashes of Parquet files, of release.json and of what has their hashes: they must be those of the files;
    - today's date.
    """
    for day in (STARTED, date.today()):
        text = text.replace(day.isoformat(), "<today>")
    for root in (folder, Path("previous")):
        for name, content in sorted(files(root).items()):
            if name.endswith((".parquet", ".json", ".md")):
                shown = name if root == folder else f"{root}/{name}"
                text = text.replace(hashlib.sha256(content).hexdigest(), f"<sha256 of {shown}>")
    return text


def _texts(folder: Path) -> dict[str, str]:
    """Name -> text of each file of a release or copy that is text or a table, and `files.txt`, the list of all files.
    Pictures, tars and captions are there by the hashes in SHA256SUMS."""
    texts = {"files.txt": "".join(f"{name}\n" for name in sorted(files(folder)))}
    for name in files(folder):
        if name.endswith(".parquet"):
            texts[name.replace(".parquet", ".jsonl")] = _table(folder / name)
        elif name.endswith((".json", ".md")) or name == "SHA256SUMS":
            texts[name] = (folder / name).read_text()
    return {name: _marked(text, folder) for name, text in texts.items()}


def write_releases(case: Case, *releases: Path) -> None:
    """Write equal releases of a case in the current folder."""
    Path("policy.yaml").write_text(RULES + case.policy)
    case.corpus()
    _scan("run")
    for out in releases:
        done("filter", "run", "--policy", "policy.yaml", *case.options, "--out", out, "--quiet")


def made(case: Case) -> dict[str, str]:
    """Make a release in the current folder, verify it, and take a picture down from it and from a copy of its shards.

    Returns path in the golden folder -> text. After the takedown: of the files that it changed, and `copy.txt`, the
    hashes of the copy's files.
    """
    release, copy = Path("release"), Path("copy")
    write_releases(case, release, Path("again"))
    assert files(release) == files(Path("again"))
    done("release", "verify", release)
    before = _texts(release)
    for name in json.loads((release / "release.json").read_text())["sha256"]:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(release / name, copy / name)
    Path("requests.txt").write_text(f"{case.taken_down}\n")
    done("release", "takedown", release, "requests.txt", "--quiet")
    done("release", "verify", release)
    after = {name: text for name, text in _texts(release).items() if text != before.get(name)}
    texts = before | {f"after_takedown/{name}": text for name, text in after.items()}
    if case.has_pictures:
        done("release", "apply", copy, release / "removed.parquet", "--quiet")
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files(copy).items())}
        lines = "".join(f"{sha256}  {name}\n" for name, sha256 in hashes.items())
        texts["after_takedown/copy.txt"] = _marked(lines, release)
    return texts


def made_in(folder: Path, name: str) -> dict[str, str]:
    with chdir(folder):
        return made(CASES[name])


def write_golden() -> None:
    for name in CASES:
        shutil.rmtree(GOLDEN / name, ignore_errors=True)
        with tempfile.TemporaryDirectory() as folder:
            for path, text in made_in(Path(folder), name).items():
                (GOLDEN / name / path).parent.mkdir(parents=True, exist_ok=True)
                (GOLDEN / name / path).write_text(text)


if __name__ == "__main__":
    write_golden()
