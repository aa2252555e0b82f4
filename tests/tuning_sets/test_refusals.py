"""What `tune set` refuses, each in one line, and that it leaves nothing half-written."""

import resource
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest

from ingest.errors import PrivsieveError
from ingest.formats import Source
from tests.tuning_sets import made

NUM = 8


def refused(source: Path, truth: Path, out: Path, match: str, target: str = "binary", **more: object) -> str:
    """Also: nothing was written."""
    before = sorted(out.iterdir()) if out.is_dir() else None
    with pytest.raises(PrivsieveError, match=match) as error:
        made.made(source, truth, out, target, **more)
    assert "\n" not in str(error.value)
    assert (sorted(out.iterdir()) if out.is_dir() else None) == before
    return str(error.value)


@pytest.mark.parametrize("target", ["binary", "severity", "slots"])
def test_one_answer_only_teaches_nothing(target: str, tmp_path: Path, pictures: dict[str, bytes], source: Path) -> None:
    rows = [made.values() for _ in range(NUM)]
    truth = made.by_hash(tmp_path / "l.parquet", pictures, private=[1] * NUM, **made.attribute_columns(rows))
    match = f"all [1-8] pictures to tune on have the same answer for --target {target}, so there is nothing to learn"
    refused(source, truth, tmp_path / "set", match, target)


def test_a_source_that_changes_between_the_passes_leaves_nothing(
    tmp_path: Path, source: Path, truth: Path, pictures: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, passes = Source.samples, count(1)

    def changed(corpus: Source) -> Iterator[object]:
        if next(passes) == 2:
            (source / "005.png").write_bytes(pictures["004.png"])
        yield from samples(corpus)

    monkeypatch.setattr(Source, "samples", changed)
    refused(source, truth, tmp_path / "set", "a picture has changed while the set was made; start again")

    passes = count(1)

    def gone(corpus: Source) -> Iterator[object]:
        yield from islice(samples(corpus), 3 if next(passes) == 2 else None)

    (source / "005.png").write_bytes(pictures["005.png"])
    monkeypatch.setattr(Source, "samples", gone)
    refused(source, truth, tmp_path / "set", "pictures of the source have gone while the set was made; start again")


def test_a_shard_that_cannot_be_written_is_one_line_and_leaves_nothing(
    tmp_path: Path, source: Path, truth: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        refused(source, truth, tmp_path / "set", "cannot write .*set: file too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "set").exists()
