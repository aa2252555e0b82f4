"""A hash list: whatever file a listed picture is in, no engine sees it, and no command shows, names or copies it."""

import hashlib
import json
import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pdqhash
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ingest.errors import number_of
from ingest.formats import open_source
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from ingest.storage.place import place
from jobs.browse.request import BrowseRequest
from jobs.browse.run import prepared as prepared_to_browse
from jobs.browse.server import MEDIA_TYPES, exported
from jobs.cli import VERBS
from jobs.review.request import ReviewRequest
from jobs.review.run import prepared
from jobs.runtime.hash_list import read_hash_list
from jobs.runtime.progress import SILENT
from jobs.scan.batch import BatchScorer
from jobs.scan.isolation import isolated_rows
from jobs.scan.slice_tasks import ScanSettings
from privsieve import filter as release
from privsieve import open_run, scan
from reports.report.browsed_rows import Filter
from scoring.assessment import EngineOptions, View
from scoring.engines.canned import CannedEngine
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.ingest.hiding import HIDING, exif, frames, jpeg, mpo
from tests.jobs.made import privsieve, tar
from tests.nasty import encoded

Capture = pytest.CaptureFixture[str]

SECRET = "secret"
"""In the name of every file that shows the listed picture, in that of its folder, and in what lies beside it."""

KEEP_ALL = "name: keep-all\nrules: []\ndefault: keep\nquarantined: keep\n"
LISTED_ROW = {
    "key": "",
    "status": "quarantined",
    "reason": "listed",
    "error_message": "it is on the hash list of the scan",
}


def picture(seed: int) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 255, (11, 13, 3), np.uint8)
    return Image.fromarray(noise).resize((320, 270), Image.Resampling.BICUBIC)


LISTED = 1
"""The seed of the listed picture."""


def second_frame(format_name: str, **options: object) -> bytes:
    return encoded(picture(2), format_name, save_all=True, append_images=[picture(LISTED)], **options)


def smaller_and_mirrored() -> bytes:
    copy = picture(LISTED).resize((240, 200)).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return encoded(copy, "JPEG", quality=70)


SHOWING: dict[str, Callable[[], bytes]] = {
    "plain.png": lambda: encoded(picture(LISTED), "PNG"),
    "smaller.jpg": smaller_and_mirrored,
    "frames.gif": lambda: second_frame("GIF"),
    "frames.png": lambda: second_frame("PNG"),
    "frames.webp": lambda: second_frame("WEBP", quality=90),
    "frames.avif": lambda: second_frame("AVIF", quality=90),
    "pages.tiff": lambda: second_frame("TIFF"),
    "two.jpg": lambda: mpo(picture(2), picture(LISTED)),
    "thumbnail.jpg": lambda: jpeg(exif=b"Exif\0\0" + exif(encoded(picture(LISTED).resize((160, 135)), "JPEG"))),
    "behind.jpg": lambda: jpeg() + encoded(picture(LISTED), "PNG"),
}
"""Every file shows the listed picture somewhere."""

CLEAR: dict[str, Callable[[], bytes]] = {
    "other.png": lambda: encoded(picture(3), "PNG"),
    "other.gif": lambda: encoded(picture(2), "GIF", save_all=True, append_images=[picture(3)]),
    "other.jpg": lambda: jpeg(exif=b"Exif\0\0" + exif(encoded(picture(4).resize((160, 135)), "JPEG"))),
}
UNKNOWN: dict[str, Callable[[], bytes]] = {
    "long.gif": lambda: frames(17, "GIF"),
    "inner.jpg": HIDING["jxl_in_comment.jpg"][0],
    "broken.png": lambda: encoded(picture(5), "PNG")[:400],
}
"""What cannot be compared: a frame after the first 16, an inner picture of another format, damage."""


def pdq(image: Image.Image) -> str:
    """By the authors' program, as operators have it."""
    return np.packbits(np.asarray(pdqhash.compute(np.asarray(image))[0], np.uint8)).tobytes().hex()


