"""Options of engines on the command line: the same on every verb that asks one."""

from pathlib import Path

import pytest

from tests.jobs.made import privsieve, shard


@pytest.mark.parametrize("verb", ["scan", "plan", "doctor"])
@pytest.mark.parametrize("option", ["--model", "--adapter", "--protocol", "--dtype", "--endpoint"])
@pytest.mark.parametrize("blank", ["", " "])
def test_a_blank_option_is_not_taken_for_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, option: str, blank: str
) -> None:
    """As `--protocol "$PROTOCOL"` is, where the variable was never set."""
    shard(tmp_path / "0.tar", 0, 1)
    where: dict[str, list[object]] = {
        "scan": [tmp_path / "0.tar", "--run", tmp_path / "run"],
        "plan": [tmp_path / "0.tar", "--run", tmp_path / "run"],
        "doctor": [],
    }
    options = {"--engine": "openai", "--endpoint": "http://127.0.0.1:1/v1", "--model": "tiny-vl", option: blank}
    assert privsieve(verb, *where[verb], *(word for pair in options.items() for word in pair)) == 2
    output = capsys.readouterr()
    assert (
        output.err == f"privsieve: Invalid value for '{option}': it is empty; give a value, or leave the option out\n"
    )
    assert output.out == ""
    assert not (tmp_path / "run").exists()
