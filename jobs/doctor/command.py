"""`privsieve doctor`: what on this machine would stop a scan, one line each, before the scan begins.

The work is in `jobs.doctor`.
"""

import click

from ingest.errors import IncompleteError
from jobs.console.engine_options import engine_options, engine_options_from_context
from jobs.console.terminal import write_line
from jobs.doctor.findings import Finding
from jobs.doctor.run import DoctorRequest, run_doctor
from jobs.runtime.feedback import on_terminal
from jobs.runtime.weights_progress import weights_shown
from scoring.engines import DEFAULT, ENGINES


@click.command()
@click.option(
    "--engine", default=DEFAULT, show_default=True, help="Check what this engine needs: " + ", ".join(ENGINES)
)
@engine_options
@click.option("--source", help="A corpus: can it be listed and read?")
@click.option("--run", "run_url", help="A run: can it be written? Nothing is left there.")
@click.option("--ray-address", help="Ray cluster to join; default RAY_ADDRESS, else one of its own.")
def doctor(engine: str, source: str | None, run_url: str | None, ray_address: str | None) -> None:
    """Check versions, GPU, memory, model files and storage: one line each, with what to do."""
    request = DoctorRequest(engine, engine_options_from_context(), source, run_url, ray_address)
    with weights_shown(on_terminal(quiet=False)):
        findings = run_doctor(request, _write)
    problems = [found.check for found in findings if not found.is_ok]
    if problems:
        raise IncompleteError(f"{len(problems)} of {len(findings)} checks found a problem: {', '.join(problems)}")


def _write(found: Finding) -> None:
    write_line(f"{'ok' if found.is_ok else 'problem':<9}{found.check:<10}{found.text}")
