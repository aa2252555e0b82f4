"""Which pictures `study cost` compares the models on."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.formats import Source
from ingest.sample import Sample, Slice
from jobs.studies.studies import CostRequest, drawn_pictures
from tests.tuning_sets import made

MAX_PIXELS = 64 * 64


def _drawn(source: Path, num: int, seed: int = 0) -> list[bytes | None]:
    request = CostRequest("no adapter", "no model", str(source), num_pictures=num, seed=seed)
    return [None if one is None else one.tobytes() for one in drawn_pictures(request, MAX_PIXELS)]


def test_the_draw_depends_on_the_seed_and_not_on_the_layout(tmp_path: Path) -> None:
    pictures = made.files(8)
    tree, table = made.tree(tmp_path / "tree", pictures), made.parquet(tmp_path / "table", pictures)
    first = _drawn(tree, 3)
    assert len(set(first)) == 3
    assert set(first) == set(_drawn(table, 3))
    assert set(first) != set(_drawn(tree, 3, seed=1))


def test_drawn_pictures_that_cannot_be_decoded_are_counted(tmp_path: Path) -> None:
    pictures = {**made.files(3), "broken.png": b"\x89PNG\r\n\x1a\n not a picture"}
    found = _drawn(made.tree(tmp_path / "tree", pictures), 4)
    assert len(found) == 4
    assert found.count(None) == 1


def test_a_slice_is_read_once_to_draw_and_once_to_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[tuple[str, int]] = Counter()
    read = Source.read

    def counted(self: Source, slice_: Slice) -> Iterator[Sample]:
        reads[slice_.shard, slice_.number] += 1
        return read(self, slice_)

    monkeypatch.setattr(Source, "read", counted)
    assert len(_drawn(made.tree(tmp_path / "tree", made.files(6)), 6)) == 6
    assert set(reads.values()) == {2}
