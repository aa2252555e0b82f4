"""The folder of a release: nothing else in it passes, what may be published can be checked alone, and a damaged
`release.json` is one line."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import PrivsieveError
from ingest.formats import open_source
from jobs.releases.files import record_of, sums
from tests.jobs.made import privsieve
from tests.jobs.releases import files
from tests.making import Capture
from tests.releases.golden import CASES, write_releases

PRIVATE = "not-for-publication"


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name of a golden case -> the folder with its `release`, `run` and policy."""
    folders = {name: tmp_path_factory.mktemp(name) for name in CASES}
    for name, folder in folders.items():
        with chdir(folder):
            write_releases(CASES[name], Path("release"))
    return folders


@pytest.fixture
def release(cases: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    shutil.copytree(cases[request.param] / "release", tmp_path / "release")
    return tmp_path / "release"


def shard_of(release: Path) -> Path:
    hashes: dict[str, str] = json.loads((release / "release.json").read_text())["sha256"]
    return release / min(hashes)


def _linked(release: Path, path: Path) -> None:
    """What is at the path is moved out of the release, and a link leads there."""
    shutil.move(path, release.parent / "elsewhere")
    path.symlink_to(release.parent / "elsewhere")


def _written(name: str) -> Callable[[Path], object]:
    def write(release: Path) -> None:
        (release / name).parent.mkdir(parents=True, exist_ok=True)
        (release / name).write_bytes(b"a picture")

    return write


INTRUDERS: dict[str, Callable[[Path], object]] = {
    "hidden file": _written(".hidden.jpg"),
    "hidden folder": _written(".hidden/a.jpg"),
    "hidden file of a folder": _written("cats/.a.jpg"),
    "empty folder": lambda release: (release / "empty").mkdir(),
    "hidden empty folder": lambda release: (release / ".empty").mkdir(),
    "another file": _written("more/a.jpg"),
    "another private file": _written(f"{PRIVATE}/a.jpg"),
    "a file of a command at work": _written("release.unfinished/a.jpg"),
    "link to a file": lambda release: (release / "a.jpg").symlink_to(release / "README.md"),
    "link to a folder": lambda release: (release / "more").symlink_to(release.parent),
    "link to nothing": lambda release: (release / "more.tar").symlink_to("nowhere"),
    "link in place of a shard": lambda release: _linked(release, shard_of(release)),
    "link in place of the private folder": lambda release: _linked(release, release / PRIVATE),
    "pipe": lambda release: os.mkfifo(release / "pipe.tar"),
}


@pytest.mark.parametrize("release", CASES, indirect=True)
def test_verify_names_whatever_else_is_in_the_folder(
    release: Path, cases: dict[str, Path], tmp_path: Path, capsys: Capture, request: pytest.FixtureRequest
) -> None:
    case = request.node.callspec.params["release"]
    with chdir(cases[case]):
        assert privsieve("release", "verify", release) == 0
        for number, (name, intrude) in enumerate(INTRUDERS.items()):
            changed = tmp_path / str(number) / "release"
            shutil.copytree(release, changed)
            intrude(changed)
            capsys.readouterr()
            assert privsieve("release", "verify", changed) == 1, name
            printed = capsys.readouterr()
            assert f"{printed.out.count(chr(10))} fault" in printed.err, name


@pytest.mark.parametrize("release", CASES, indirect=True)
def test_a_published_copy_is_checked_by_its_own_means(
    release: Path, cases: dict[str, Path], tmp_path: Path, capsys: Capture, request: pytest.FixtureRequest
) -> None:
    case = request.node.callspec.params["release"]
    asked = tmp_path / "asked.txt"
    asked.write_text(CASES[case].taken_down)
    older = tmp_path / "older"
    shutil.copytree(release, older, ignore=lambda folder, names: {PRIVATE})
    with chdir(cases[case]):
        assert privsieve("release", "takedown", release, asked) == 0
    shutil.rmtree(release / PRIVATE)
    if CASES[case].has_pictures:
        assert privsieve("release", "apply", older, release / "removed.parquet") == 0
        for path in release.glob("*"):
            if path.is_file() and path.name not in json.loads((release / "release.json").read_text())["sha256"]:
                shutil.copy(path, older)
        assert files(older) == files(release)
    for name, content in files(release).items():
        if name.endswith((".json", ".md")):
            assert str(cases[case]).encode() not in content
    assert subprocess.run(["sha256sum", "-c", "--strict", "--quiet", "SHA256SUMS"], cwd=release).returncode == 0
    capsys.readouterr()
    with chdir(cases[case]):
        assert privsieve("release", "verify", release) == 0
        said = capsys.readouterr().out
        assert f"\na published copy, without {PRIVATE}/: not checked is whether" in said
        for command in (
            ("release", "takedown", release, asked),
            ("filter", "run", "--policy", "policy.yaml", "--out", tmp_path / "v2", "--previous", release),
        ):
            assert privsieve(*command) == 2
            assert capsys.readouterr().err.count(f"is a published copy, without {PRIVATE}/") == 1
    if CASES[case].has_pictures:
        source = open_source(str(release), None, None)
        slice_ = next(source.slices(source.shards[0]))
        (tmp_path / "held").write_bytes(next(source.read(slice_)).encoded)
        assert privsieve("release", "lookup", release, tmp_path / "held") == 0
        assert capsys.readouterr().out.startswith("found ")
    shard_of(release).write_bytes(b"another")
    assert privsieve("release", "verify", release) == 1


@pytest.mark.parametrize("release", ["covered"], indirect=True)
def test_some_of_what_must_not_be_published_is_no_published_copy(release: Path, capsys: Capture) -> None:
    (release / PRIVATE / "decisions.parquet").unlink()
    assert privsieve("release", "verify", release) == 1
    assert f"{PRIVATE}/decisions.parquet: it is not there\n" in capsys.readouterr().out


def _changed(facts: Any) -> Iterator[Any]:
    """Yield the facts with one value changed, left out or added, at every depth."""
    if isinstance(facts, dict):
        for name, value in facts.items():
            yield {key: other for key, other in facts.items() if key != name}
            for other in _changed(value):
                yield facts | {name: other}
        yield facts | {"more": 1}
    if isinstance(facts, list) and facts:
        for other in _changed(facts[0]):
            yield [other, *facts[1:]]
    yield from (other for other in (None, -1, True, "\ud800", "..", [1], {"": 0}) if other != facts)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["after_another", "urls"], indirect=True)
