"""`filter --previous`: shards that were made from the same are taken over, and what was taken down stays away."""

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.filter.request import FilterRequest
from jobs.filter.run import run_filter
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import CLEAN, KEEP_ALL, Capture, decisions, files, make_corpus, with_policy

DROP_E = (
    "name: p\ndefault: keep\nquarantined: keep\nrules:\n  - {name: e, when: \"key = 'e'\", then: drop, reason: r}\n"
)
COVER_ALL = (
    "name: cover\nfiles: clean\nrules:\n"
    '  - {name: all, when: "true", then: redact, cover: [image], reason: r}\n'
    "default: keep\n"
)
OF_THE_RELEASE = ("release.json", "SHA256SUMS", "README.md", "changes.parquet", "removed.parquet")
"""Files that say which release was before."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three tars: a and b, c and a copy of b, e."""
    source = tmp_path / "source"
    source.mkdir()
    for name, pictures in (("0.tar", "ab"), ("1.tar", "cb"), ("2.tar", "e")):
        write(source / name, {key: f"caption of {key}" for key in pictures})
    scan_in_process(source, tmp_path / "run")
    return source


def write(path: Path, captions: dict[str, str]) -> None:
    pictures = {f"{key}.jpg": jpeg(ord(key)) for key in captions}
    tar(path, dict(sorted({**pictures, **{f"{key}.txt": text.encode() for key, text in captions.items()}}.items())))


def release(folder: Path, name: str, policy: str, *options: object, run: str = "run") -> Path:
    command = ("--policy", with_policy(folder, policy), "--out", folder / name, "--quiet")
    assert privsieve("filter", folder / run, *command, *options) == 0
    return folder / name


def content(out: Path) -> dict[str, bytes]:
    return {name: text for name, text in files(out).items() if name not in OF_THE_RELEASE}


def taken_over(out: Path) -> tuple[int, int, int]:
    counts = json.loads((out / "release.json").read_text())["taken_over"]
    return counts["num_shards"], counts["num_written"], counts["num_damaged"]


def is_link(one: Path, other: Path) -> bool:
    return one.stat().st_ino == other.stat().st_ino


