"""A damaged shard is counted apart from images by every command, and nothing is said of all images of its source."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privsieve as api
from ingest.storage.place import place
from jobs.releases.files import DECISIONS_SCHEMA
from reports.report.opened import open_run
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.runs.audit_files import read_sample
from scoring.runs.rows import Damage
from tests.jobs.made import compact_run, jpeg, privsieve, rows, tar

CAUTION = "1 shard is damaged (truncated_shard 1): an unknown number of its images was not seen"
CLAIMS = ("all images of the source", "All images", "all images", "of all images", "The whole source:")
"""What may not be said where an unknown number of images was not seen."""


def pictures(first: int, count: int) -> dict[str, bytes]:
    return {f"{number:05d}.jpg": jpeg(number) for number in range(first, first + count)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty pictures in a whole tar, and a tar of as many that was cut within the ninth."""
    folder = tmp_path_factory.mktemp("damaged") / "crawl"
    folder.mkdir()
    tar(folder / "00000.tar", pictures(0, 20))
    tar(folder / "00001.tar", pictures(20, 20))
    whole = (folder / "00001.tar").read_bytes()
    ninth = whole.index(b"00028.jpg")
    (folder / "00001.tar").write_bytes(whole[: ninth + 600])
    return folder


@pytest.fixture(scope="module")
def run(corpus: Path) -> Path:
    assert privsieve("scan", corpus, "--run", corpus.parent / "run", "--engine", "canned") == 0
    return corpus.parent / "run"


