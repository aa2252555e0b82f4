"""A file in scores/ that is no result of the run, or one a second time, is refused before a figure is wrong."""

import random
import shutil
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ingest.errors import RunError
from ingest.formats import open_source
from ingest.storage.place import place
from scoring.runs.coverage import tally
from scoring.runs.footers import footers
from scoring.runs.ledger import Ledger, result_name
from scoring.runs.record import read_record
from scoring.runs.results import results
from scoring.runs.rows import rows_at
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import compact_run, privsieve, shard, tar
from tests.making import Capture, Folders

FIRST = result_name("00000.tar", 0, True)


def _tars(folder: Path) -> None:
    folder.mkdir()
    shard(folder / "00000.tar", 0, 6)
    shard(folder / "00001.tar", 10, 6)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: Folders) -> Path:
    folder = tmp_path_factory.mktemp("foreign") / "corpus"
    _tars(folder)
    return folder


@pytest.fixture
def run(corpus: Path, tmp_path: Path) -> Path:
    scan_in_process(corpus, tmp_path / "run")
    return tmp_path / "run"


def _refusal(run: Path, capsys: Capture) -> str:
    """What report, sql and filter say, in one and the same line."""
    policy, lines = Path("scoring/policies/strict.yaml"), set()
    before = sorted(run.rglob("*"))
    for verb, *options in (
        ("report",),
        ("sql", "SELECT count(*) FROM images"),
        ("sql", "--shell-setup"),
        ("filter", "--policy", policy, "--out", run.parent / "out", "--dry-run"),
    ):
        capsys.readouterr()
        assert privsieve(verb, run, *options) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert len(err.splitlines()) == 1
        lines |= {err.removeprefix("privsieve: ").strip()}
    assert sorted(run.rglob("*")) == before
    (result,) = lines
    return result


def _settings(run: Path) -> str:
    return read_record(str(run))[1].settings_hash()


@pytest.mark.parametrize("name", [f"{FIRST.removesuffix('.parquet')} (copy).parquet", "my rows\x1b[31m.parquet"])
def test_a_parquet_file_that_is_no_result_is_named(run: Path, name: str, capsys: Capture) -> None:
    shutil.copy(run / "scores" / FIRST, run / "scores" / name)
    shown = name.replace("\x1b", "\\x1b")
    assert _refusal(run, capsys) == f"{run}/scores/{shown} is not a result of a scan; remove it from scores/"
    (run / "scores" / name).unlink()
    compact_run(run)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (result_name("00001.tar", 0, True), "is a copy of a result of 00000.tar"),
        (result_name("00002.tar", 0, True), "is a copy of a result of 00000.tar"),
        (result_name("00000.tar", 1, False), "is a copy of"),
    ],
)
def test_a_copy_under_the_name_of_another_slice_is_named(run: Path, name: str, why: str, capsys: Capture) -> None:
    (run / "scores" / result_name("00001.tar", 0, True)).unlink()
    copy = run / "scores" / name
    shutil.copy(next((run / "scores").glob("00000*")), copy)
    result = _refusal(run, capsys)
    assert result.startswith(f"the score file {copy} {why}")
    assert result.endswith("; remove it and run the same scan again")


def test_a_result_that_was_made_with_other_settings_is_named(
    corpus: Path, run: Path, tmp_path: Path, capsys: Capture
) -> None:
    scan_in_process(corpus, tmp_path / "other", max_frames=2)
    name = min(path.name for path in (run / "scores").iterdir())
    shutil.copy(tmp_path / "other" / "scores" / name, run / "scores" / name)
    message = f"the score file {run}/scores/{name} was made with other settings; remove it and run the same scan again"
    assert _refusal(run, capsys) == message
    where = place(str(run))
    with pytest.raises(RunError, match="was made with other settings"):
        tally(where, _settings(run), open_source(str(corpus), None, None), Ledger({}, {}), results(where))


def test_compacted_files_of_another_run_are_named(run: Path, capsys: Capture) -> None:
    compact_run(run)
    (file,) = (run / "compact").glob("0*.parquet")
    marks = {k: v for k, v in pq.read_metadata(file).metadata.items() if k.startswith(b"privsieve.")}
    marks[b"privsieve.slices"] = b"0" * 64
    pq.write_table(pq.read_table(file).replace_schema_metadata(marks), file)
    capsys.readouterr()
    assert privsieve("report", run) == 2
    assert f"{file} is not what compact.json says; restore it from a copy" in capsys.readouterr().err


# ---- what changed in the source ---------------------------------------------------------------------------------


def _replace(corpus: Path) -> None:
    """With one of the same layout: the same names and sizes, other pictures."""
    content = (corpus / "00001.tar").read_bytes()
    start = content.index(b"\xff\xd8")
    (corpus / "00001.tar").write_bytes(content[: start + 300] + b"\x55\xaa" + content[start + 302 :])


