"""The command line itself."""

import pytest

from tests.jobs.made import privsieve


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert privsieve() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: privsieve [OPTIONS] COMMAND")
    assert "Score every image of a corpus into a run." in err
    assert "privsieve:" not in err


def test_a_verb_without_arguments_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert privsieve("scan") == 2
    assert capsys.readouterr().err == "privsieve: Missing argument 'SOURCE'.\n"
