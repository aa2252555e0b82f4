"""`filter --previous`: shards that were made from the same are taken over, and what was taken down stays away."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ingest.errors import StorageError
from ingest.storage.place import place
from jobs.releases import copying
from jobs.releases.filtering import run_filter
from jobs.releases.previous import PreviousRelease, ShardsBefore, previous_release
from jobs.releases.request import FilterRequest
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
    (v1 / "made_from.parquet").write_bytes(b"of another program")
    (tmp_path / "e.txt").write_text("e\n")
    assert privsieve("takedown", v1, tmp_path / "e.txt") == 0
    assert (v1 / "made_from.parquet").read_bytes() == b"of another program"


@pytest.mark.parametrize("moment", ["before the copy", "during the copy", "at its end"])
def test_a_takedown_of_the_release_before_while_a_filter_runs_loses_and_brings_back_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """0.tar loses its only other picture, so a row of made_from.parquet goes; 1.tar and 2.tar are looked up then."""
    v1 = release(tmp_path, "v1", KEEP_ALL)
    policy, asked = with_policy(tmp_path, KEEP_ALL), tmp_path / "a.txt"
    asked.write_text("a\n")
    taken = list[int]()

    def then(call: Callable[..., object], number: int) -> Callable[..., object]:
        def called(*args: object) -> object:
            taken.append(len(taken))
            if len(taken) == number:
                assert privsieve("takedown", v1, asked) == 0
            return call(*args)

        return called

    if moment == "at its end":
        monkeypatch.setattr(PreviousRelease, "refuse_changed", then(PreviousRelease.refuse_changed, 1))
    else:
        number = 1 if moment == "before the copy" else 2
        monkeypatch.setattr(ShardsBefore, "take_over", then(ShardsBefore.take_over, number))
    command = ("filter", tmp_path / "run", "--policy", policy, "--out", tmp_path / "v2", "--previous", v1, "--quiet")
    assert privsieve(*command) == 1
    assert not (tmp_path / "v2" / "release.json").exists()
    assert privsieve(*command, "--overwrite") == 0
    assert {row["key"] for row in dropped(tmp_path / "v2")} == {"a"}
    assert privsieve("verify", tmp_path / "v2") == 0


def test_row_numbers_of_a_file_that_a_takedown_wrote_again_are_not_trusted(source: Path, tmp_path: Path) -> None:
    v1 = release(tmp_path, "v1", KEEP_ALL)
    previous = previous_release(str(v1), str(tmp_path / "v2"))
    assert previous is not None
    assert previous.shards is not None
    made_from = pq.read_table(v1 / "made_from.parquet")["made_from"].to_pylist()
    (tmp_path / "asked.txt").write_text("a\n")
    assert privsieve("takedown", v1, tmp_path / "asked.txt") == 0
    taken = [previous.shards.take_over(name, place(str(tmp_path / "v2"))) for name in made_from]
    assert [None if shard is None else [*shard.files] for shard in taken] == [None, ["1.tar"], ["2.tar"]]


def test_another_file_of_a_picture_that_was_taken_down_is_not_cleaned_into_it(source: Path, tmp_path: Path) -> None:
    """e comes with a comment, under another key: cleaned it has the bytes that were taken down."""
    v1 = release(tmp_path, "v1", CLEAN)
    (tmp_path / "e.txt").write_text("e\n")
    assert privsieve("takedown", v1, tmp_path / "e.txt") == 0
    picture = jpeg(ord("e"))
    tar(source / "3.tar", {"g.jpg": picture[:2] + b"\xff\xfe\x00\x06more" + picture[2:], "g.txt": b"again"})
    scan_in_process(source, tmp_path / "run-2")
    v2 = release(tmp_path, "v2", CLEAN, "--previous", v1, run="run-2")
    assert {row["key"]: row["rule"] for row in dropped(v2)} == {"e": "(removed_before)", "g": "(removed_before)"}
    assert json.loads((v2 / "release.json").read_text())["rules"]["(removed_before)"] == {"drop": 2}
    assert privsieve("verify", v2) == 0


@pytest.mark.parametrize("content", [b"{}", b"PAR1 garbage PAR1"])
def test_a_takedown_goes_on_without_a_damaged_list_of_what_shards_were_made_from(
    source: Path, tmp_path: Path, capsys: Capture, content: bytes
) -> None:
    """Also if release.json has the hash of the garbage."""
    v1 = release(tmp_path, "v1", KEEP_ALL)
    facts = json.loads((v1 / "release.json").read_text())
    facts["made_from_sha256"] = hashlib.sha256(content).hexdigest()
    (v1 / "release.json").write_text(json.dumps(facts))
    (v1 / "made_from.parquet").write_bytes(content)
    (tmp_path / "e.txt").write_text("e\n")
    assert privsieve("takedown", v1, tmp_path / "e.txt") == 0
    assert "made_from.parquet is damaged and removed" in capsys.readouterr().err
    assert not (v1 / "made_from.parquet").exists()
    assert privsieve("verify", v1) == 0
    assert "taken_over" not in json.loads(
        (release(tmp_path, "v2", KEEP_ALL, "--previous", v1) / "release.json").read_text()
    )


def test_nothing_is_taken_over_from_other_code_of_the_same_version(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    v1 = release(tmp_path, "v1", KEEP_ALL)
    with monkeypatch.context() as patch:
        patch.setattr(copying, "code_hash", lambda: "of a mended rule")
        assert taken_over(release(tmp_path, "v2", KEEP_ALL, "--previous", v1)) == (0, 3, 0)
    monkeypatch.setattr("PIL.__version__", "0.0")
    assert taken_over(release(tmp_path, "v3", KEEP_ALL, "--previous", v1)) == (0, 3, 0)


def test_a_shard_that_is_a_symbolic_link_becomes_a_file(source: Path, tmp_path: Path) -> None:
    v1, elsewhere = release(tmp_path, "v1", KEEP_ALL), tmp_path / "elsewhere.tar"
    (v1 / "0.tar").rename(elsewhere)
    (v1 / "0.tar").symlink_to(elsewhere)
    v2 = release(tmp_path, "v2", KEEP_ALL, "--previous", v1)
    assert taken_over(v2) == (3, 0, 0)
    assert not (v2 / "0.tar").is_symlink()
    assert is_link(v2 / "0.tar", elsewhere)
    with pytest.raises(StorageError, match=r"cannot write .*/source: "):
        place(str(elsewhere)).link(place(str(source)))
    assert not [*tmp_path.glob("*.part")]
