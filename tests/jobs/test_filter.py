"""Filter as a user runs it, on small real corpora, through Ray."""

import hashlib
import json
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.jobs.made import privsieve, rows


def test_a_filter_keeps_whole_samples_byte_for_byte(corpus: Path, scanned: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "name: no-faces\ndefault: keep\nrules:\n  - {name: faces, when: level = 1, then: drop, reason: a face}\n"
    )
    out = tmp_path / "release"
    assert privsieve("filter", scanned, "--policy", policy, "--out", out, "--dry-run") == 0
    assert not out.exists()
    assert privsieve("filter", scanned, "--policy", policy, "--out", out) == 0
    scores = rows(scanned)
    kept = {str(r["key"]) for r in scores if r["status"] == "scored" and r["level"] != 1}
    assert 0 < len(kept) < 30
    for name in ("00000.tar", "00001.tar"):
        with tarfile.open(corpus / name) as source, tarfile.open(out / name) as released:
            expected = [m for m in source.getmembers() if m.name.partition(".")[0] in kept]
            assert [m.name for m in released.getmembers()] == [m.name for m in expected]
            for before, after in zip(expected, released.getmembers(), strict=True):
                assert before.get_info() == after.get_info()
                assert source.extractfile(before).read() == released.extractfile(after).read()  # type: ignore[union-attr]
    summary = json.loads((out / "release.json").read_text())
    assert summary["actions"]["keep"] == len(kept)
    assert sum(summary["actions"].values()) == summary["num_images"] == 35
    assert summary["sha256"]["00000.tar"] == hashlib.sha256((out / "00000.tar").read_bytes()).hexdigest()
    decisions = pq.read_table(out / "decisions.parquet").to_pylist()
    assert len(decisions) == 35
    assert {d["rule"] for d in decisions} == {"faces", "(default)", "(quarantined)"}
    assert privsieve("filter", scanned, "--policy", policy, "--out", out) == 2
    assert privsieve("filter", scanned, "--policy", policy, "--out", out, "--overwrite") == 0


def test_an_unfinished_scan_is_not_filtered(
    corpus: Path, scanned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = next((scanned / "scores").glob("00000*"))
    content = finished.read_bytes()
    finished.unlink()
    try:
        args = ("filter", scanned, "--policy", "jobs/policies/strict.yaml", "--out", tmp_path / "out")
        assert privsieve(*args) == 2
    finally:
        finished.write_bytes(content)
    assert "00000.tar is not scanned to its end" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
