"""What a scan would take: the arithmetic on measurements made up here, the measuring on small real corpora."""

import json
from dataclasses import replace
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ingest.errors import SourceError
from ingest.formats import open_source
from ingest.images.pixels import ImageLimits
from jobs.planning.arithmetic import Figure, plan_of
from jobs.planning.measuring import MAX_LISTED_SHARDS, EngineUnderTest, measure
from jobs.planning.planning import TIMES, PlanRequest, in_unit, run_plan, sized
from scoring.assessment import EngineOptions
from scoring.engine_facts import RecordedHostCost
from scoring.engines import canned
from scoring.engines.vlm.vllm import HOST_COST, TARGET_SPEED
from tests.jobs.made import MEASURED, jpeg, privsieve, tar

CANNED = EngineUnderTest(canned.load(EngineOptions()), ImageLimits())


def _exactly(figure: Figure, value: float) -> bool:
    return (figure.value, figure.low, figure.high) == pytest.approx((value, value, value))


def test_arithmetic() -> None:
    found = plan_of(MEASURED, gpus=10, price_per_hour=2.5)
    assert found.images_are_counted
    assert _exactly(found.images, 6_000_000)
    assert found.bytes_per_image.value == 250_000
    assert found.terabytes.value == pytest.approx(1.5)
    assert _exactly(found.images_per_s, 80)
    assert _exactly(found.hours, 6_000_000 / 80 / 10 / 3600)
    assert found.cost is not None
    assert _exactly(found.cost, 6_000_000 / 80 / 3600 * 2.5)
    assert found.cpus_per_gpu == pytest.approx(0.32)
    assert found.result_gigabytes == pytest.approx(0.6 + 0.12)
    assert found.broken_share == 0.25
    assert "measured on this machine with one engine process, 20 images" in found.speed_origin


def test_ranges_hold_the_figure_and_are_the_same_each_time() -> None:
    uneven = replace(MEASURED, batches=((8, 0.1), (8, 0.2), (8, 0.3)))
    found = plan_of(uneven, 1, None)
    assert found.cost is None
    for figure in (found.terabytes, found.bytes_per_image, found.images_per_s, found.hours):
        assert figure.low < figure.value < figure.high
    assert 100_000 < found.bytes_per_image.low < found.bytes_per_image.high < 400_000
    assert found.images_per_s.value == pytest.approx(40)
    assert plan_of(uneven, 1, None) == found


def test_a_corpus_that_was_listed_in_part_is_estimated_with_a_range() -> None:
    found = plan_of(replace(MEASURED, num_shards=300), 1, None)
    assert not found.images_are_counted
    assert found.images.value == 600_000_000
    assert 300_000_000 <= found.images.low < 600_000_000 < found.images.high <= 900_000_000
    assert found.hours.low < found.hours.value < found.hours.high
    assert found.result_gigabytes == pytest.approx(60 + 12)


def test_a_recorded_speed_has_no_range_and_says_what_it_is() -> None:
    found = plan_of(replace(MEASURED, batches=(), speed=TARGET_SPEED), 8, 3.0)
    assert _exactly(found.images_per_s, 80)
    assert found.speed_origin.startswith("not measured here: the target for an 8B model on one H200")
    assert not found.speed_is_measured
    assert plan_of(MEASURED, 8, 3.0).speed_is_measured


def test_a_gpu_needs_cpus_for_decoding_downscaling_and_preparing() -> None:
    """4, 1 and 2 + 8 × 0.5 ms at 80 images a second; without the last two steps it is the decoding alone."""
    assert plan_of(MEASURED, 1, None).host_ms is None
    recorded = RecordedHostCost(2.0, 8.0, "on another machine")
    seen = replace(MEASURED, downscale_s=(0.001,) * 3, seen_megapixels=(0.5,) * 3, host_cost=recorded)
    found = plan_of(seen, 4, None)
    assert found.downscale_ms is not None
    assert found.host_ms is not None
    assert _exactly(found.downscale_ms, 1)
    assert _exactly(found.host_ms, 6)
    assert found.host_origin == "not measured here: on another machine"
    assert found.cpus_per_gpu == pytest.approx(80 * 0.011)


