"""Where `filter` writes: what it refuses to write over, beside or at the same time."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.releases.record import ReleaseIdentity
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve
from tests.jobs.releases import CLEAN, KEEP_ALL, files, released


@pytest.fixture(scope="module")
def scanned(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "scanned"
    scan_in_process(corpus, run)
    return run


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "keep-all.yaml").write_text(KEEP_ALL)
    return tmp_path / "keep-all.yaml"


@pytest.mark.parametrize(
    "foreign",
    [
        ("release.json", '{"name": "my app"}'),
        ("release.unfinished.json", '{"name": "my app"}'),
        ("release.json", "[1, 2]"),
        ("release.json", "not JSON"),
        ("release.json", '{"privsieve": "0.1.0", "source": "x", "policy": "p", "policy_sha256": "00"}'),
    ],
)
def test_a_folder_of_something_else_is_left_alone(
    foreign: tuple[str, str],
    scanned: Path,
    tmp_path: Path,
    policy: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = tmp_path / "my-app"
    (project / "src").mkdir(parents=True)
    (project / "src" / "main.c").write_text("int main(void) { return 0; }")
    (project / foreign[0]).write_text(foreign[1])
    before = files(project)
    args = ("filter", scanned, "--policy", policy, "--out", project)
    message = f"privsieve: {project} holds no release of privsieve (its {foreign[0]} is of something else)"
    assert privsieve(*args, "--overwrite") == 2
    assert capsys.readouterr().err == f"{message}, so --overwrite leaves it alone; remove it yourself\n"
    assert privsieve(*args, "--resume") == 2
    assert capsys.readouterr().err == f"{message} to resume; give a new folder\n"
    assert privsieve(*args) == 2
    assert files(project) == before


@pytest.mark.parametrize(
    "theirs",
    [
        "out/release.2024.part/notes.txt",
        "out/release.lease.json.0123abcd.part/notes.txt",
        "out/release.notes.part",
        "out/release.lease.json.part",
        "out/release.json.0123abcd.part",
        "out",
    ],
)
def test_what_only_looks_like_a_filter_s_leftover_is_left_alone(
    theirs: str, scanned: Path, tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "out", tmp_path / theirs
    if theirs == "out":
        out = file = tmp_path / "release.lease.json.0123abcd.part"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("somebody's only copy")
    for option in ("--overwrite", "--resume"):
        assert privsieve("filter", scanned, "--policy", policy, "--out", out, option) == 2
        assert f"{out} holds no release of privsieve" in capsys.readouterr().err
        assert file.read_text() == "somebody's only copy"


@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
def test_what_a_filter_leaves_that_was_killed_before_its_record_is_no_hindrance(
    option: str, scanned: Path, tmp_path: Path, policy: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("release.lease.json", "release.lease.json.0123abcd.part", "release.unfinished.json.4567cdef.part"):
        (out / name).write_text("{")
    assert privsieve("filter", scanned, "--policy", policy, "--out", out, option) == 0
    assert released(out).keys() == {"00000.tar", "00001.tar"}
    assert not list(out.glob("*.part"))


@pytest.mark.parametrize("shard", ["removed.parquet", "not-for-publication/0.parquet"])
def test_shards_named_like_a_release_s_own_files_are_reported_before_anything_is_written(
    shard: str, tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run, out = tmp_path / "source", tmp_path / "run", tmp_path / "out"
    (source / shard).parent.mkdir(parents=True)
    pq.write_table(pa.table({"image": [jpeg(1), jpeg(2)]}), source / shard)
    scan_in_process(source, run)
    capsys.readouterr()
    args = ("filter", run, "--policy", policy, "--out", out)
    message = f"the source holds {shard.partition('/')[0]}, which a release has of its own; rename it and scan again"
    for more in ((), ("--dry-run",)):
        assert privsieve(*args, *more) == 2
        assert capsys.readouterr().err == f"privsieve: {message}\n"
        assert not out.exists()


@pytest.mark.parametrize("shard", ["removed.parquet", "not-for-publication/0.parquet"])
def test_a_scan_says_first_that_filter_will_refuse_a_shard_named_like_a_release_s_own_file(
    shard: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    (source / shard).parent.mkdir(parents=True)
    pq.write_table(pa.table({"image": [jpeg(1)]}), source / shard)
    name = shard.partition("/")[0]
    notice = f"the source holds {name}, which a release has of its own, so filter refuses the run; rename it first"
    capsys.readouterr()
    assert privsieve("scan", source, "--run", tmp_path / "run", "--engine", "canned", "--executor", "inline") == 0
    assert capsys.readouterr().err.count(notice) == 1
    (source / name).rename(source / "others.parquet" if shard == name else source / "others")
    assert privsieve("scan", source, "--run", tmp_path / "again", "--engine", "canned", "--executor", "inline") == 0
    assert "of its own" not in capsys.readouterr().err


def test_a_release_is_scanned_again_without_a_word_about_its_own_files(
    scanned: Path, tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("filter", scanned, "--policy", policy, "--out", tmp_path / "out") == 0
    assert privsieve("scan", tmp_path / "out", "--run", tmp_path / "again", "--engine", "canned") == 0
    assert "of its own" not in capsys.readouterr().err


def test_json_of_a_loose_picture_named_like_a_release_s_own_file_is_left_out(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run, out = tmp_path / "source", tmp_path / "run", tmp_path / "out"
    (source / "below").mkdir(parents=True)
    for name in ("1.jpg", "croissant.jpg", "below/croissant.jpg"):
        (source / name).write_bytes(jpeg(1))
    for name in ("1.json", "croissant.json", "below/croissant.json", "release.json"):
        (source / name).write_text("{}")  # the last one is of no picture, so it stays behind
    scan_in_process(source, run)
    assert privsieve("filter", run, "--policy", policy, "--out", out) == 0
    below = {"below/croissant.jpg", "below/croissant.json"}
    assert released(out).keys() == {"1.jpg", "1.json", "croissant.jpg", *below}
    assert "left out next to the images: 1 json" in capsys.readouterr().out
    assert privsieve("release", "verify", out) == 0


def test_a_second_filter_into_the_same_folder_is_refused(
    scanned: Path, tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    args = ("filter", scanned, "--policy", policy, "--out", out)
    assert privsieve(*args) == 0
    assert not (out / "release.lease.json").exists()
    (out / "00000.tar.0123abcd.part").write_bytes(b"of the other filter, at work")
    hold = (
        "import sys; from ingest.storage.place import place; from scoring.runs.lease import lease\n"
        "with lease(place(sys.argv[1]), '', takeover=False): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(out / "release.lease.json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        before = files(out)
        capsys.readouterr()
        for more in (("--overwrite",), ("--resume",), ("--overwrite", "--dry-run")):
            assert privsieve(*args, *more) == 2
            assert f"{out} is being written by process {other.pid} on " in capsys.readouterr().err
        assert files(out) == before
        other.kill()
    assert (out / "release.lease.json").exists()
    assert privsieve(*args, "--overwrite") == 0  # what a killed one left is no hindrance
    assert released(out).keys() == {"00000.tar", "00001.tar"}


def test_a_folder_that_exists_is_refused_before_anything_is_printed(
    scanned: Path, tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    assert privsieve("filter", scanned, "--policy", policy, "--out", tmp_path / "out") == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "exists; give a new folder" in output.err


@pytest.mark.parametrize("mine", ["LICENSE", "notes/n.txt", "datasheet-filled.md", ".git/config", "00000.tar.bak"])
def test_overwrite_deletes_no_file_that_the_release_did_not_write(
    mine: str, scanned: Path, tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    args = ("filter", scanned, "--policy", policy, "--out", out, "--overwrite")
    assert privsieve(*args) == 0
    (out / mine).parent.mkdir(exist_ok=True)
    (out / mine).write_text("somebody's only copy")
    before = files(out)
    capsys.readouterr()
    for more in ((), ("--dry-run",)):
        assert privsieve(*args, *more) == 2
        assert capsys.readouterr().err == (
            f"privsieve: {out} holds {mine}, which is not of the release, and --overwrite would delete it; "
            "move it elsewhere, or give a new folder\n"
        )
        assert files(out) == before
    (out / mine).unlink()
    assert privsieve(*args) == 0


@pytest.mark.parametrize("mine", ["notes.txt", "00002.tar"])
def test_overwrite_deletes_no_file_that_an_unfinished_release_did_not_write(
    mine: str, scanned: Path, tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    args = ("filter", scanned, "--policy", policy, "--out", out)
    assert privsieve(*args) == 0
    facts, record = json.loads((out / "release.json").read_text()), out / "release.unfinished.json"
    record.write_text(json.dumps({name: facts[name] for name in ReleaseIdentity.model_fields}))
    (out / "release.json").unlink()
    (out / "00000.tar.0123abcd.part").write_bytes(b"of the filter that was killed")
    (out / mine).write_text("somebody's only copy")
    assert privsieve(*args, "--overwrite") == 2
    assert f"{out} holds {mine}, which may not be of the unfinished release" in capsys.readouterr().err
    assert record.exists()
    (out / mine).unlink()
    assert privsieve(*args, "--overwrite") == 0


def test_a_filter_that_fails_says_what_it_leaves_and_that_the_release_before_is_removed(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run, out = tmp_path / "source", tmp_path / "run", tmp_path / "out"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.jpg").write_bytes(jpeg(number))
    scan_in_process(source, run)
    args = ("filter", run, "--policy", policy, "--out", out, "--quiet")
    changed = "privsieve: . has changed since it was scanned: sample 2.jpg holds another image; nothing is released; "
    left = f"; {out} holds 2 files of an unfinished release: continue with --resume, or delete the folder\n"
    (source / "2.jpg").write_bytes(jpeg(9))
    assert privsieve(*args) == 1
    error = capsys.readouterr().err
    assert error.startswith(changed)
    assert error.endswith(f"scan the source into a new run{left}")
    assert {"0.jpg", "1.jpg"} == {path.name for path in out.glob("*.jpg")}
    (source / "2.jpg").write_bytes(jpeg(2))
    assert privsieve(*args, "--resume") == 0
    (source / "2.jpg").write_bytes(jpeg(9))
    capsys.readouterr()
    assert privsieve(*args, "--overwrite") == 1
    assert capsys.readouterr().err.endswith(f"a new run; the earlier release is removed{left}")
    (source / "2.jpg").write_bytes(jpeg(2))
    assert privsieve(*args, "--overwrite") == 0  # of the unfinished one
    assert released(out).keys() == {"0.jpg", "1.jpg", "2.jpg"}


def test_filter_and_its_card_say_which_files_are_not_for_publication(
    scanned: Path, tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("filter", scanned, "--policy", policy, "--out", tmp_path / "out") == 0
    said = "may be published: all but not-for-publication/, which names the dropped images and the path of the source\n"
    assert said in capsys.readouterr().out
    card = " ".join((tmp_path / "out" / "README.md").read_text().split())
    assert "The publisher keeps `not-for-publication/`" in card


def test_names_up_to_the_limit_of_the_file_system_are_released(tmp_path: Path) -> None:
    """243 bytes and more leave no room for a suffix of an unfinished file."""
    names = {"n" * (length - 4) + ".jpg": jpeg(length) for length in (239, 244, 255)}
    (tmp_path / "source").mkdir()
    for name, content in names.items():
        (tmp_path / "source" / name).write_bytes(content)
    scan_in_process(tmp_path / "source", tmp_path / "run")
    for text in (KEEP_ALL, CLEAN):
        out = tmp_path / text.split()[1]
        (tmp_path / "policy.yaml").write_text(text)
        assert privsieve("filter", tmp_path / "run", "--policy", tmp_path / "policy.yaml", "--out", out) == 0
        assert released(out).keys() == names.keys()
        assert privsieve("release", "verify", out) == 0