def test_only_what_changed_is_written_and_the_release_is_that_of_a_whole_filter(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    """A caption of 1.tar is another one of the same length, in a file of the same size and time; of 2.tar another
    decision is made; a shard is new."""
    v1 = release(tmp_path, "v1", KEEP_ALL)
    before, times = files(v1), (source / "1.tar").stat()
    write(source / "1.tar", {"c": "caption of C", "b": "caption of b"})
    os.utime(source / "1.tar", ns=(times.st_atime_ns, times.st_mtime_ns))
    write(source / "3.tar", {"f": "new"})
    scan_in_process(source, tmp_path / "run-2")
    capsys.readouterr()
    v2 = release(tmp_path, "v2", DROP_E, "--previous", v1, run="run-2")
    assert f"taken over from {v1}: 1 shard; 2 written\n" in capsys.readouterr().out
    assert taken_over(v2) == (1, 2, 0)
    assert is_link(v2 / "0.tar", v1 / "0.tar")
    assert content(v2) == content(release(tmp_path, "whole", DROP_E, run="run-2"))
    assert b"caption of C" in (v2 / "1.tar").read_bytes()
    assert files(v1) == before
    assert "Shards taken over from the release before: 1, new: 2." in (v2 / "README.md").read_text()
    assert privsieve("verify", v2) == 0
    (v2 / "made_from.parquet").unlink()
    assert privsieve("verify", v2) == 1


@pytest.mark.parametrize("layout", ["tars", "tree", "parquet"])
def test_each_layout_is_taken_over_unless_settings_differ(layout: str, tmp_path: Path) -> None:
    scan_in_process(make_corpus(tmp_path, layout), tmp_path / "run")
    v1 = release(tmp_path, "v1", COVER_ALL)
    v2 = release(tmp_path, "v2", COVER_ALL, "--previous", v1)
    assert taken_over(v2) == (1, 0, 0)
    assert content(v2) == content(v1)
    v3 = release(tmp_path, "v3", f"{COVER_ALL}# again\n", "--previous", v2)
    assert taken_over(v3) == (0, 1, 0)
    assert taken_over(release(tmp_path, "v4", CLEAN, "--previous", v1)) == (0, 1, 0)
    assert privsieve("verify", v2) == 0


def test_a_damaged_shard_of_the_release_before_is_written_and_said(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    v1 = release(tmp_path, "v1", KEEP_ALL)
    whole = content(v1)
    damaged = v1 / "1.tar"
    damaged.write_bytes(damaged.read_bytes().replace(b"caption of c", b"CAPTION OF C"))
    (v1 / "2.tar").unlink()
    capsys.readouterr()
    v2 = release(tmp_path, "v2", KEEP_ALL, "--previous", v1)
    assert "1 shard; 2 written, 2 of them since the file before is damaged\n" in capsys.readouterr().out
    assert taken_over(v2) == (1, 2, 2)
    assert content(v2) == whole
    for name in ("made_from.parquet", "removed.parquet", "release.json"):
        broken = tmp_path / f"no-{name}"
        shutil.copytree(v2, broken)
        (broken / name).write_bytes(b"{}")
        command = ("filter", tmp_path / "run", "--policy", with_policy(tmp_path, KEEP_ALL), "--previous", broken)
        assert privsieve(*command, "--out", tmp_path / "v3") in (1, 2)
        assert name in capsys.readouterr().err
    assert not (tmp_path / "v3").exists()


def test_what_was_taken_down_never_comes_back(source: Path, tmp_path: Path, capsys: Capture) -> None:
    """b and its copy are taken down from v1, c from v2, each by its key: a later release has neither, whatever its run
    and policy say, and each release keeps the log of those before it."""
    lists = {}
    for key in "bc":
        lists[key] = tmp_path / f"{key}.txt"
        lists[key].write_text(f"0.tar/{key}\n" if key == "b" else f"{key}\n")
    v1 = release(tmp_path, "v1", KEEP_ALL)
    assert privsieve("takedown", v1, lists["b"]) == 0
    v2 = release(tmp_path, "v2", KEEP_ALL, "--previous", v1)
    assert taken_over(v2) == (1, 2, 0)
    assert is_link(v2 / "2.tar", v1 / "2.tar")
    assert [(row["shard"], row["key"], row["rule"]) for row in dropped(v2)] == [
        ("0.tar", "b", "(removed_before)"),
        ("1.tar", "b", "(removed_before)"),
    ]
    assert pq.read_table(v2 / "removed.parquet").equals(pq.read_table(v1 / "removed.parquet"))
    assert privsieve("verify", v2) == 0
    assert "Taken down before this release: 1 picture; none is in it." in (v2 / "README.md").read_text()
    before = files(v1)
    assert privsieve("takedown", v2, lists["c"]) == 0
    assert privsieve("verify", v2) == 0
    assert files(v1) == before
    v3 = release(tmp_path, "v3", KEEP_ALL, "--previous", v2)
    assert {row["key"] for row in dropped(v3)} == {"b", "c"}
    assert len(pq.read_table(v3 / "removed.parquet")) == 2
    assert taken_over(v3) == (2, 0, 0)
    assert privsieve("verify", v3) == 0
    (tmp_path / "b.jpg").write_bytes(jpeg(ord("b")))
    capsys.readouterr()
    assert privsieve("lookup", v3, tmp_path / "b.jpg", "--exact") == 1
    assert "taken down  0.tar/b" in capsys.readouterr().out


def dropped(out: Path) -> list[dict[str, object]]:
    return [row for row in pq.read_table(out / "decisions.parquet").to_pylist() if row["action"] == "drop"]


def test_files_are_copied_where_no_link_can_be_made(source: Path, tmp_path: Path) -> None:
    policy = str(with_policy(tmp_path, KEEP_ALL))
    run_filter(FilterRequest(str(tmp_path / "run"), "memory://v1", policy))
    result = run_filter(FilterRequest(str(tmp_path / "run"), str(tmp_path / "v2"), policy, previous="memory://v1"))
    assert result.taken_over == {"num_shards": 3, "num_written": 0, "num_damaged": 0}
    assert decisions(tmp_path / "v2").keys() == {"a", "b", "c", "e"}
    assert privsieve("verify", tmp_path / "v2") == 0


def test_a_release_of_an_older_version_is_compared_and_all_shards_are_written(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    v1 = release(tmp_path, "v1", KEEP_ALL)
    (v1 / "made_from.parquet").unlink()
    facts = json.loads((v1 / "release.json").read_text())
    del facts["made_from_sha256"]
    (v1 / "release.json").write_text(json.dumps(facts))
    capsys.readouterr()
    v2 = release(tmp_path, "v2", KEEP_ALL, "--previous", v1)
    assert f"{v1} does not say what its shards were made from, so all shards are written" in capsys.readouterr().out
    assert "taken_over" not in json.loads((v2 / "release.json").read_text())
    assert not is_link(v2 / "0.tar", v1 / "0.tar")
