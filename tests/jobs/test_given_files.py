"""Files that a user names: bombs, pipes, devices and huge ones, for every option that takes a file of settings."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.errors import PrivsieveError
from scoring.yaml_files import MAX_VALUES, load_yaml
from tests.jobs.made import privsieve
from tests.making import Capture

MERGES = "\n".join(
    ["a0: &a0 {k0: 0, k1: 1, k2: 2}"]
    + [f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n  own{n}: 1" for n in range(1, 8)]
)
"""Written out, 14 million fields; plain YAML took more than 40 s and 1.7 GB for them."""

ALIASES = "\n".join(["a0: &a0 [0]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 8))])

OPENAI = ("--engine", "openai", "--endpoint", "http://h/v1", "--model", "m")

YAML_OPTIONS = [
    ("filter", "RUN", "--policy", "FILE", "--out", "OUT"),
    ("explain", "RUN", "000000001", "--policy", "FILE"),
    ("labels", "import", "vispr", "RUN", "--mapping", "FILE", "--out", "OUT"),
    ("scan", "CORPUS", "--run", "OUT", "--config", "FILE"),
    ("scan", "CORPUS", "--run", "OUT", *OPENAI, "--prompt-file", "FILE"),
]

OTHERS = [
    ("report", "RUN", "--category-sizes", "FILE"),
    ("scan", "CORPUS", "--run", "OUT", "--engine", "canned", "--labels", "FILE"),
    ("evaluate", "RUN", "--labels", "FILE"),
    ("tune", "set", "CORPUS", "--labels", "FILE", "--target", "binary", "--out", "OUT"),
    ("tune", "set", "CORPUS", "--labels", "LABELS", "--target", "binary", "--prompt-file", "FILE", "--out", "OUT"),
]


def _option(command: Sequence[str]) -> str:
    """The option that names the file."""
    return command[command.index("FILE") - 1]


@pytest.fixture
def refused(corpus: Path, scanned: Path, tmp_path: Path, capsys: Capture) -> "Refused":
    return Refused(corpus, scanned, tmp_path, capsys)


class Refused:
    """Runs a command on a file that it must refuse; the one line that it prints."""

    def __init__(self, corpus: Path, run: Path, folder: Path, capsys: Capture):
        labels = folder / "labels.csv"
        labels.write_text("key,private\n000000001,1\n")
        self._values = {"CORPUS": corpus, "RUN": run, "OUT": folder / "out", "LABELS": labels}
        self._capsys = capsys

    def __call__(self, command: Sequence[str], file: object) -> str:
        values = self._values | {"FILE": file}
        self._capsys.readouterr()
        assert privsieve(*(values.get(word, word) for word in command)) == 2
        line = self._capsys.readouterr().err
        assert len(line.splitlines()) == 1
        assert str(file) in line
        assert not Path(str(self._values["OUT"])).exists()
        return line


@pytest.mark.parametrize("command", YAML_OPTIONS, ids=_option)
def test_a_bomb_of_merge_keys_or_aliases_is_one_line(command: Sequence[str], refused: Refused, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.yaml"
    for text in (MERGES, ALIASES):
        bomb.write_text(text)
        line = refused(command, bomb)
        assert "it has more than 100,000 values, with all aliases expanded" in line


@pytest.mark.parametrize("command", [*YAML_OPTIONS, *OTHERS], ids=_option)
def test_pipes_and_devices_are_refused_at_once(command: Sequence[str], refused: Refused, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", "/dev/zero"):
        line = refused(command, file)
        assert "it is a pipe, socket or device, not a file" in line
        if command[0] not in ("evaluate", "tune", "set"):
            assert f"{_option(command)} {file}: " in line


@pytest.mark.parametrize("command", [*YAML_OPTIONS, *OTHERS], ids=_option)
def test_huge_files_are_refused_unread(command: Sequence[str], refused: Refused, tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 2**40)
    assert "bytes, the most that such a file may have" in refused(command, huge)


def test_a_file_of_the_system_that_says_it_is_empty_is_read_within_the_limit(refused: Refused) -> None:
    assert "is not valid YAML" in refused(YAML_OPTIONS[0], "/proc/self/cmdline")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [*a]", "holds itself by an alias"),
        ("a: &a {b: *a}", "holds itself by an alias"),
        ("[" * 60 + "]" * 60, "more than 50 lists and mappings inside each other"),
        ("a: " + ":".join(["1"] * 20_000), "the number at line 1 has more than 100 characters"),
        ("a: 0x" + "f" * 200, "the number at line 1 has more than 100 characters"),
        ("a: 1." + "0" * 200, "the number at line 1 has more than 100 characters"),
        ("\n".join(f"- {n}" for n in range(MAX_VALUES)), "it has more than 100,000 values"),
    ],
)
def test_yaml_that_costs_more_than_it_says_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PrivsieveError, match=f"^the file: .*{reason}"):
        load_yaml(text.encode(), "the file")


def test_aliases_and_merge_keys_of_an_honest_file_are_read() -> None:
    text = b"base: &base {then: drop, reason: r}\nrules:\n  - {<<: *base, name: a}\n"
    text += b"  - {<<: [*base], name: b, then: flag}\n"
    assert load_yaml(text, "the file")["rules"] == [
        {"name": "a", "then": "drop", "reason": "r"},
        {"name": "b", "then": "flag", "reason": "r"},
    ]
