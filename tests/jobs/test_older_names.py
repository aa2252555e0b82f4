"""Runs that an older version began, whose result names have 48 bits of hash, go on and say the same."""

import shutil
from pathlib import Path

import pytest

from ingest.errors import RunError
from ingest.formats import open_source
from ingest.storage.place import place
from scoring.runs.coverage import tally
from scoring.runs.ledger import ledger_of, result_name, shard_id_of_result, shard_ids_of_others
from scoring.runs.record import read_record
from scoring.runs.results import results
from tests.jobs.in_process import as_an_older_version_wrote_it, scan_in_process
from tests.jobs.made import privsieve, rows, shard

Capture = pytest.CaptureFixture[str]

TAIL = "photos-of-the-summer-fair-in-the-old-town-hall-and-garde.tar"
ALIKE = (f"4173291/{TAIL}", f"16252073/{TAIL}")
"""The last 60 characters are the same, and so are the first 48 bits of SHA-256: abe9181265e5."""

STRICT = Path("scoring/policies/strict.yaml")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first shard has two slices."""
    folder = tmp_path_factory.mktemp("corpus")
    shard(folder / "00000.tar", 0, 1030)
    shard(folder / "00001.tar", 2000, 9)
    shard(folder / "00002.tar", 3000, 5)
    return folder


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    scan_in_process(corpus, folder)
    return folder


def _told(run: Path, capsys: Capture) -> list[str]:
    """What the verbs say that read a run."""
    result = []
    for verb, *options in (
        ("report",),
        ("sql", "SELECT shard, count(*), sum(s_lex) FROM images GROUP BY 1 ORDER BY 1"),
        ("status",),
        ("filter", "--policy", STRICT, "--out", run.parent / "out", "--dry-run"),
    ):
        capsys.readouterr()
        assert privsieve(verb, run, *options) == 0
        result.append(capsys.readouterr().out.replace(str(run), "RUN"))
    return result


@pytest.mark.slow
def test_an_older_run_says_the_same_and_is_compacted(run: Path, tmp_path: Path, capsys: Capture) -> None:
    older = tmp_path / "run"
    shutil.copytree(run, older)
    as_an_older_version_wrote_it(older)
    assert _num_digits(older) == {"00000.tar": 12, "00001.tar": 12, "00002.tar": 12}
    wanted = _told(run, capsys)
    assert _told(older, capsys) == wanted
    assert privsieve("compact", older) == 0
    assert "1,044 rows of 3 shards in 1 file" in capsys.readouterr().out
    assert _told(older, capsys)[:2] == wanted[:2]
    assert list((older / "scores").iterdir()) == []


@pytest.mark.slow
def test_an_older_run_that_was_interrupted_is_continued(corpus: Path, run: Path, tmp_path: Path) -> None:
    older = tmp_path / "run"
    shutil.copytree(run, older)
    as_an_older_version_wrote_it(older)
    for name in ("00000.tar-*.00001-last.parquet", "00002.tar-*"):
        next((older / "scores").glob(name)).unlink()
    earlier = scan_in_process(corpus, older)
    source, where = open_source(str(corpus), None, None), place(str(older))
    assert shard_ids_of_others(source.shards, results(where).ledger) == []
    found = tally(where, _settings(older), source, earlier, results(where))
    assert (found.num_rows, found.changed) == (1044, [])
    assert _num_digits(older) == {"00000.tar": 12, "00001.tar": 12, "00002.tar": 32}
    assert sorted(rows(older), key=str) == sorted(rows(run), key=str)


def test_two_shards_whose_older_names_are_the_same_both_have_their_rows(tmp_path: Path, capsys: Capture) -> None:
    names = [result_name(name, 0, True) for name in ALIKE]
    assert [name[:73] for name in names] == [f"{TAIL}-abe9181265e5"] * 2
    assert len(set(names)) == 2
    for number, name in enumerate(ALIKE):
        (tmp_path / "corpus" / name).parent.mkdir(parents=True)
        shard(tmp_path / "corpus" / name, 10 * number, 6)
    run = tmp_path / "run"
    scan_in_process(tmp_path / "corpus", run)
    assert sorted((row["shard"], row["index"]) for row in rows(run)) == sorted((n, i) for n in ALIKE for i in range(6))
    assert privsieve("compact", run) == 0
    assert "12 rows of 2 shards" in capsys.readouterr().out


def test_an_older_run_with_one_result_for_two_shards_is_refused(tmp_path: Path, capsys: Capture) -> None:
    for number, name in enumerate(ALIKE):
        (tmp_path / "corpus" / name).parent.mkdir(parents=True)
        shard(tmp_path / "corpus" / name, 10 * number, 6)
    run = tmp_path / "run"
    scan_in_process(tmp_path / "corpus", run)
    max((run / "scores").iterdir()).unlink()
    as_an_older_version_wrote_it(run)
    message = "have the same result names in this run, which an older version began; scan the source into a new run"
    out = ("--policy", STRICT, "--out", tmp_path / "out")
    for command in (("report", run), ("status", run), ("compact", run), ("filter", run, *out)):
        assert privsieve(*command) == 2
        output = capsys.readouterr().err
        assert message in output
        assert all(name in output for name in ALIKE)
        assert len(output.splitlines()) == 1
    where = place(str(run))
    with pytest.raises(RunError, match=r"a result of 4173291/photos.* is in place of one of 16252073/photos.* belongs"):
        tally(where, _settings(run), open_source(str(tmp_path / "corpus"), None, None), ledger_of([]), results(where))


def _num_digits(run: Path) -> dict[str, int]:
    shard_ids = {shard_id_of_result(path.name) for path in (run / "scores").iterdir()}
    return {shard_id[:9]: len(shard_id.rpartition("-")[2]) for shard_id in shard_ids}


def _settings(run: Path) -> str:
    return read_record(str(run))[1].settings_hash()