@pytest.fixture(scope="module")
def hash_list(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("lists") / "list.txt"
    file.write_text(f"# of pictures that nobody may see\npdq {pdq(picture(LISTED))}\n")
    return file


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tar of all of them, with a category and a caption beside each."""
    members: dict[str, bytes] = {}
    for prefix, files in ((SECRET, SHOWING), ("clear", CLEAR), ("unknown", UNKNOWN)):
        for name, make in files.items():
            stem = f"{prefix}-{name.replace('.', '-')}"
            members[f"{stem}.{name.rpartition('.')[2]}"] = make()
            members[f"{stem}.json"] = json.dumps({"category": f"{prefix}-class", "url": f"http://{stem}"}).encode()
            members[f"{stem}.txt"] = f"{stem}, phone 555 0100".encode()
    folder = tmp_path_factory.mktemp("corpora") / "tars"
    folder.mkdir()
    tar(folder / "00000.tar", members)
    return folder


@pytest.fixture(scope="module")
def runs(corpus: Path, hash_list: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Without hashes, with them, and scanned with the list."""
    folder = tmp_path_factory.mktemp("runs")
    options: dict[str, Sequence[object]] = {"plain": (), "pdq": ("--pdq",), "list": ("--hash-list", hash_list)}
    for name, more in options.items():
        assert privsieve("scan", corpus, "--run", folder / name, "--engine", "canned", *more) == 0
    return {name: folder / name for name in options}


@pytest.fixture(scope="module")
def keep_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("policies") / "keep-all.yaml"
    file.write_text(KEEP_ALL)
    return file


def rows_of(run: Path) -> list[dict[str, Any]]:
    with open_run(run) as opened:
        rows: list[dict[str, Any]] = opened.rows().to_pylist()
    return rows


def released(out: Path) -> set[str]:
    """The names of the released pictures, without their endings."""
    with tarfile.open(out / "00000.tar") as shard:
        return {name.rpartition(".")[0] for name in shard.getnames()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "pdq", "list"])
def test_no_release_has_a_file_that_shows_a_listed_picture_or_cannot_be_compared(
    runs: dict[str, Path], hash_list: Path, keep_all: Path, tmp_path: Path, capsys: Capture, name: str
) -> None:
    command = ("filter", runs[name], "--policy", keep_all, "--out", tmp_path / "out", "--hash-list", hash_list)
    assert privsieve(*command, "--quiet") == 0
    printed = capsys.readouterr()
    assert f"drop  {len(SHOWING):8}  (hash_list)" in printed.out
    assert f"drop  {len(UNKNOWN):8}  (not_compared)" in printed.out
    assert released(tmp_path / "out") == {f"clear-{one.replace('.', '-')}" for one in CLEAR}
    assert ("scan --pdq" in printed.err) is (name == "plain")
    decisions = pq.read_table(tmp_path / "out" / "decisions.parquet").to_pylist()
    withheld = [one for one in decisions if one["rule"] in ("(hash_list)", "(not_compared)")]
    assert len(withheld) == len(SHOWING) + len(UNKNOWN)
    assert {(one["key"], one["sha256"], one["action"]) for one in withheld} == {("", None, "drop")}
    assert SECRET not in json.dumps(decisions)


def test_a_run_that_was_scanned_with_the_list_is_released_without_those_pictures_even_without_it(
    runs: dict[str, Path], keep_all: Path, tmp_path: Path
) -> None:
    result = release(runs["list"], keep_all, tmp_path / "out")
    assert result.counts.by_rule[("drop", "(hash_list)")] == len(SHOWING)
    assert result.counts.by_rule[("drop", "(not_compared)")] == len(UNKNOWN)
    assert released(tmp_path / "out") == {f"clear-{one.replace('.', '-')}" for one in CLEAR}


def test_a_run_with_hashes_is_released_as_the_policy_says_where_there_is_no_list(
    runs: dict[str, Path], keep_all: Path, tmp_path: Path
) -> None:
    result = release(runs["pdq"], keep_all, tmp_path / "out", executor="inline")
    assert result.counts.actions() == {
        "keep": len(SHOWING) + len(CLEAR) + len(UNKNOWN),
        "flag": 0,
        "redact": 0,
        "drop": 0,
    }


