"""`privsieve doctor`: what on this machine would stop a scan, one line each, before the scan begins.

The work is in `jobs.doctor`.
"""

import click

from ingest.errors import IncompleteError
from jobs.console.request_options import takes
from jobs.console.terminal import write_line
from jobs.doctor.machine import CheckResult
from jobs.doctor.run import DoctorRequest, run_doctor
from jobs.runtime.feedback import on_terminal
from jobs.runtime.weights_progress import weights_shown


@click.command()
@takes(DoctorRequest)
def doctor(request: DoctorRequest) -> None:
    """Check versions, GPU, memory, model files and storage: one line each, with what to do."""
    with weights_shown(on_terminal(quiet=False)):
        findings = run_doctor(request, _write)
    problems = [found.check for found in findings if not found.is_ok]
    if problems:
        raise IncompleteError(f"{len(problems)} of {len(findings)} checks found a problem: {', '.join(problems)}")


def _write(finding: CheckResult) -> None:
    write_line(f"{'ok' if finding.is_ok else 'problem':<9}{finding.check:<10}{finding.text}")
