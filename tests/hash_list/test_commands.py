"""A hash list given to the commands that read a run: none shows, names or copies a listed picture."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ingest.errors import number_of
from jobs.cli import VERBS
from jobs.runtime.progress import SILENT
from jobs.serving.browse.browsing import BrowseRequest
from jobs.serving.browse.browsing import prepared as prepared_to_browse
from jobs.serving.review.reviewing import ReviewRequest, prepared
from reports.report.browsed_rows import Filter
from scoring.labels.label_files import as_csv
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.table import Col
from tests.hash_list.listed import CLEAR, SECRET, SHOWING, UNKNOWN
from tests.jobs.made import privsieve
from tests.making import Capture, Folders


@pytest.fixture(scope="module")
def without_source(corpus: Path, hash_list: Path, tmp_path_factory: Folders) -> dict[str, tuple[Path, Path]]:
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
    run, _ = without_source["pdq"]
    given = ("--hash-list", hash_list)
    assert privsieve("report", run, "--format", "json", *given) == 0
    report = json.loads(capsys.readouterr().out)
    assert {one["key"].partition("-")[0] for one in report["severest"]} == {"clear"}
    assert report["severest_note"] == left_out(4, 1)  # of ten listed ones; copies of a picture count once here
    assert privsieve("explain", run, "secret-frames-gif", *given) == 2
    assert capsys.readouterr().err == "privsieve: this image is not explained: it is on the hash list\n"
    assert privsieve("explain", run, "unknown-long-gif", *given) == 2
    assert "it cannot be compared with the hash list" in capsys.readouterr().err
    assert privsieve("explain", run, "clear-other-gif", *given) == 0
    capsys.readouterr()
    assert privsieve("labels", "export", run, "--format", "csv", "--out", tmp_path / "out.csv", *given) == 0
    unknown = len(UNKNOWN)
    said = f"left out: 10 pictures on the hash list and {unknown} pictures that cannot be compared"
    assert said in capsys.readouterr().out
    assert (tmp_path / "out.csv").read_text().count("clear-") == NUM_CLEAR
    assert privsieve("audit", "sample", run, "--n", 1000, "--out", tmp_path / "audit.csv", *given) == 0
    assert f"left out: 10 drawn pictures on the hash list and {unknown - 1} drawn pictures" in capsys.readouterr().out
    feedback: list[str] = []
    request = ReviewRequest(run=str(runs["pdq"]), queue="index >= 0", hash_list=str(hash_list))
    with prepared(request, replace(SILENT, notice=feedback.append)) as review:
        states = review.asking.screen.states()
        keys = review.asking.rows["key"].to_pylist()
    assert sorted(states) == [n for n, key in enumerate(keys) if not key.startswith("clear")]
    assert feedback[-1] == (
        "3 pictures: those that fit the condition; 10 more pictures on the hash list, never shown; "
        f"{unknown} more pictures that cannot be compared with it, never shown"
    )
    assert "scan --pdq" not in "".join([*feedback, capsys.readouterr().err])


COMMANDS: dict[str, Sequence[Sequence[str]]] = {
    "scan": (("{corpus}", "--run", "{run}", "--engine", "canned"), ("{corpus}", "--run", "{run}", "--dry-run")),
    "plan": (("{corpus}", "--run", "{out}/planned", "--engine", "canned", "--executor", "inline", "--quiet"),),
    "status": (("{run}", "--all"), ("{run}", "--format", "json")),
    "report": (
        ("{run}",),
        ("{run}", "--by", "key", "--format", "csv"),
        ("{run}", "--format", "json"),
        ("{run}", "--html", "{out}/page.html"),
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
    "evaluate": (("{run}", "--labels", "{labels}", "--html", "{out}/evaluation.html"),),
    "calibrate": (("{run}", "--labels", "{labels}", "--drawn", "evenly"),),
    "diff": (("{run}", "{other}", "--html", "{out}/diff.html"), ("{other}", "{run}", "--format", "json")),
    "filter": (("{run}", "--policy", "{policy}", "--out", "{out}/release", "--quiet"),),
    "tune": (("set", "{corpus}", "--labels", "{labels}", "--target", "binary", "--out", "{out}/set", "--quiet"),),
    "labels": (
        ("export", "{run}", "--format", "csv", "--out", "{out}/labels.csv"),
        ("export", "{run}", "--format", "label-studio", "--out", "{out}/tasks.json"),
        ("agreement", "{run}", "{other}", "--format", "json"),
        ("consensus", "{run}", "{other}", "--out", "{out}/consensus.csv"),
    ),
    "similarity": (("compare", "{corpus}", "{corpus}", "--out", "{out}/pairs.parquet", "--quiet"),),
    "screen": (
        ("fit", "{corpus}", "--labels", "{labels}", "--target-miss", "0.4", "--out", "{out}/screen", "--quiet"),
    ),
}
"""Every command that reads a run or the corpus, in ways that name pictures."""

NO_PICTURES = {"fetch", "help", "doctor", "models", "release", "purge"}
"""They read no run that was scanned here: metadata, documentation, this machine, weights, training sets, labels,
releases."""

WITH_LIST = {
    *("scan", "plan", "report", "explain", "audit", "review", "browse", "diff", "labels", "filter", "tune", "set"),
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
        found.append(as_csv(rows.table(Filter()).drop_columns([Col.BOXES])).decode())
    return "\n".join([*found, str(browsing.withheld)])


def test_every_command_is_in_this_test() -> None:
    assert COMMANDS.keys() | NO_PICTURES == VERBS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["list", "plain"])
def test_no_command_names_a_listed_picture(
    runs: dict[str, Path], corpus: Path, hash_list: Path, keep_all: Path, tmp_path: Path, capsys: Capture, name: str
) -> None:
    """Of a run that was scanned with the list no file and no output does; of others, commands that have the list, but
    for the groups of a report, which are of all rows that the run has. A run with hashes gives the same (see above)."""
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
            assert "No such option" not in said.err, asked
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
