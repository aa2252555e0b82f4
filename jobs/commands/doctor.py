"""`privsieve doctor`: what on this machine would stop a scan, one line each, before the scan begins."""

import click

from ingest.errors import IncompleteError
from jobs.console.commands import Command
from jobs.console.request_options import takes
from jobs.console.terminal import write_line
from jobs.runtime.checks import CheckResult
from jobs.runtime.progress import on_terminal, weights_shown
from jobs.scanning.diagnosis import DoctorRequest, run_doctor


@click.command(cls=Command)
@takes(DoctorRequest)
def doctor(request: DoctorRequest) -> None:
    """Check versions, GPU, memory, model files and storage: one line each, with what to do."""
    with weights_shown(on_terminal(quiet=False)):
        findings = run_doctor(request, _write)
    problems = [finding.check for finding in findings if not finding.is_ok]
    if problems:
        raise IncompleteError(f"{len(problems)} of {len(findings)} checks found a problem: {', '.join(problems)}")


def _write(finding: CheckResult) -> None:
    write_line(f"{'ok' if finding.is_ok else 'problem':<9}{finding.check:<10}{finding.text}")
