"""Scan and filter as a user runs them, on small real corpora, through Ray."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from jobs.cli import main
from scoring.table import SCHEMA


def _jpeg(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").point(lambda v: (v + shade) % 256).resize((64, 48)).save(buffer, "JPEG")
    return buffer.getvalue()


def _tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def _shard(path: Path, first: int, count: int) -> None:
    members: dict[str, bytes] = {}
    for number in range(first, first + count):
        members[f"{number:09d}.jpg"] = _jpeg(number) if number % 7 else b"<html>not found</html>"
        members[f"{number:09d}.json"] = json.dumps({"category": "street" if number % 2 else "office"}).encode()
    _tar(path, members)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    _shard(folder / "00000.tar", 0, 20)
    _shard(folder / "00001.tar", 20, 15)
    return folder


@pytest.fixture(scope="module")
def scanned(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    assert _privsieve("scan", corpus, "--run", run, "--engine", "canned") == 0
    return run


def _privsieve(*args: object) -> int:
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in args])
    assert isinstance(done.value.code, int)
    return done.value.code


def _rows(run: Path) -> list[dict[str, object]]:
    files = sorted((run / "scores").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file, schema=SCHEMA).to_pylist()]


def test_every_image_is_exactly_one_row(scanned: Path) -> None:
    rows = _rows(scanned)
    assert sorted((r["shard"], r["index"]) for r in rows) == [
        *(("00000.tar", i) for i in range(20)),
        *(("00001.tar", i) for i in range(15)),
    ]
    bad = [r for r in rows if r["status"] == "quarantined"]
    assert {(r["key"], r["reason"]) for r in bad} == {(f"{n:09d}", "not_an_image") for n in range(0, 35, 7)}
    assert {r["category"] for r in rows} == {"street", "office"}
    assert {r["format"] for r in rows if r["status"] == "scored"} == {"jpeg"}


def test_the_hash_is_of_the_encoded_bytes(corpus: Path, scanned: Path) -> None:
    with tarfile.open(corpus / "00001.tar") as archive:
        member = archive.extractfile("000000022.jpg")
        assert member is not None
        content = member.read()
    row = next(r for r in _rows(scanned) if r["key"] == "000000022")
    assert row["sha256"] == hashlib.sha256(content).hexdigest()
    assert row["num_bytes"] == len(content)


def test_the_run_says_what_it_was_made_with(corpus: Path, scanned: Path) -> None:
    record = json.loads((scanned / "run.json").read_text())
    assert record["source"] == str(corpus)
    assert (record["format"], record["engine"]["name"], record["taxonomy"]) == ("webdataset", "canned", "cprt-1")


def test_the_same_scan_again_continues_and_another_is_refused(
    corpus: Path, scanned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = next((scanned / "scores").glob("00001*"))
    before = finished.read_bytes()
    finished.unlink()
    assert _privsieve("scan", corpus, "--run", scanned, "--engine", "canned") == 0
    assert "35 images in 2 of 2 shards: 30 scored, 5 quarantined (not_an_image 5)" in capsys.readouterr().out
    assert finished.read_bytes() == before
    assert _privsieve("scan", corpus, "--run", scanned, "--engine", "canned", "--limit", 3) == 2
    assert "limit was None, now 3" in capsys.readouterr().err


def test_a_sample_is_reproducible(corpus: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        args = ("scan", corpus, "--run", tmp_path / name, "--engine", "canned", "--sample", 9, "--seed", 4)
        assert _privsieve(*args) == 0
    drawn = [sorted((r["shard"], r["index"]) for r in _rows(tmp_path / name)) for name in ("a", "b")]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 9


def test_a_filter_keeps_whole_samples_byte_for_byte(corpus: Path, scanned: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "name: no-faces\ndefault: keep\nrules:\n  - {name: faces, when: level = 1, then: drop, reason: a face}\n"
    )
    out = tmp_path / "release"
    assert _privsieve("filter", scanned, "--policy", policy, "--out", out, "--dry-run") == 0
    assert not out.exists()
    assert _privsieve("filter", scanned, "--policy", policy, "--out", out) == 0
    rows = _rows(scanned)
    kept = {str(r["key"]) for r in rows if r["status"] == "scored" and r["level"] != 1}
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
    assert _privsieve("filter", scanned, "--policy", policy, "--out", out) == 2
    assert _privsieve("filter", scanned, "--policy", policy, "--out", out, "--overwrite") == 0


def test_an_unfinished_scan_is_not_filtered(
    corpus: Path, scanned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = next((scanned / "scores").glob("00000*"))
    content = finished.read_bytes()
    finished.unlink()
    try:
        args = ("filter", scanned, "--policy", "jobs/policies/strict.yaml", "--out", tmp_path / "out")
        assert _privsieve(*args) == 2
    finally:
        finished.write_bytes(content)
    assert "00000.tar is not scanned to its end" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("scna",), 'unknown verb "scna" (did you mean "scan"?)'),
        (("scan", "nowhere", "--run", "r"), "does not exist"),
        (("scan", ".", "--run", "r", "--engine", "caned"), 'unknown engine "caned" (did you mean "canned"?)'),
        (
            ("scan", ".", "--run", "r", "--format", "webdatset"),
            'unknown format "webdatset" (did you mean "webdataset"?)',
        ),
        (("scan", ".", "--run", "r", "--sample", "3", "--limit", "3"), "exclude each other"),
        (("scan", ".", "--run", "r", "--limt", "3"), "No such option"),
        (("scan", "nosuch://x", "--run", "r"), "cannot reach nosuch://x"),
        (("filter", "nowhere", "--policy", "none.yaml", "--out", "o"), "cannot read the policy none.yaml"),
    ],
)
def test_a_wrong_command_gets_one_line_and_writes_nothing(
    args: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _privsieve(*args) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
