"""SIGKILL at every step of a command that writes: the old or the new release is there, `verify` says which, and the
same command again ends well."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults.killing import Killing, killing
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import asked, files, with_policy
from tests.making import Capture, Folders

pytestmark = pytest.mark.slow

URL = "https://host{0}.example.org/{0}.jpg"
POLICY = "name: p\ndefault: keep\nquarantined: drop\nrules: [{name: first, when: key = '0', then: drop, reason: r}]\n"
LEASE = "release.lease.json"

BY_VERIFY = {
    "the old one": ("stopped before it changed anything", f"{LEASE}: a command was killed", ".part: release.json does"),
    "to be ended": ("a takedown is unfinished; run the same takedown again",),
}
"""What `verify` may say of an interrupted takedown."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: Folders) -> Path:
    """Two shards of three pictures with URLs, their table, a run, and a release that has another first shard."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "tars").mkdir()
    for shard in range(2):
        members: dict[str, bytes] = {}
        for number in range(3 * shard, 3 * shard + 3):
            members |= {f"{number}.jpg": jpeg(40 * number)}
            members |= {f"{number}.json": json.dumps({"url": URL.format(number)}).encode()}
        tar(folder / "tars" / f"{shard}.tar", members)
    pq.write_table(pa.table({"url": [URL.format(n) for n in range(6)]}), folder / "table.parquet")
    scan_in_process(folder / "tars", folder / "run")
    with_policy(folder, POLICY.replace("'0'", "'1'"))
    assert privsieve(*filtered(folder, folder / "before", "shards")) == 0
    with_policy(folder, POLICY)
    return folder


@pytest.fixture(scope="module")
def kills() -> Iterator[Killing]:
    with killing() as started:
        yield started


NOT_FINISHED = ("is no finished release: it has no release.json", "is unfinished, so it cannot be verified")


def filtered(made: Path, out: Path, kind: str, *more: str) -> tuple[object, ...]:
    given = {"list": ("--urls", made / "table.parquet"), "changes": ("--previous", made / "before")}.get(kind, ())
    command = ("filter", made / "run", "--policy", made / "policy.yaml", *given, "--out", out)
    return (*command, "--processes", 1, "--quiet", *more)


def said(out: Path, capsys: Capture) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = privsieve("release", "verify", out)
    printed = capsys.readouterr()
    return code, (printed.out if code == 1 else printed.err).splitlines()


@pytest.mark.parametrize("kind", ["list", "changes"])
def test_a_filter_that_is_killed_leaves_no_release_or_a_whole_one(
    made: Path, tmp_path: Path, kills: Killing, kind: str, capsys: Capture
) -> None:
    out, before, requests = tmp_path / "out", files(made / "before"), asked(tmp_path / "out", "1")
    assert privsieve(*filtered(made, out, kind)) == 0
    whole = files(out)
    assert ("not-for-publication/changes.parquet" in whole) == (kind == "changes")
    shutil.rmtree(out)
    for number in kills.steps(out, *filtered(made, out, kind)):
        shutil.rmtree(out)
        killed = kills.run(out, number, *filtered(made, out, kind))
        code, lines = said(out, capsys)
        if killed == 0:
            assert files(out) == whole
            return
        assert killed == -9
        if code == 1:
            assert lines == [f"{LEASE}: a command was killed; run it again, or remove this file"]
            (out / LEASE).unlink()
        elif code == 2:
            [line] = lines
            assert any(part in line for part in NOT_FINISHED)
            assert privsieve("release", "takedown", out, requests) == 2
            is_begun = (out / "release.unfinished.json").exists()
            assert privsieve(*filtered(made, out, kind, *(["--resume"] if is_begun or number % 2 else []))) == 0
        assert files(out) == whole
        assert files(made / "before") == before
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("kind", ["list", "shards"])
def test_a_takedown_that_is_killed_leaves_the_old_release_or_one_that_the_same_command_ends(
    made: Path, tmp_path: Path, kills: Killing, kind: str, capsys: Capture
) -> None:
    out, old = tmp_path / "out", tmp_path / "old"
    assert privsieve(*filtered(made, old, kind)) == 0
    requests = asked(old, "1", "4")
    shutil.copytree(old, out)
    steps = kills.steps(out, "release", "takedown", out, requests)
    new, before, states = files(out), files(old), set[str]()
    for number in steps:
        shutil.rmtree(out)
        shutil.copytree(old, out)
        killed = kills.run(out, number, "release", "takedown", out, requests)
        code, lines = said(out, capsys)
        there = {name: content for name, content in files(out).items() if name in {*before, *new}}
        if killed == 0:
            assert files(out) == new
            assert states == {"the old one", "to be ended", "the new one"}
            return
        assert killed == -9
        if code == 0:
            assert there == before, "nothing has begun"
        else:
            state = next(name for name, parts in BY_VERIFY.items() if any(part in lines[0] for part in parts))
            assert all(any(part in line for part in BY_VERIFY[state]) for line in lines), lines
            assert state == "to be ended" or there in (before, new)
            states.add("the new one" if there == new and state != "to be ended" else state)
        assert privsieve("release", "takedown", out, requests) == 0
        assert files(out) == new
        assert privsieve("release", "verify", out) == 0
    raise AssertionError("it never came to its end")