def test_a_changed_record_is_refused_in_one_line(
    release: Path, cases: dict[str, Path], tmp_path: Path, capsys: Capture, request: pytest.FixtureRequest
) -> None:
    """Changes that are read as another release are refused since SHA256SUMS has another hash. Where that is put right,
    too, each command comes to its end."""
    facts, asked = json.loads((release / "release.json").read_text()), tmp_path / "asked.txt"
    asked.write_text("a\n")
    before, num_changed, readable = files(release), 0, list[str]()
    for changed in _changed(facts):
        text = json.dumps(changed)
        with suppress(PrivsieveError):
            record_of(text.encode(), "R")
            readable.append(text)
        num_changed += 1
    assert num_changed > 10 * len(readable) > 100
    commands = (
        ("release", "verify", release),
        ("release", "takedown", release, asked),
        ("release", "lookup", release, "https://host.example.org/a.png"),
        ("filter", "run", "--policy", "policy.yaml", "--out", tmp_path / "v2", "--previous", release),
    )
    with chdir(cases[request.node.callspec.params["release"]]):
        for text in [*readable[::10], "{", "[" * 10**5, ""]:
            (release / "release.json").write_text(text)
            for command in commands:
                capsys.readouterr()
                assert privsieve(*command) in (1, 2), (command[0], text)
                error = capsys.readouterr().err
                assert error.startswith("privsieve: ")
                assert error.count("\n") == 1
        assert files(release).items() - before.items() == {("release.json", b"")}
        assert not (tmp_path / "v2").exists()
        for number, text in enumerate([*readable[::2], json.dumps(facts)[:-1], "[" * 10**5]):
            copy = tmp_path / str(number) / "copy"
            shutil.copytree(release, copy)
            (copy / "release.json").write_text(text)
            with suppress(PrivsieveError):
                (copy / "SHA256SUMS").write_bytes(sums(record_of(text.encode(), "R"), text.encode()))
            for command in commands:
                arguments = [copy if argument == release else argument for argument in command]
                shutil.rmtree(tmp_path / "v2", ignore_errors=True)
                capsys.readouterr()
                code = privsieve(*arguments)
                assert (code, capsys.readouterr().err.count("privsieve: ")) in {(0, 0), (1, 0), (1, 1), (2, 1)}
