"""What the hosted workflows run, and that it is all of what `.ci/run` runs."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest import __version__

ROOT = Path(__file__).parent.parent
WORKFLOWS = ROOT / ".github" / "workflows"


def _steps(workflow: str) -> list[str]:
    """The commands of all jobs, once for each value of their matrix."""
    jobs: dict[str, Any] = yaml.safe_load((WORKFLOWS / workflow).read_text())["jobs"]
    steps = list[str]()
    for job in jobs.values():
        commands = [step["run"] for step in job["steps"] if "run" in step]
        targets = job.get("strategy", {}).get("matrix", {}).get("target", [""])
        steps += [command.replace("${{ matrix.target }}", target) for target in targets for command in commands]
    return steps


def _targets(commands: str) -> set[str]:
    lines = re.findall(r"^make (.*)$", commands, re.MULTILINE)
    return {word for line in lines for word in line.split() if re.fullmatch(r"test[a-z-]*", word)}


def test_a_pull_request_runs_all_that_ci_runs() -> None:
    wanted = _targets((ROOT / ".ci" / "run").read_text().replace("test-ray-then-cluster", "test-ray test-cluster"))
    assert {"test", "test-ray", "test-vllm", "test-cluster"} <= wanted
    assert wanted - _targets("\n".join(_steps("tests.yml"))) == set()


@pytest.mark.parametrize("workflow", sorted(path.name for path in WORKFLOWS.iterdir()))
def test_workflows_run_targets_and_scripts_that_exist(workflow: str) -> None:
    commands = "\n".join(_steps(workflow))
    makefile = (ROOT / "Makefile").read_text()
    assert [t for t in _targets(commands) if not re.search(rf"^{t}:", makefile, re.MULTILINE)] == []
    for script in re.findall(r"^(\.ci/\S+)$", commands, re.MULTILINE):
        assert (ROOT / script).stat().st_mode & 0o100


def test_only_the_tag_of_the_version_is_published() -> None:
    assert any("ingest.__version__" in step and "GITHUB_REF_NAME" in step for step in _steps("publish.yml"))
    jobs = yaml.safe_load((WORKFLOWS / "publish.yml").read_text())["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}, "the right to publish is of this job alone"
    assert jobs["publish"]["needs"] == "build"


def test_the_version_is_written_once() -> None:
    assert "version:" not in (ROOT / "CITATION.cff").read_text().replace("cff-version:", "")
    assert __version__ not in (ROOT / "pyproject.toml").read_text()
