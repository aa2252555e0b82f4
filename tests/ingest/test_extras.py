"""What a message tells people to install works where privsieve is installed, and is published."""

import sys
from pathlib import Path

import pytest

from ingest.machine import install_command
from tests.making import Patch

ROOT = Path(__file__).parents[2]


def test_the_packages_of_an_extra_are_named_and_not_privsieve_itself() -> None:
    command = install_command("review")
    assert command.startswith(f"{sys.executable} -m pip install ")
    assert "'starlette>=1.10'" in command
    assert "'uvicorn>=0.54'" in command
    assert "privsieve" not in command.partition("constraints.txt ")[2]


@pytest.mark.parametrize(("extra", "pins"), [("review", "constraints.txt"), ("vllm", "constraints-gpu.txt")])
def test_in_a_checkout_the_tested_versions_are_installed(extra: str, pins: str) -> None:
    assert f" -c {ROOT / pins} " in install_command(extra)


def test_an_extra_that_names_another_has_its_packages_too() -> None:
    command = install_command("tune")
    assert "torch>=2.13" in command
    assert "webdataset>=1.0" in command


def test_pipx_is_named_where_privsieve_was_installed_with_it(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "pipx_metadata.json").write_text("{}")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_command("s3") == "pipx inject privsieve 's3fs>=2026.1'"