def test_a_scan_says_last_and_loudly_which_shard_is_damaged(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("scan", corpus, "--run", tmp_path / "run", "--engine", "canned") == 0
    said = capsys.readouterr()
    assert said.out == f"28 images in 2 of 2 shards: 28 scored, 0 quarantined; {CAUTION}\n"
    assert said.err.splitlines()[-1] == (
        "DAMAGED: 00001.tar; replace what is damaged and scan into a new run; all of it: "
        f'privsieve sql {tmp_path / "run"} "FROM damaged"'
    )
    assert len(rows(tmp_path / "run")) == 29  # the part has its row in the score files


def test_a_scan_of_whole_shards_says_nothing_of_damage(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("scan", corpus / "00000.tar", "--run", tmp_path / "run", "--engine", "canned") == 0
    said = capsys.readouterr()
    assert said.out == "20 images in 1 of 1 shard: 20 scored, 0 quarantined\n"
    assert "damage" not in (said.out + said.err).lower()


def test_a_cut_parquet_file_is_no_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "source").mkdir()
    whole = tmp_path / "source" / "a.parquet"
    pq.write_table(pa.table({"image": [jpeg(number) for number in range(8)]}), whole)
    content = whole.read_bytes()
    whole.write_bytes(content[: len(content) // 2])
    (tmp_path / "source" / "b.parquet").write_bytes(content)
    pq.write_table(pa.table({"caption": ["no picture"]}), tmp_path / "source" / "c.parquet")
    assert privsieve("scan", tmp_path / "source", "--run", tmp_path / "run", "--engine", "canned") == 0
    assert capsys.readouterr().out == (
        "8 images in 3 of 3 shards: 8 scored, 0 quarantined; 2 shards are damaged (corrupt_shard 1, no_image_column 1)"
        ": an unknown number of their images was not seen\n"
    )


def test_status_counts_images_and_names_the_damage(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert privsieve("status", run) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["28 images so far: 28 scored, 0 quarantined", f"{CAUTION}: 00001.tar"]
    assert privsieve("status", run, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["damage"] == {"num_shards": 1, "parts": {"truncated_shard": 1}, "first_shard": "00001.tar"}
    assert found["scope"] == "the images of the source that could be read"


@pytest.mark.parametrize("output", ["text", "json", "csv"])
def test_a_report_claims_nothing_of_all_images(run: Path, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert privsieve("report", run, "--format", output) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count(CAUTION) >= 1
    assert not [claim for claim in CLAIMS if claim in said.out + said.err]


def test_the_figures_of_a_report_leave_the_damage_out(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert privsieve("report", run, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_images"], found["total"]["num_quarantined"], found["is_whole"]) == (28, 0, False)
    assert found["cautions"][0] == CAUTION
    assert found["left_out"]["damaged_parts"] == {"truncated_shard": 1}
    assert found["left_out"]["quarantined"] == {}
    assert (found["design"]["kind"], found["design"]["num_in_source"]) == ("damaged", None)
    assert found["overall"] == {
        "rate": None,
        "low": None,
        "high": None,
        "population": "judged images in the source that could be read",
        "basis": f"{found['total']['num_private']} of {28 - found['total']['num_unknown']} images that could be judged",
        "caveat": "an unknown number of images could not be read, so the rest of the source can differ",
        "is_of_source": False,
        "is_corrected": False,
    }
    assert found["findings"][0].endswith("so the rest of the source can differ.")
    for rate in (found["total"], *found["rates"]):
        assert (rate["share_if_none_private"], rate["share_if_all_private"]) == (None, None)
        assert (rate["source_low"], rate["source_high"]) == (None, None)


def test_the_page_begins_with_the_damage(run: Path, tmp_path: Path) -> None:
    assert privsieve("report", run, "--html", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text()
    text = " ".join(page.split())
    assert f'<p class="warning" role="alert"><strong>{CAUTION}</strong></p>' in text
    assert "28: the images of the source that could be read</dd>" in text
    assert not [claim for claim in CLAIMS if claim in text]


def test_a_random_sample_that_hits_the_damage_is_of_what_could_be_read(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scan = ("scan", corpus, "--run", tmp_path / "run", "--engine", "canned", "--sample", 29)
    assert privsieve(*scan) == 0
    assert capsys.readouterr().out == f"28 images in 2 of 2 shards: 28 scored, 0 quarantined; {CAUTION}\n"
    assert privsieve("report", tmp_path / "run") == 0
    text = capsys.readouterr().out
    assert text.splitlines()[:2] == ["random sample of 29 images (seed 0)", CAUTION]
    assert "images in the source that could be read were found private" in text
    assert privsieve(*scan) == 0  # the rows are those that were chosen


@pytest.mark.slow
def test_a_limit_above_the_source_does_not_make_it_whole(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("scan", corpus, "--run", tmp_path / "run", "--engine", "canned", "--limit", 100) == 0
    assert privsieve("report", tmp_path / "run") == 0
    text = capsys.readouterr().out
    assert CAUTION in text
    assert not [claim for claim in CLAIMS if claim in text]


def test_views_and_rows_hold_images_and_the_damage_has_a_view_of_its_own(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_run(str(run)) as opened:
        counts = opened.sql(
            "SELECT (SELECT count(*) FROM images), (SELECT count(*) FROM quarantined), (SELECT count(*) FROM damaged), "
            "(SELECT count(*) FROM all_rows), (SELECT sum(num_quarantined) FROM rates)"
        )
        assert list(counts.to_pylist()[0].values()) == [28, 0, 1, 29, 0]
        (part,) = opened.sql("FROM damaged").to_pylist()
        assert (part["shard"], part["index"], part["reason"]) == ("00001.tar", 8, "truncated_shard")
        assert part["error_message"].startswith("the tar ends inside this sample (bytes ")
        assert opened.rows().num_rows == opened.rows(["key"]).num_rows == 28
        assert opened.rows(["key"]).column_names == ["key"]
        assert opened.damage == Damage(1, {"truncated_shard": 1}, "00001.tar")
        assert CAUTION in opened.cautions
    assert privsieve("explain", run, "00001.tar#8") == 0
    assert "(damaged_shard)" in capsys.readouterr().out


def test_a_release_says_that_images_were_not_seen(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text("name: p\nrules: []\ndefault: keep\nquarantined: keep\n")
    args = ("filter", run, "--policy", tmp_path / "p.yaml", "--out", tmp_path / "out")
    assert privsieve(*args) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[:2] == ["the images of the source that could be read", CAUTION]
    assert 'policy "p": of 28 images 28 were kept, 0 kept and flagged, 0 dropped' in text
    summary = json.loads((tmp_path / "out" / "release.json").read_text())
    assert summary["scope"] == "the images of the source that could be read"
    assert summary["damaged_shards"] == {"num_shards": 1, "parts": {"truncated_shard": 1}}
    assert (summary["num_images"], summary["rules"]) == (28, {"(default)": {"keep": 28}})
    decisions = pq.read_table(
        tmp_path / "out" / "not-for-publication/decisions.parquet", schema=DECISIONS_SCHEMA
    ).to_pylist()
    (part,) = [row for row in decisions if row["rule"] == "(damaged_shard)"]
    assert (len(decisions), part["action"], part["reason"]) == (29, "drop", "truncated_shard")
    assert privsieve(*args[:-1], tmp_path / "dry", "--dry-run") == 0
    assert "of 28 images 28 would be kept" in capsys.readouterr().out


def test_a_compacted_run_counts_the_same(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, tmp_path / "run")
    compact_run(tmp_path / "run")
    capsys.readouterr()
    assert privsieve("status", tmp_path / "run") == 0
    assert f"28 images so far: 28 scored, 0 quarantined\n{CAUTION}: 00001.tar\n" in capsys.readouterr().out
    assert privsieve("scan", run.parent / "crawl", "--run", tmp_path / "run", "--engine", "canned") == 0
    assert capsys.readouterr().out == f"28 images in 2 of 2 shards: 28 scored, 0 quarantined; {CAUTION}\n"


@pytest.mark.slow
def test_an_audit_counts_images_and_knows_the_rows_of_the_run_again(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    run = tmp_path / "run"
    assert privsieve("audit", "sample", run, "--n", 28, "--out", tmp_path / "list.csv") == 0
    said = capsys.readouterr()
    assert CAUTION in said.err
    assert "quarantined images cannot be drawn" not in said.out
    assert read_sample(place(str(run))).design.num_rows == 29
    listed = (tmp_path / "list.csv").read_text().splitlines()
    filled = [listed[0], *(line.replace(",,", ",1,", 1) for line in listed[1:])]
    (tmp_path / "list.csv").write_text("\n".join(filled))
    assert privsieve("audit", "apply", run, tmp_path / "list.csv") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{CAUTION}\n")
    assert "images   28: 28 scored, 0 quarantined\n" in text
    assert privsieve("report", run) == 0
    text = capsys.readouterr().out
    assert "corrected by" in text
    assert not [claim for claim in CLAIMS if claim in text]
    assert privsieve("sql", run, "SELECT corrected_rate FROM corrected_rates WHERE subject = 'private'") == 0


def test_an_evaluation_repeats_the_caution(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = [str(row["key"]) for row in rows(run)]
    private = [number % 2 for number in range(len(keys))]
    columns: dict[str, Sequence[object]] = {"key": keys, "annotator": ["me"] * len(keys), "private": private}
    write_labels(to_labels(columns, len(keys)), str(tmp_path / "labels.parquet"), LabelsOrigin("hand"))
    assert privsieve("evaluate", run, "--labels", tmp_path / "labels.parquet") == 0
    text = capsys.readouterr().out
    assert CAUTION in text
    assert "28 of 28 rows have a label" in text


def test_the_python_package_says_it_too(corpus: Path, tmp_path: Path) -> None:
    found = api.scan(str(corpus), str(tmp_path / "run"), engine="canned", executor="inline")
    assert (found.num_images, found.num_quarantined, dict(found.reasons)) == (28, 0, {})
    assert found.damage.caution == CAUTION
    report = api.report(str(tmp_path / "run"))
    assert (report.is_whole, report.scope) == (False, "the images of the source that could be read")
    assert report.left_out.damaged_parts == found.damage.parts
