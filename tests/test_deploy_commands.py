"""Commands of privsieve in the pages and in the files for clusters, read by the real option parser."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from jobs.cli import VERBS, cli
from jobs.console.requests import asked
from jobs.scanning.diagnosis import DoctorRequest, run_doctor

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md") if page.stem != "commands"))
PROGRAM = re.compile(r"(?<!: )(?:privsieve|python -m jobs) +(.*)")


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The file, and the arguments after `privsieve`."""
    for page in PAGES:
        for block in re.findall(r"^```\w*\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE):
            block = re.sub(r'"[^"]*"', lambda quoted: quoted[0].replace("\n", " "), block.replace("\\\n", " "))
            for line in block.splitlines():
                found = PROGRAM.search(re.sub(r"  #.*|[\[\]…]", "", line))
                if found and found[1].split()[0] in VERBS:
                    yield page, tuple(shlex.split(found[1]))
                elif line.startswith("sbatch "):
                    yield page, ("scan", *line.split("slurm.sh ", 1)[1].split())
    _, job = yaml.safe_load_all((ROOT / "jobs" / "deploy" / "rayjob.yaml").read_text())
    yield "rayjob.yaml", tuple(shlex.split(PROGRAM.search(job["spec"]["entrypoint"])[1]))  # type: ignore[index]
    usage = re.search(
        r"slurm\.sh (s3://.*?)\n# The first", (ROOT / "jobs" / "deploy" / "slurm.sh").read_text(), re.DOTALL
    )
    assert usage is not None
    yield "slurm.sh", ("scan", *usage[1].replace("\\\n#", " ").split())


def parsed(arguments: tuple[str, ...]) -> click.Context:
    """The context of the command itself, of a group's too."""
    context = click.Context(cli, info_name="privsieve")
    command: click.Command = cli
    rest = list(arguments)
    while isinstance(command, click.Group):
        found = command.get_command(context, rest.pop(0))
        assert found is not None
        command = found
    return command.make_context(command.name, rest, parent=context)


def test_each_file_has_commands() -> None:
    found = [file for file, _ in commands()]
    assert {"README.md", "docs/clusters.md", "docs/gpu.md", "rayjob.yaml", "slurm.sh"} < set(found)
    assert found.count("docs/gpu.md") >= 14
    assert ("README.md", "tune") in {(file, arguments[0]) for file, arguments in commands()}


@pytest.mark.parametrize("command", list(commands()), ids=lambda command: f"{command[0]}: {' '.join(command[1])}"[:150])
def test_the_option_parser_takes_it(command: tuple[str, tuple[str, ...]]) -> None:
    with parsed(command[1]) as context:
        if context.params.get("engine") in ("vllm", "transformers"):
            assert context.params["model"]


def test_doctor_takes_what_the_page_has_and_names_what_this_machine_lacks() -> None:
    (shown,) = [arguments for file, arguments in commands() if file == "docs/gpu.md" and arguments[0] == "doctor"]
    with parsed(shown) as context:
        corpus = ROOT / "jobs" / "demo" / "corpus" / "shards"
        given = context.params | {"source": str(corpus), "run": None}
    request = asked(DoctorRequest, given)
    findings = {found.check: found for found in run_doctor(request, lambda _: None)}
    assert findings["source"].is_ok
    assert not findings["gpu"].is_ok