def test_a_row_of_a_listed_picture_says_nothing_but_where_it_is(runs: dict[str, Path]) -> None:
    rows = rows_of(runs["list"])
    listed = [row for row in rows if row["reason"] == "listed"]
    assert len(listed) == len(SHOWING)
    assert len(rows) == len(SHOWING) + len(CLEAR) + len(UNKNOWN)
    for row in listed:
        known = {name: value for name, value in row.items() if value is not None}
        assert known == LISTED_ROW | {"shard": "00000.tar", "index": row["index"], "stage": "full"}
    others = {row["key"]: row for row in rows if row["reason"] != "listed"}
    before = {row["key"]: row for row in rows_of(runs["pdq"])}
    assert all(others[key] == before[key] for key in others)
    assert json.loads((runs["list"] / "run.json").read_bytes())["pdq"] is True


def test_rows_have_hashes_of_all_that_a_file_shows_and_none_without_the_option(runs: dict[str, Path]) -> None:
    assert {row["pdq"] for row in rows_of(runs["plain"])} == {None}
    by_key = {row["key"]: row["pdq"] for row in rows_of(runs["pdq"])}
    assert [len(one) for one in by_key["clear-other-gif"]] == [320, 320]
    assert by_key["secret-plain-png"][0][:64] == pdq(picture(LISTED))
    assert by_key["unknown-long-gif"][-1] is None
    assert by_key["unknown-broken-png"] is None
    assert json.loads((runs["plain"] / "run.json").read_bytes()).keys().isdisjoint({"pdq", "hash_list"})