def test_a_sample_of_nothing_but_broken_images_still_makes_a_plan() -> None:
    empty = replace(MEASURED, decode_s=(), megapixels=(), seen_megapixels=(), formats={}, num_bytes=())
    nothing = replace(empty, broken={"empty": 4}, host_cost=HOST_COST)
    found = plan_of(nothing, 1, None)
    assert (found.cpus_per_gpu, found.broken_share) == (0, 1)
    assert _exactly(found.terabytes, 0)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(3):
        images = {f"{number}{n}.jpg": jpeg(50 * number + n) for n in range(10 + number)}
        tar(folder / f"{number:05d}.tar", images | {"zz.jpg": b"", "zzz.txt": b"no picture"})
    return folder


def test_measuring_a_small_corpus_whole(corpus: Path) -> None:
    found = measure(open_source(str(corpus), None, None), CANNED, sample_size=1000, seed=0)
    assert (found.num_shards, found.listed, found.num_slices) == (3, (12, 13, 14), 3)
    assert found.num_sampled == 39
    assert found.broken == {"empty": 3, "no_image": 3}
    assert found.formats == {"jpeg": 33}
    sizes = [len(jpeg(50 * number + n)) for number in range(3) for n in range(10 + number)]
    assert sorted(found.num_bytes) == sorted([0] * 3 + sizes)
    assert found.megapixels == found.seen_megapixels == (64 * 48 / 1e6,) * 33
    assert found.downscale_s == ()
    assert sum(count for count, _ in found.batches) == 39
    assert found.row_bytes > 32  # a row holds a sha256, which cannot be smaller
    assert found.slice_bytes > 0


def test_the_sample_is_reproducible_and_of_random_shards(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(MAX_LISTED_SHARDS + 4):
        tar(folder / f"{number:05d}.tar", {f"{n}.jpg": jpeg(number) for n in range(number + 1)})
    source = open_source(str(folder), None, None)
    first, again, other = (measure(source, CANNED, 20, seed) for seed in (1, 1, 2))
    assert (first.listed, first.num_bytes) == (again.listed, again.num_bytes)
    assert first.listed != other.listed
    assert len(first.listed) == MAX_LISTED_SHARDS
    assert (first.num_shards, first.num_sampled) == (MAX_LISTED_SHARDS + 4, 20)


def test_a_function_returns_the_plan(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_plan(PlanRequest(str(corpus), engine="canned", num_engines=2, price_per_hour=3.0))
    assert (found.num_shards, found.num_sampled, found.gpus) == (3, 39, 2)
    assert _exactly(found.images, 39)
    assert found.cost is not None
    assert found.cost.value == pytest.approx(found.hours.value * 2 * 3)
    assert capsys.readouterr() == ("", "")


def test_a_source_without_images_is_reported(tmp_path: Path) -> None:
    tar(tmp_path / "empty.tar", {})
    with pytest.raises(SourceError, match=r"1 random shards hold no image, empty\.tar first"):
        measure(open_source(str(tmp_path), None, None), CANNED, 5, 0)


def test_the_verb_in_json_and_text(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(corpus.parent.rglob("*"))
    assert privsieve("plan", corpus, "--engine", "canned", "--format", "json", "--price-per-hour", 1) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["images"] == {"value": 39, "low": 39, "high": 39}
    assert found["terabytes"]["value"] == pytest.approx(39 * found["bytes_per_image"]["value"] / 1e12)
    assert found["cpus_per_gpu"] == pytest.approx(found["images_per_s"]["value"] * found["decode_ms"]["value"] / 1000)
    assert privsieve("plan", corpus, "--engine", "canned", "--num-engines", 4) == 0
    text = capsys.readouterr().out
    assert "counted" in text
    assert "no_image 3, empty 3" in text
    assert "with 4 GPUs or processes" in text
    assert "cost" not in text
    assert sorted(corpus.parent.rglob("*")) == before


def test_a_folder_of_tars_and_pictures_is_planned_as_what_is_named(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "loose.jpg").write_bytes(jpeg(1))
    asked = ("plan", corpus, "--engine", "canned", "--format", "json")
    assert privsieve(*asked) == 2
    assert "holds both .tar shards and loose pictures" in capsys.readouterr().err
    for source_format, num_images in (("webdataset", 39), ("tree", 4)):  # every file of a tree is one
        assert privsieve(*asked, "--source-format", source_format) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["images"]["value"] == num_images
        assert found["read_terabytes"] == found["terabytes"]
    assert privsieve(*asked, "--source-format", "tar") == 2
    assert 'unknown format "tar"' in capsys.readouterr().err


def test_the_column_of_the_category_is_the_one_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"image": [jpeg(1), jpeg(2)], "kind": ["a", "b"]}), tmp_path / "part.parquet")
    assert privsieve("plan", tmp_path, "--engine", "canned", "--category", "kind") == 0
    assert privsieve("plan", tmp_path, "--engine", "canned", "--category", "knd") == 2
    assert "knd" in capsys.readouterr().err


