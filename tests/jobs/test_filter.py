"""Filter as a user runs it, on small real corpora, in this process."""

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, rows, tar
from tests.jobs.releases import KEEP_ALL, NO_FACES, decided, files, released

CAST = "name: p\ndefault: keep\nrules:\n  - {name: numbers, when: 'key::INTEGER > 3', then: drop, reason: r}\n"
NUM_SHARDS, PER_SHARD = 6, 4


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies")
    (folder / "keep-all.yaml").write_text(KEEP_ALL)
    (folder / "no-faces.yaml").write_text(NO_FACES)
    (folder / "empty.yaml").write_text("# to do\n")
    (folder / "cast.yaml").write_text(CAST)
    return folder


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small tars, with a sample in the first one that is only a caption."""
    folder = tmp_path_factory.mktemp("corpora") / "crawl"
    folder.mkdir()
    for number in range(NUM_SHARDS):
        members = {f"{number}-{n}.jpg": jpeg(PER_SHARD * number + n) for n in range(PER_SHARD)}
        captions = {"0-x.txt": b"a caption without its picture"} if number == 0 else {}
        tar(folder / f"{number:05d}.tar", members | captions)
    return folder


@pytest.fixture(scope="module")
def crawl_run(crawl: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    scan_in_process(crawl, run)
    return run


@pytest.fixture(scope="module")
def scanned(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "scanned"
    scan_in_process(corpus, run)
    return run


@pytest.mark.slow
def test_a_filter_keeps_whole_samples_byte_for_byte(
    corpus: Path, scanned: Path, tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str]
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
    before_again = files(out)
    assert privsieve(*args) == 2
    assert "release exists; give a new folder, or --resume, or --overwrite" in capsys.readouterr().err
    assert privsieve(*args, "--resume") == 2
    assert "is finished already; use --overwrite" in capsys.readouterr().err
    (out / "00000.tar").write_bytes(b"spoilt")
    assert privsieve(*args, "--overwrite") == 0
    assert files(out) == before_again


@pytest.mark.slow
def test_a_source_that_changed_is_noticed_and_the_rest_resumed(
    crawl: Path, crawl_run: Path, tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("filter", crawl_run, "--policy", policies / "keep-all.yaml", "--out")
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert privsieve(*args, whole) == 0
    assert len(released(whole)) == NUM_SHARDS
    assert decided(whole)["0-x"] == ("drop", "(unreadable)")

    last = crawl / f"{NUM_SHARDS - 1:05d}.tar"
    intact = last.read_bytes()
    changed = bytearray(intact)
    changed[intact.index(jpeg(PER_SHARD * NUM_SHARDS - 3)) + 300] ^= 1
    last.write_bytes(bytes(changed))
    try:
        assert privsieve(*args, out) == 1
    finally:
        last.write_bytes(intact)
    output = capsys.readouterr().err.strip()
    assert output.startswith(f"privsieve: 00005.tar has changed since it was scanned: sample {NUM_SHARDS - 1}-1 holds")
    assert len(output.splitlines()) == 1
    assert (out / "release.unfinished.json").exists()
    assert not {"release.json", "not-for-publication/decisions.parquet", "00023.tar"} & files(out).keys()

    assert privsieve(*args, out) == 2  # neither --resume nor --overwrite
    done = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tar")}
    assert len(done) == NUM_SHARDS - 1
    (out / "00004.tar.0123abcd.part").write_bytes(b"of a filter that was killed")
    damaged = min(done)
    (out / damaged).write_bytes(b"spoilt")
    assert privsieve("filter", crawl_run, "--policy", policies / "no-faces.yaml", "--out", out, "--resume") == 2
    assert "was begun with another run, policy or guarantee" in capsys.readouterr().err
    slice_file = min((crawl_run / "scores").iterdir())
    as_scanned, table = slice_file.read_bytes(), pq.read_table(slice_file)
    unread = pa.array([None, *table["sha256"].to_pylist()[1:]], pa.string())
    at = table.schema.get_field_index("sha256")
    pq.write_table(table.set_column(at, table.schema.field(at), unread), slice_file)  # another answer the second time
    assert privsieve(*args, out, "--resume") == 2
    assert "or images were scanned again since; use --overwrite" in capsys.readouterr().err
    slice_file.write_bytes(as_scanned)
    assert privsieve(*args, out, "--resume") == 0
    assert files(out) == files(whole)
    written_again = {name for name, mtime_ns in done.items() if (out / name).stat().st_mtime_ns != mtime_ns}
    assert written_again == {damaged}


def test_a_shard_that_is_gone_and_one_that_is_new_are_noticed(
    crawl: Path, crawl_run: Path, tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("filter", crawl_run, "--policy", policies / "keep-all.yaml", "--out", tmp_path / "out")
    moved = (crawl / "00003.tar").rename(tmp_path / "00003.tar")
    try:
        assert privsieve(*args) == 1
    finally:
        moved.rename(crawl / "00003.tar")
    assert (
        "has changed since it was scanned: 1 shard of the run is gone; nothing is released" in capsys.readouterr().err
    )
    tar(crawl / "new.tar", {"new.jpg": jpeg(1)})
    try:
        assert privsieve(*args) == 2
    finally:
        (crawl / "new.tar").unlink()
    assert "new.tar is not scanned to its end" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_only_what_was_scanned_is_released(
    crawl: Path, tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    assert privsieve("scan", crawl, "--run", run, "--engine", "canned", "--sample", 11, "--seed", 1) == 0
    scored = {str(r["key"]) for r in rows(run) if r["status"] == "scored"}
    assert len(scored) in (10, 11)
    assert privsieve("filter", run, "--policy", policies / "keep-all.yaml", "--out", out) == 0
    found: set[str] = set()
    for name in released(out):
        with tarfile.open(out / name) as archive:
            found |= {member.partition(".")[0] for member in archive.getnames()}
    assert found == scored
    assert len(decided(out)) == 11
    summary = json.loads((out / "release.json").read_text())
    assert (summary["sample"], summary["scope"]) == (11, "random sample of 11 images (seed 1)")
    assert summary["made_up"] == "MADE-UP ANSWERS: the canned engine looks at no picture"
    next((run / "scores").iterdir()).unlink()
    capsys.readouterr()
    assert privsieve("filter", run, "--policy", policies / "keep-all.yaml", "--out", tmp_path / "other") == 2
    assert (
        "of 11 chosen images are scanned; wait if a scan is at work, else run the same scan again; then"
        in capsys.readouterr().err
    )


def test_a_tree_with_its_sidecars(tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, run, out = tmp_path / "source", tmp_path / "run", tmp_path / "out"
    latin1 = os.fsdecode(b"caf\xe9.jpg")
    for number, name in enumerate(["street/ä b.jpg", f"street/{latin1}", "office/1.jpg", "2.jpg"]):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(jpeg(40 * number))
    beside = {
        "street/ä b.txt": b"words",
        "street/ä b.json": b"{}",
        "office/1.csv": b"listing",
        "office/9.txt": b"alone",
    }
    for name, content in beside.items():
        (source / name).write_bytes(content)
    (source / "street" / "page.jpg").write_bytes(b"<html>not found</html>")
    (source / "office" / "dangling.jpg").symlink_to("nowhere.jpg")
    (source / "office" / "round.jpg").symlink_to("round.jpg")
    (source / "office" / "dangling.txt").write_bytes(b"a caption without its picture")
    scan_in_process(source, run)
    assert privsieve("filter", run, "--policy", policies / "keep-all.yaml", "--out", out) == 0
    said = capsys.readouterr().out
    assert "drop         2  (unreadable)" in said
    assert "drop         1  (unsafe_member)" in said
    kept = {"street/ä b.jpg", "office/1.jpg", "2.jpg", "street/page.jpg", "street/ä b.txt"}
    assert released(out).keys() == kept | {"street/ä b.json"}
    assert {name: (out / name).read_bytes() for name in kept} == {name: (source / name).read_bytes() for name in kept}
    by_key = {d["key"]: d for d in pq.read_table(out / "not-for-publication/decisions.parquet").to_pylist()}
    assert len(by_key) == 7
    for name in ("dangling.jpg", "round.jpg"):
        assert by_key[name]["reason"] == "there is nothing that could be copied: unreadable"
    assert by_key["caf\\xe9.jpg"]["reason"] == "it has a name that is not valid UTF-8"
    assert (by_key["page.jpg"]["action"], by_key["page.jpg"]["rule"]) == ("keep", "(quarantined)")

    (source / "office" / "new.jpg").write_bytes(jpeg(7))
    capsys.readouterr()
    assert privsieve("filter", run, "--policy", policies / "keep-all.yaml", "--out", tmp_path / "other") == 1
    assert "office has changed since it was scanned: it has 4 samples, and had 3" in capsys.readouterr().err
    assert not (tmp_path / "other" / "release.json").exists()


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


def test_an_unfinished_scan_is_not_filtered(
    crawl_run: Path, tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = next((crawl_run / "scores").glob("00000*"))
    content = finished.read_bytes()
    finished.unlink()
    try:
        args = ("filter", crawl_run, "--policy", policies / "keep-all.yaml", "--out", tmp_path / "out")
        assert privsieve(*args) == 2
    finally:
        finished.write_bytes(content)
    assert (
        "00000.tar is not scanned to its end; wait if a scan is at work, else run the same scan again"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"out": "{crawl}/release"}, "is inside the source; write the release to a folder outside of it"),
        ({"out": "{crawl}"}, "is inside the source"),
        ({"out": "{folder}/link-to-crawl/release"}, "is inside the source"),
        ({"out": "{above}"}, "holds the source; write the release to a folder of its own"),
        ({"out": "/"}, "/ holds the source; write the release to a folder of its own"),
        ({"out": "{run}"}, "holds the run; write the release to a folder of its own"),
        ({"out": "{run}/rel"}, "is inside the run; write the release to a folder outside of it"),
        ({"out": "{run}/reviews/rel"}, "is inside the run"),
        ({"out": "{policies}"}, "exists; give a new folder, or --resume, or --overwrite"),
        ({"out": "{policies}", "more": "--resume"}, "holds no release of privsieve to resume"),
        ({"out": "{policies}", "more": "--overwrite"}, "holds no release of privsieve, so --overwrite leaves it alone"),
        ({"more": "--overwrite --resume"}, "exclude each other"),
        ({"out": "{policies}/keep-all.yaml/x"}, "keep-all.yaml/x: it is below a file"),
        ({"out": "/proc/release"}, "cannot write /proc/release/release.lease.json: "),
        ({"out": "nosuch://x"}, "cannot reach nosuch://x"),
        ({"policy": "{policies}"}, ": is a directory"),
        ({"policy": "{policies}/none.yaml"}, "/none.yaml; give a YAML file, or one that is shipped"),
        ({"policy": "{policies}/empty.yaml"}, "empty.yaml: the policy is empty; it needs the keys name, rules"),
        ({"policy": "{policies}/cast.yaml"}, 'cast.yaml: rule 1 "numbers", when: key::INTEGER > 3: a value cannot be'),
        ({"run": "{crawl}"}, "is not a run: it has no run.json"),
        ({"run": "{policies}/keep-all.yaml"}, "is not a run: it has no run.json"),
    ],
)
def test_a_wrong_filter_gets_one_line_and_writes_nothing(
    change: dict[str, str],
    message: str,
    crawl: Path,
    crawl_run: Path,
    policies: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "link-to-crawl").symlink_to(crawl)
    names = {"crawl": crawl, "run": crawl_run, "policies": policies, "above": crawl.parent, "folder": tmp_path}
    call = {"run": "{run}", "policy": "{policies}/keep-all.yaml", "out": str(tmp_path / "out"), "more": ""} | change
    named = {name: value.format_map(names) for name, value in call.items()}
    before = files(crawl.parent)
    args = ("filter", named["run"], "--policy", named["policy"], "--out", named["out"], *named["more"].split())
    assert privsieve(*args) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    dry = privsieve(*args, "--dry-run")
    assert (dry, capsys.readouterr().err) == ((0, "") if message.startswith("cannot write /proc") else (2, error))
    assert files(crawl.parent) == before


def test_a_picture_on_the_hash_list_is_in_no_release_whatever_the_policy_says(
    crawl: Path, crawl_run: Path, policies: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = jpeg(2)
    (tmp_path / "list.txt").write_text(f"sha256 {hashlib.sha256(listed).hexdigest()}\n")
    command = ("filter", crawl_run, "--policy", policies / "keep-all.yaml", "--hash-list", tmp_path / "list.txt")
    assert privsieve(*command, "--out", tmp_path / "out", "--executor", "inline", "--quiet") == 0
    dropped = pq.read_table(tmp_path / "out" / "not-for-publication/decisions.parquet").filter(
        pc.field("action") == "drop"
    )
    by_rule = {row["rule"]: row["sha256"] for row in dropped.to_pylist()}
    assert by_rule.keys() == {"(hash_list)", "(unreadable)"}  # the caption without its picture
    withheld = dropped.filter(pc.field("rule") == "(hash_list)").select(["key", "sha256", "reason"]).to_pylist()
    assert withheld == [{"key": "", "sha256": None, "reason": "it may not be in any release"}]
    assert released(tmp_path / "out")
    written = b"".join(files(tmp_path / "out").values())
    assert listed not in written
    assert jpeg(1) in written
    assert f"drop  {1:8}  (hash_list)" in capsys.readouterr().out