class Watching(CannedEngine):
    """The canned engine, which keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def assess(self, views: Sequence[View]) -> Any:
        self.seen += [view.sha256 for view in views]
        return super().assess(views)


def test_the_engine_never_sees_a_listed_picture(hash_list: Path, tmp_path: Path) -> None:
    wanted = {name: make() for name, make in {**SHOWING, "clear.png": CLEAR["other.png"]}.items()}
    by_file = encoded(picture(9), "PNG")
    text = f"{hash_list.read_text()}sha256 {hashlib.sha256(by_file).hexdigest()}\n"
    (tmp_path / "list.txt").write_text(text)
    engine = Watching()
    limits = ImageLimits(has_pdq=True)
    scorer = BatchScorer(engine, limits, 2, hash_list=read_hash_list(str(tmp_path / "list.txt")))
    encoded_files = [*wanted.values(), by_file]
    rows = scorer.rows([Sample("a", n, SECRET, SECRET, one, caption=SECRET) for n, one in enumerate(encoded_files)])
    assert engine.seen == [hashlib.sha256(wanted["clear.png"]).hexdigest()]
    assert rows["reason"].to_pylist() == ["listed"] * len(SHOWING) + [None, "listed"]
    assert rows["caption_kinds"].to_pylist() == [None] * len(SHOWING) + [[], None]


@pytest.mark.slow
def test_sha256_alone_needs_no_hashes_of_pixels(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    listed = hashlib.sha256(SHOWING["frames.gif"]()).hexdigest()
    (tmp_path / "list.txt").write_text(f"sha256 {listed}\n")
    command = ("scan", corpus, "--run", tmp_path / "run", "--engine", "canned", "--hash-list", tmp_path / "list.txt")
    assert privsieve(*command) == 0
    assert "listed 1" in capsys.readouterr().out
    assert {row["pdq"] for row in rows_of(tmp_path / "run")} == {None}
    record = json.loads((tmp_path / "run" / "run.json").read_bytes())
    assert record["hash_list"] == read_hash_list(str(tmp_path / "list.txt")).digest
    assert "pdq" not in record


def test_a_scan_is_continued_with_the_same_list_only(
    corpus: Path, hash_list: Path, tmp_path: Path, capsys: Capture
) -> None:
    def scanned(*more: object) -> tuple[int, str]:
        code = privsieve("scan", corpus, "--run", tmp_path / "run", "--engine", "canned", *more)
        return code, capsys.readouterr().err

    assert scanned("--hash-list", hash_list) == (0, "")
    (tmp_path / "same.txt").write_text(f"\npdq:{pdq(picture(LISTED)).upper()}\n# the same\n")
    assert scanned("--hash-list", tmp_path / "same.txt") == (0, "")
    (tmp_path / "other.txt").write_text(f"pdq {'0' * 64}\n")
    code, message = scanned("--hash-list", tmp_path / "other.txt")
    assert (code, message.count("\n")) == (2, 1)
    assert "was scanned with other settings: hash_list was " in message
    assert message.endswith("; give the hash list with which this run began, or use another --run\n")
    code, message = scanned("--pdq")
    assert code == 2
    assert "hash_list was" in message
    assert "now not set; give the hash list with which this run began" in message


def test_a_run_that_was_begun_without_a_list_is_not_continued_with_one(
    runs: dict[str, Path], corpus: Path, hash_list: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("PRIVSIEVE_HASH_LIST", str(hash_list))
    assert privsieve("scan", corpus, "--run", runs["plain"], "--engine", "canned") == 2
    message = capsys.readouterr().err
    assert "; give the hash list with which this run began, none, or use another --run" in message
    assert message.count("\n") == 1


def test_a_wrong_list_is_one_line_before_a_run_is_begun(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "list.txt").write_text("secret words\n")
    command = ("scan", corpus, "--run", tmp_path / "run", "--engine", "canned", "--hash-list", tmp_path / "list.txt")
    assert privsieve(*command) == 2
    assert "line 1: is no hash" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_image_that_is_looked_at_in_a_process_of_its_own_is_compared_too(
    corpus: Path, hash_list: Path, tmp_path: Path
) -> None:
    source = open_source(str(corpus), None, None)
    settings = ScanSettings(
        source,
        place(str(tmp_path / "run")),
        "canned",
        EngineOptions(),
        ImageLimits(has_pdq=True),
        "",
        "",
        hash_list=read_hash_list(str(hash_list)),
    )
    (slice_,) = source.slices("00000.tar")
    rows = [row for table in isolated_rows(settings, slice_) for row in table.to_pylist()]
    assert [row["reason"] for row in rows].count("listed") == len(SHOWING)
    assert SECRET not in json.dumps(rows)


@pytest.fixture(scope="module")
def without_source(
    corpus: Path, hash_list: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, Path]]:
    """Runs without and with hashes whose pictures are gone since, and a second run of each."""
    folder = tmp_path_factory.mktemp("gone")
    shutil.copytree(corpus, folder / "corpus")
    made = {}
    for name, options in (("plain", ()), ("pdq", ("--pdq",))):
        for more in ("", "-again"):
            command = ("scan", folder / "corpus", "--run", folder / f"{name}{more}", "--engine", "canned", *options)
            assert privsieve(*command, "--max-frames", 15 if more else 16) == 0
        made[name] = (folder / name, folder / f"{name}-again")
    shutil.rmtree(folder / "corpus")
    return made


NUM_CLEAR, NUM_WITHHELD = len(CLEAR), len(SHOWING) + len(UNKNOWN)


def left_out(num_listed: int, num_unknown: int) -> str:
    listed, unknown = (number_of(number, "image") for number in (num_listed, num_unknown))
    return f"left out: {listed} on the hash list and {unknown} that cannot be compared with it"


@pytest.mark.slow
def test_a_run_with_hashes_is_compared_without_its_pictures(
    without_source: dict[str, tuple[Path, Path]],
    runs: dict[str, Path],
    hash_list: Path,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    run, again = without_source["pdq"]
    given = ("--hash-list", hash_list)
    assert privsieve("report", run, "--format", "json", *given) == 0
    report = json.loads(capsys.readouterr().out)
    assert {one["key"].partition("-")[0] for one in report["severest"]} == {"clear"}
    severe = [row["key"].partition("-")[0] for row in rows_of(run) if row["level"]]
    assert report["severest_note"] == left_out(severe.count(SECRET), severe.count("unknown"))
    assert privsieve("explain", run, "secret-frames-gif", *given) == 2
    assert capsys.readouterr().err == "privsieve: this image is not explained: it is on the hash list\n"
    assert privsieve("explain", run, "unknown-long-gif", *given) == 2
    assert "it cannot be compared with the hash list" in capsys.readouterr().err
    assert privsieve("explain", run, "clear-other-gif", *given) == 0
    capsys.readouterr()
    assert privsieve("labels", "export", run, "--format", "csv", "--out", tmp_path / "out.csv", *given) == 0
    assert "left out: 10 pictures on the hash list and 3 pictures that cannot be compared" in capsys.readouterr().out
    assert (tmp_path / "out.csv").read_text().count("clear-") == NUM_CLEAR
    assert privsieve("audit", "sample", run, "--n", 1000, "--out", tmp_path / "audit.csv", *given) == 0
    assert "left out: 10 drawn pictures on the hash list and 2 drawn pictures" in capsys.readouterr().out
    assert privsieve("diff", run, again, "--by", "key", "--format", "json", *given) == 0
    compared = json.loads(capsys.readouterr().out)
    assert {one["group"].partition("-")[0] for one in compared["groups"]} == {"clear"}
    assert compared["num_unnamed_groups"] == NUM_WITHHELD
    feedback: list[str] = []
    request = ReviewRequest(run=str(runs["pdq"]), queue="index >= 0", hash_list=str(hash_list))
    with prepared(request, replace(SILENT, notice=feedback.append)) as review:
        states = review.asking.screen.states()
        keys = review.asking.rows["key"].to_pylist()
    assert sorted(states) == [n for n, key in enumerate(keys) if not key.startswith("clear")]
    assert feedback[-1] == (
        "3 pictures: those that fit the condition; 10 more pictures on the hash list, never shown; "
        "3 more pictures that cannot be compared with it, never shown"
    )
    assert "scan --pdq" not in "".join([*feedback, capsys.readouterr().err])


@pytest.mark.slow
def test_a_run_without_hashes_says_what_would_spare_it_from_reading_pictures(
    without_source: dict[str, tuple[Path, Path]],
    runs: dict[str, Path],
    hash_list: Path,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    run, given = without_source["plain"][0], ("--hash-list", hash_list)
    assert privsieve("report", run, *given) == 2
    assert "--hash-list has PDQ hashes, which are compared with the pictures" in capsys.readouterr().err
    for command in (
        ("report", runs["plain"]),
        ("explain", runs["plain"], "clear-other-gif"),
        ("labels", "export", runs["plain"], "--format", "csv", "--out", tmp_path / "out.csv"),
        ("audit", "sample", runs["plain"], "--replace", "--out", tmp_path / "audit.csv"),
        ("diff", runs["plain"], runs["pdq"], "--by", "key"),
    ):
        (tmp_path / "out.csv").unlink(missing_ok=True)
        assert privsieve(*command, *given) == 0
        assert capsys.readouterr().err.count("scan --pdq does") == (0 if command[0] == "explain" else 1), command


@pytest.mark.slow
@pytest.mark.parametrize("command", ["report", "explain", "labels", "audit", "diff", "review", "browse"])
def test_a_run_without_hashes_and_one_with_them_give_the_same(
    runs: dict[str, Path], hash_list: Path, tmp_path: Path, capsys: Capture, command: str
) -> None:
    def said(name: str) -> Any:
        run, given = runs[name], ("--hash-list", hash_list)
        if command == "report":
            assert privsieve("report", run, "--format", "json", *given) == 0
            report = json.loads(capsys.readouterr().out)
            return report["severest"], report["severest_note"]
        if command == "explain":
            keys = [row["key"] for row in rows_of(runs["plain"])]
            return [(privsieve("explain", run, key, *given), capsys.readouterr().out) for key in keys]
        if command == "diff":
            assert privsieve("diff", run, runs["list"], "--by", "key", "--format", "json", *given) == 0
            compared = json.loads(capsys.readouterr().out)
            return [compared[one] for one in ("groups", "num_unnamed_groups", "pictures", "num_unnamed")]
        if command == "browse":
            return browsed(run, hash_list)
        if command == "review":
            request = ReviewRequest(run=str(run), queue="index >= 0", hash_list=str(hash_list))
            with prepared(request) as review:
                screen = review.asking.screen
                return [
                    screen.picture(number).state in ("listed", "shown") and screen.picture(number).state
                    for number in range(len(review.asking.hashes))
                ]
        verb = (
            ("labels", "export", run, "--format", "csv")
            if command == "labels"
            else ("audit", "sample", run, "--replace")
        )
        out = tmp_path / f"{command}-{name}.csv"
        assert privsieve(*verb, "--out", out, *given) == 0
        return out.read_text().replace(f'"{name}"', '"run"'), capsys.readouterr().out.replace(name, "run")

    assert said("plain") == said("pdq")


COMMANDS: dict[str, Sequence[Sequence[str]]] = {
    "scan": (("{corpus}", "--run", "{run}", "--engine", "canned"), ("{corpus}", "--run", "{run}", "--dry-run")),
    "plan": (("{corpus}", "--engine", "canned", "--quiet"),),
    "status": (("{run}", "--all"), ("{run}", "--format", "json")),
    "report": (
        ("{run}",),
        ("{run}", "--by", "key", "--format", "csv"),
        ("{run}", "--copies", "--format", "json"),
        ("{run}", "--html", "{out}/page.html", "--gallery", "20", "--clear"),
    ),
    "explain": (
        ("{run}", "00000.tar#0"),
        ("{run}", "secret-plain-png"),
        ("{run}", "secret-plain-pn"),
        ("{run}", ""),
        ("{run}", "{sha256}"),
    ),
    "sql": (("{run}", "FROM images", "--format", "json"), ("{run}", "FROM quarantined", "--format", "csv")),
    "audit": (
        ("sample", "{run}", "--out", "{out}/audit.csv", "--replace"),
        ("sample", "{run}", "--out", "{out}/audit.json", "--replace"),
        ("apply", "{run}", "{labels}"),
    ),
    "review": (),
    "browse": (),
    "evaluate": (
        ("{run}", "--labels", "{labels}", "--by", "category", "--errors", "60", "--html", "{out}/evaluation.html"),
    ),
    "calibrate": (("{run}", "--labels", "{labels}", "--drawn", "evenly"),),
    "diff": (
        ("{run}", "{other}", "--by", "key", "--html", "{out}/diff.html"),
        ("{other}", "{run}", "--format", "json"),
    ),
    "filter": (("{run}", "--policy", "{policy}", "--out", "{out}/release", "--quiet"),),
    "tune-set": (("{corpus}", "--labels", "{labels}", "--target", "binary", "--out", "{out}/set", "--quiet"),),
    "labels": (
        ("export", "{run}", "--format", "csv", "--out", "{out}/labels.csv"),
        ("export", "{run}", "--format", "label-studio", "--out", "{out}/tasks.json"),
        ("agreement", "{run}", "{other}", "--format", "json"),
        ("consensus", "{run}", "{other}", "--out", "{out}/consensus.csv"),
    ),
    "similarity": (("compare", "{corpus}", "--method", "blur", "--out", "{out}/pairs.parquet", "--quiet"),),
    "screen": (
        ("fit", "{corpus}", "--labels", "{labels}", "--target-miss", "0.4", "--out", "{out}/screen", "--quiet"),
    ),
    "compact": (("{run}",),),
}
"""Every command that reads a run or the corpus, in ways that name pictures."""

NO_PICTURES = {"fetch", "help", "doctor", "models", "tune", "study", "verify", "takedown", "lookup"} | {
    "apply-removals",
    "purge",
    "taxonomy",
}
"""They read no run that was scanned here: metadata, documentation, this machine, weights, training sets, labels,
releases."""

WITH_LIST = {
    *("scan", "report", "explain", "audit", "review", "browse", "evaluate", "diff", "labels", "filter", "tune-set"),
    *("similarity", "screen"),
}


def labels_of_all(folder: Path) -> Path:
    """By hash and name, as people may have given them before there was a list."""
    files = {**SHOWING, **CLEAR, **UNKNOWN}
    hashes = [hashlib.sha256(make()).hexdigest() for make in files.values()]
    columns: dict[str, list[object]] = {
        "sha256": list(hashes),
        "private": [number % 2 for number in range(len(files))],
        "annotator": ["ann"] * len(files),
    }
    write_labels(to_labels(columns, len(files)), str(folder / "given.parquet"), LabelsOrigin("made", "made"))
    return folder / "given.parquet"


def contents(folder: Path) -> str:
    """All that is written below a folder."""
    texts = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        texts.append(str(file.relative_to(folder)))
        texts.append(
            json.dumps(pq.read_table(file).to_pylist(), default=str)
            if file.suffix == ".parquet"
            else file.read_bytes().decode("latin-1")
        )
    return "\n".join(texts)


def browsed(run: Path, hash_list: Path | None) -> str:
    """All rows and counts that `browse` has, and its exports."""
    given = None if hash_list is None else str(hash_list)
    with prepared_to_browse(BrowseRequest(run=str(run), hash_list=given)) as browsing:
        rows = browsing.rows
        found = [str(rows.page(Filter(), 0, 1000)), str(rows.counts(Filter())), str(rows.places().to_pylist())]
        found += [exported(rows.table(Filter()), format, "tree").decode() for format in MEDIA_TYPES]
    return "\n".join([*found, str(browsing.withheld)])


def test_every_command_is_in_this_test() -> None:
    assert COMMANDS.keys() | NO_PICTURES == VERBS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["list", "pdq", "plain"])
def test_no_command_names_a_listed_picture(
    runs: dict[str, Path], corpus: Path, hash_list: Path, keep_all: Path, tmp_path: Path, capsys: Capture, name: str
) -> None:
    """Of a run that was scanned with the list no file and no output does; of others, commands that have the list, but
    for the groups of a report, which are of all rows that the run has."""
    run, other, out = tmp_path / "run", tmp_path / "other", tmp_path / "out"
    shutil.copytree(runs[name], run)
    (run / "audit").mkdir(exist_ok=True)
    shutil.rmtree(run / "audit")
    shutil.copytree(runs["list"], other)
    record = json.loads((other / "run.json").read_bytes())
    assert record["source"] == str(corpus)
    out.mkdir()
    hashes = [hashlib.sha256(make()).hexdigest() for make in SHOWING.values()]
    known = {"run": run, "other": other, "corpus": corpus, "policy": keep_all, "out": out, "sha256": hashes[0]}
    known["labels"] = labels_of_all(tmp_path)
    printed = ""
    for verb, ways in COMMANDS.items():
        if name != "list" and verb not in WITH_LIST:
            continue
        for way in ways:
            has_list = verb in WITH_LIST and way[0] not in ("apply", "agreement", "consensus")
            if name != "list" and (not has_list or verb == "scan" or (verb == "report" and "key" in way)):
                continue
            options = ("--hash-list", hash_list) if has_list else ()
            asked = [part.format(**known) for part in way]
            privsieve(verb, *asked, *options)
            said = capsys.readouterr()
            is_asked = any(SECRET in part for part in asked)
            printed += (said.out + said.err).replace(f'"{asked[-1]}"', "") if is_asked else said.out + said.err
    with prepared(ReviewRequest(run=str(run), queue="index >= 0", hash_list=str(hash_list))) as review:
        shown = [n for n in range(len(review.asking.hashes)) if review.asking.screen.picture(n).state == "shown"]
        printed += json.dumps([review.asking.model_answer(number) for number in shown])
    printed += browsed(run, hash_list if name != "list" else None)
    written = contents(out) + (contents(run) if name == "list" else "")
    if name != "list":
        printed = printed.replace(f"{SECRET}-class", "")
        written = written.replace(f"{SECRET}-class", "")
    assert "clear-other-gif" in printed
    assert "clear-other-gif" in written
    assert SECRET not in printed
    assert SECRET not in written
    assert not [one for one in hashes if one in written.replace("given", "")]


@pytest.mark.ray
def test_a_scan_on_ray_has_the_list_in_its_workers(
    corpus: Path, hash_list: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    scan(corpus, tmp_path / "run", engine="canned", hash_list=hash_list)
    assert rows_of(tmp_path / "run") == rows_of(runs["list"])