def test_remote_tars_are_read_twice(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(corpus), "/plan-test", recursive=True)
    try:
        assert privsieve("plan", "memory://plan-test", "--engine", "canned", "--format", "json") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["read_terabytes"]["value"] == pytest.approx(2 * found["terabytes"]["value"])
        assert privsieve("plan", "memory://plan-test", "--engine", "canned") == 0
        assert "of remote tars twice" in capsys.readouterr().out
    finally:
        memory.rm("/plan-test", recursive=True)


def test_pictures_are_downscaled_as_for_the_engine(tmp_path: Path) -> None:
    """640 × 480 pixels, decoded as they are: shown to the model at no more than 10,000."""
    Image.linear_gradient("L").resize((640, 480)).save(tmp_path / "large.jpg")
    tar(tmp_path / "0.tar", {"large.jpg": (tmp_path / "large.jpg").read_bytes(), "small.jpg": jpeg(2)})
    source = open_source(str(tmp_path / "0.tar"), None, None)
    found = measure(source, replace(CANNED, max_pixels=10_000, host_cost=HOST_COST), 5, 0)
    assert sorted(found.megapixels) == [64 * 48 / 1e6, 640 * 480 / 1e6]
    small, large = sorted(found.seen_megapixels)
    assert (small, large) == (64 * 48 / 1e6, 115 * 86 / 1e6)
    assert len(found.downscale_s) == 2
    assert max(found.downscale_s) > 0
    assert found.host_cost == HOST_COST


def test_an_engine_that_cannot_run_here_is_planned_from_records(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Speed and preparing are recorded and say so; decoding and downscaling are measured on this corpus."""
    asked = ("plan", corpus, "--engine", "vllm", "--model", "/no/such/folder")
    assert privsieve(*asked, "--num-engines", 8, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    recorded = HOST_COST.ms(64 * 48 / 1e6)
    assert found["images_per_s"]["value"] == 80
    assert found["host_ms"]["value"] == pytest.approx(recorded)
    assert recorded > 0.5
    ms = found["decode_ms"]["value"] + found["downscale_ms"]["value"] + recorded
    assert found["cpus_per_gpu"] == pytest.approx(80 * ms / 1000)
    assert privsieve(*asked) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "not measured here: the target for an 8B model" in text
    assert "not measured here: recorded" in text
    assert all(f"at {speed} images/s" in text for speed in (20, 40, 160))
    assert "speed × time of decoding, downscaling and preparing" in text
    assert privsieve("plan", corpus, "--engine", "canned") == 0
    text = capsys.readouterr().out
    assert "preparing" not in text
    assert "at 20 images/s" not in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--engine", "caned"), 'unknown engine "caned" (did you mean "canned"?)'),
        (("--engine", "canned", "--num-engines", 0), "0 is not in the range"),
        (("--engine", "canned", "--price-per-hour", -1), "-1.0 is not in the range"),
        (("--engine", "canned", "--price-per-hour", "nan"), "nan is no finite number"),
        (("--engine", "canned", "--seed", -1), "-1 is not in the range"),
        (("--engine", "vllm", "--model", "a/b", "--protocol", "slot"), 'unknown protocol "slot" (did you mean "slots'),
        (("--engine", "vllm", "--model", "a/b", "--vllm-option", "max_seqs=1"), 'unknown --vllm-option "max_seqs"'),
    ],
)
def test_a_wrong_call_is_one_line(
    corpus: Path, args: tuple[object, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("plan", corpus, *args) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("terabytes", "hours", "size", "time"),
    [
        (7.19e-7, 0.163 / 3600, "719 kB", "0.163 s"),
        (2.5e-6, 0.5, "2.5 MB", "30 min"),
        (0.025, 2.0, "25 GB", "2 h"),
        (12.0, 47.0, "12 TB", "47 h"),
        (1.2349e-3, 300.0, "1.23 GB", "12.5 days"),
        (2500.0, 20_000.0, "2.5 PB", "2.28 years"),
        (0.0, 0.0, "0 bytes", "0 s"),
    ],
)
def test_sizes_and_times_have_units_that_fit(terabytes: float, hours: float, size: str, time: str) -> None:
    assert sized(Figure(terabytes, terabytes, terabytes))[0] == size
    assert in_unit(Figure(hours, hours, hours), TIMES)[0] == time
