"""Which pictures of two runs are compared with each other."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ingest.errors import PrivsieveError
from ingest.storage.place import place
from reports.diff.compute import compare_runs
from reports.diff.words import findings, headlines, tables
from scoring.runs.results import CompactFile, Manifest, RunListing, listing, row_ranges
from scoring.runs.rows import rows_at
from scoring.table import Verdict
from tests.reports.diff.made import UNREADABLE, PictureRow, level, make, rows_of
from tests.reports.evaluation.conftest import REJECTED, found


def test_all_rows_add_up_with_copies_and_pictures_of_one_run_only(tmp_path: Path) -> None:
    a = [*rows_of([found(), found(age=1), found()]), ("copy", "c0", "dog", found()), ("copy", "c1", "cat", found())]
    b = [*rows_of([found(), found(age=1)]), *(("x", "new", "cat", found()),) * 3]
    result = compare_runs(make(tmp_path, "a", a), make(tmp_path, "b", b))
    assert (result.a.num_rows, result.num_pairs, result.a.num_copies, result.a.num_only_here) == (5, 2, 2, 1)
    assert (result.b.num_rows, result.num_pairs, result.b.num_copies, result.b.num_only_here) == (5, 2, 2, 1)
    assert (result.a.num_differing_copies, result.b.num_differing_copies) == (1, 0)
    assert result.a.num_ambiguous == result.b.num_ambiguous == 0


def test_rows_without_a_hash_are_joined_by_a_name_that_is_the_only_one(tmp_path: Path) -> None:
    a: list[PictureRow] = [
        ("gone", None, "cat", UNREADABLE),  # read in b
        ("twice", None, "cat", UNREADABLE),
        ("both", None, "cat", UNREADABLE),
        ("twice", None, "cat", UNREADABLE),
        ("alone", None, "cat", UNREADABLE),
        ("same", "c5", "cat", found()),
    ]
    b: list[PictureRow] = [
        ("gone", "c0", "cat", found(gov_ids=1)),
        ("pad", "c1", "cat", found()),
        ("both", None, "cat", UNREADABLE),
        ("pad2", "c2", "cat", found()),
        ("twice", None, "cat", UNREADABLE),
        ("same", "other", "cat", found()),  # the name of another picture
    ]
    result = compare_runs(make(tmp_path, "a", a), make(tmp_path, "b", b))
    assert (result.num_pairs, result.num_by_name) == (2, 2)
    assert level(result, "quarantined", "1") == 1
    assert level(result, "quarantined", "quarantined") == 1
    assert (result.a.num_ambiguous, result.b.num_ambiguous) == (2, 1)
    assert (result.a.num_only_here, result.b.num_only_here) == (2, 3)
    for side in (result.a, result.b):
        assert side.num_rows == 6 == result.num_pairs + side.num_copies + side.num_only_here + side.num_ambiguous


def test_runs_without_a_common_picture_and_empty_runs_have_no_rates(tmp_path: Path) -> None:
    a = make(tmp_path, "a", rows_of([found(gov_ids=1)]))
    b = make(tmp_path, "b", [("z", "z", None, found())])
    empty = make(tmp_path, "empty", [])
    for other, num_rows in ((b, 1), (empty, 0)):
        result = compare_runs(a, other)
        assert (result.num_pairs, result.private.rate_a, result.private.p_value, result.groups) == (0, None, None, ())
        assert (result.a.num_only_here, result.b.num_only_here, result.b.num_rows) == (1, num_rows, num_rows)
    with pytest.raises(PrivsieveError, match="is given twice"):
        compare_runs(a, a + "/")


def test_the_large_files_of_a_compacted_run_are_read_in_parts(tmp_path: Path) -> None:
    a = make(tmp_path, "a", rows_of([found(gov_ids=n % 2) for n in range(9)]))
    listed = listing(place(a))
    whole = rows_at(place(a), list(row_ranges(listed)))
    (tmp_path / "a" / "compact").mkdir()
    pq.write_table(whole, tmp_path / "a" / "compact" / "p.parquet", row_group_size=4)
    manifest = Manifest.model_construct(files=(CompactFile(name="p.parquet", num_rows=9, num_bytes=1),))
    compacted = RunListing([], [], manifest, ())
    parts = list(row_ranges(compacted, rows_at_once=2))
    assert [(part.first_row, part.num_rows) for part in parts] == [(0, 2), (2, 2), (4, 2), (6, 2), (8, 1)]
    assert rows_at(place(a), parts).equals(whole)


@pytest.mark.slow
def test_two_corpora_say_first_what_matched_and_what_did_not(tmp_path: Path) -> None:
    a = make(tmp_path, "a", rows_of([found(gov_ids=1), found(), found(), found()]), source="/crawls/march")
    more: list[PictureRow] = [(f"n{n}", f"new{n}", "cat", found(gov_ids=1)) for n in range(6)]
    b = make(tmp_path, "b", [*rows_of([found(), found(), found()]), *more, more[0]], source="/crawls/june")
    first, *_ = findings(compare_runs(a, b))
    assert first == (
        "3 pictures are in both runs (75.0 % of A, 33.3 % of B) and compared; 1 only in A and 6 only in B are not. "
        "Each run as a whole: 25.0 % private of 4 known in A, 70.0 % private of 10 known in B."
    )
    assert next(findings(compare_runs(a, make(tmp_path, "again", rows_of([found()] * 4))))) == (
        "Both runs hold the same 4 pictures; all are compared."
    )
    apart = compare_runs(a, make(tmp_path, "apart", more))
    assert list(findings(apart)) == [
        "No picture is in both runs: 4 are only in A, 6 only in B, so none can be compared. Each run as a whole: 25.0 "
        "% private of 4 known in A, 100.0 % private of 6 known in B. Pictures that were encoded again "
        "have another hash."
    ]
    assert [table.title for table in tables(apart)] == ["Rows of each run"]
    assert "A  " in (of_a := next(headlines(apart)))
    assert of_a.endswith(", of /crawls/march")


def corpus_with_copies(random: np.random.Generator, num: int, seed: int) -> list[PictureRow]:
    """Copies in other shards, rows without a hash whose names another row has or has not, and pictures of this run."""
    answers: list[Verdict] = [found(gov_ids=1), found(age=1), found(age=0.5), found(nudity=None), found(), REJECTED]
    rows: list[PictureRow] = []
    for number in range(num):
        key = f"k{number}" if number % 11 else f"double{number % 3}"
        content: str | None = f"c{random.integers(num)}"
        if number % 13 == 0:
            content = None if (number + seed) % 2 else f"only-{seed}-{number}"
        answer = UNREADABLE if content is None else answers[int(random.integers(len(answers)))]
        rows.append((key, content, f"cat{random.integers(4)}", answer))
    return rows


def test_rows_that_are_matched_in_every_way_add_up(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    a, b = (corpus_with_copies(random, 300, seed) for seed in (0, 1))
    found_ = compare_runs(make(tmp_path, "a", a), make(tmp_path, "b", b))
    assert found_.a.num_copies > 50  # of pictures of other shards too, and most pairs are of two different shards
    assert min(found_.num_by_name, found_.a.num_only_here, found_.a.num_ambiguous, found_.a.num_differing_copies) > 0
    for side in (found_.a, found_.b):
        assert side.num_rows == found_.num_pairs + side.num_copies + side.num_only_here + side.num_ambiguous == 300