def _replace_in_folder(corpus: Path) -> None:
    content = (corpus / "b" / "1.jpg").read_bytes()
    (corpus / "b" / "1.jpg").write_bytes(content[:300] + b"\x55\xaa" + content[302:])


def _add_sidecar(corpus: Path) -> None:
    (corpus / "b" / "1.txt").write_text("a caption")
    (corpus / "b" / ".hidden").write_text("of a file manager")


def _folders(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(1, 4):
            shard(folder / "x.tar", number, 1)
            (folder / name / f"{number}.jpg").write_bytes((folder / "x.tar").read_bytes()[512:3000])
    (folder / "x.tar").unlink()


@pytest.mark.parametrize(
    ("make", "change", "changed"),
    [
        (_tars, _replace, ["00001.tar"]),
        (_folders, _replace_in_folder, ["b"]),
        (_folders, _add_sidecar, []),
        (_tars, lambda corpus: (corpus / "00001.tar").chmod(0o600), []),
    ],
)
def test_a_shard_that_was_replaced_between_two_scans_is_named(
    make: Callable[[Path], None], change: Callable[[Path], None], changed: list[str], tmp_path: Path
) -> None:
    corpus, run = tmp_path / "corpus", tmp_path / "run"
    make(corpus)
    scan_in_process(corpus, run)
    (run / "scores").joinpath(min(path.name for path in (run / "scores").iterdir())).unlink()
    change(corpus)
    source, where = open_source(str(corpus), None, None), place(str(run))
    earlier = scan_in_process(corpus, run)
    assert tally(where, _settings(run), source, earlier, results(where)).changed == changed


# ---- damage -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_flipped_bit_in_the_rows_is_noticed(run: Path, tmp_path: Path, capsys: Capture) -> None:
    """Everywhere in the pages of a result and of a compacted file: other rows are never given.

    `filter` reads the columns that it decides by, compaction all.
    """
    where, rng = place(str(run)), random.Random(5)
    policy, out = Path("scoring/policies/strict.yaml"), tmp_path / "out"
    command: tuple[object, ...] = ("filter", run, "--policy", policy, "--out", out, "--dry-run", "--quiet")
    for is_compacted in (False, True):
        found = results(where).of("00000.tar")
        file, wanted = run / found[0].path, rows_at(where, found)
        whole = file.read_bytes()
        for number, place_of_bit in enumerate(rng.sample(_places_in_pages(file), 150)):
            _flip(file, whole, place_of_bit, rng.randrange(8))
            with pytest.raises(RunError, match="damaged"):
                rows_at(where, found)
            if number % 50 == 0 and not is_compacted:
                with pytest.raises(RunError, match="is damaged"):
                    compact_run(run)
        for place_of_bit in rng.sample(_places_in_pages(file, {"index", "sha256", "status"}), 3):
            _flip(file, whole, place_of_bit, rng.randrange(8))
            assert privsieve(*command) == 2
            assert f"{file} is damaged" in capsys.readouterr().err
        for place_of_bit in rng.sample(range(len(whole)), 150):
            _flip(file, whole, place_of_bit, rng.randrange(8))
            with suppress(RunError):
                assert rows_at(where, found).equals(wanted)
        file.write_bytes(whole)
        compact_run(run)


def _flip(file: Path, whole: bytes, at: int, bit: int) -> None:
    content = bytearray(whole)
    content[at] ^= 1 << bit
    file.write_bytes(content)


def _places_in_pages(file: Path, columns: Container[str] | None = None) -> list[int]:
    """Bytes of page data: the last of each column chunk, behind all page headers. columns: None for all."""
    group = pq.read_metadata(file).row_group(0)
    places = list[int]()
    for number in range(group.num_columns):
        column = group.column(number)
        if columns is not None and column.path_in_schema not in columns:
            continue
        starts = [at for at in (column.dictionary_page_offset, column.data_page_offset) if at]
        end = min(starts) + column.total_compressed_size
        places += range(max(column.data_page_offset + 60, end - 8), end)
    return places


def test_footers_of_damaged_results_are_one_line_or_right(run: Path) -> None:
    where, settings, rng = place(str(run)), _settings(run), random.Random(6)
    (wanted,) = footers(where, [FIRST], settings)
    file = run / "scores" / FIRST
    whole = file.read_bytes()
    for at in rng.sample(range(len(whole) - 12_000, len(whole)), 400):
        _flip(file, whole, at, rng.randrange(8))
        with suppress(RunError):
            (found,) = footers(where, [FIRST], settings)
            assert found.num_rows == wanted.num_rows


def test_an_empty_shard_has_a_result_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    tar(tmp_path / "corpus" / "00000.tar", {})
    shard(tmp_path / "corpus" / "00001.tar", 0, 2)
    scan_in_process(tmp_path / "corpus", tmp_path / "run")
    assert privsieve("report", tmp_path / "run") == 0
    compact_run(tmp_path / "run")
    assert privsieve("report", tmp_path / "run") == 0
