"""Filter as a user runs it, on small real corpora, in this process."""

import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, rows
from tests.jobs.releases import KEEP_ALL, NO_FACES, decided, released
from tests.making import Capture, Folders


@pytest.fixture(scope="module")
def policies(tmp_path_factory: Folders) -> Path:
    folder = tmp_path_factory.mktemp("policies")
    (folder / "keep-all.yaml").write_text(KEEP_ALL)
    (folder / "no-faces.yaml").write_text(NO_FACES)
    return folder


@pytest.mark.slow
def test_a_filter_keeps_whole_samples_byte_for_byte(
    corpus: Path, scanned: Path, tmp_path: Path, policies: Path, capsys: Capture
) -> None:
    out = tmp_path / "release"
    args = ("filter", scanned, "--policy", policies / "no-faces.yaml", "--out", out)
    assert privsieve(*args, "--dry-run") == 0
    assert not out.exists()
    output = capsys.readouterr().out
    assert privsieve(*args) == 0
    written = (
        f"release written to {out}: not-for-publication/decisions.parquet says why of each image, release.json has the "
        "counts\n"
        "may be published: all but not-for-publication/, which names the dropped images and the path of the source\n"
        f"next: privsieve scan {out} --run NEW_RUN, to check the release as a corpus of its own\n"
    )
    assert capsys.readouterr().out == output.replace("would be", "were") + written
    scores = rows(scanned)
    kept = {str(r["key"]) for r in scores if r["status"] == "scored" and r["level"] != 1}
    assert 0 < len(kept) < 30
    for name in ("00000.tar", "00001.tar"):
        with tarfile.open(corpus / name) as source, tarfile.open(out / name) as archive:
            expected = [m for m in source.getmembers() if m.name.partition(".")[0] in kept]
            assert [m.name for m in archive.getmembers()] == [m.name for m in expected]
            for before, after in zip(expected, archive.getmembers(), strict=True):
                assert {**before.get_info(), "chksum": 0} == {**after.get_info(), "chksum": 0}
                assert source.extractfile(before).read() == archive.extractfile(after).read()  # type: ignore[union-attr]
    assert released(out).keys() == {"00000.tar", "00001.tar"}
    summary = json.loads((out / "release.json").read_text())
    assert summary["actions"]["keep"] + summary["actions"]["flag"] == len(kept)
    decisions = decided(out)
    assert decisions.keys() == {r["key"] for r in scores}
    assert {rule for _, rule in decisions.values()} == {"faces", "profile", "(default)", "(quarantined)"}
    assert privsieve(*args) == 2
    assert "release exists; give a new folder, or --resume" in capsys.readouterr().err
    assert privsieve(*args, "--resume") == 2
    assert "release holds no unfinished release to resume" in capsys.readouterr().err


def test_a_hugging_face_table_with_its_other_columns(tmp_path: Path, policies: Path) -> None:
    source, run, out = tmp_path / "source", tmp_path / "run", tmp_path / "out"
    images: list[dict[str, object]] = [{"bytes": jpeg(9 * n), "path": f"{n}.jpg"} for n in range(20)]
    images[4] = {"bytes": None, "path": "4.jpg"}
    table = pa.table(
        {
            "caption": [f"caption {n}" for n in range(20)],
            "image": pa.array(images, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            "boxes": [[float(n)] * (n % 3) for n in range(20)],
        }
    ).replace_schema_metadata({"huggingface": '{"info": {}}'})
    source.mkdir()
    pq.write_table(table, source / "train-00000.parquet", row_group_size=6)
    scan_in_process(source, run)
    assert privsieve("filter", run, "--policy", policies / "no-faces.yaml", "--out", out) == 0
    kept = [int(str(r["index"])) for r in rows(run) if r["status"] == "scored" and r["level"] != 1]
    assert 0 < len(kept) < 19
    written = pq.read_table(out / "train-00000.parquet")
    assert written.equals(table.take(kept))
    assert written.schema.metadata == table.schema.metadata
    assert released(out).keys() == {"train-00000.parquet"}
    assert len(decided(out)) == 20
