"""`privsieve doctor`: what on this machine would stop a scan, one line each, before the scan begins."""

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Annotated

from ingest.machine import default_variable
from ingest.storage.retries import RETRY_VARIABLE
from jobs.console.engine_options import ChosenOptions, EngineName
from jobs.console.requests import Option, Url, checked_request
from jobs.runtime.checks import (
    CheckResult,
    check_cores,
    check_gpu,
    check_memory,
    check_packages,
    check_python,
    check_run,
    check_source,
    finding,
    gpus,
)
from scoring import tesseract
from scoring.assessment import EngineOptions, RemoteEngineModule
from scoring.engine_facts import LocalModel
from scoring.engines import DEFAULT, engine_module
from scoring.screen.model import Screener
from scoring.screen.screen_file import read_screen


@checked_request
class DoctorRequest:
    engine: EngineName = DEFAULT
    """Check what this engine needs: {}"""

    options: ChosenOptions = field(default_factory=EngineOptions)
    """What the engine is given."""

    screen: Annotated[Url | None, Option(metavar="SCREEN")] = None
    """Folder of a screen: can this machine load it?"""

    source: Url | None = None
    """A corpus: can it be listed and read?"""

    run: Url | None = None
    """A run: can it be written? Nothing is left there."""


def run_doctor(
    request: DoctorRequest, report: Callable[[CheckResult], None] = lambda finding: None
) -> list[CheckResult]:
    """Run all checks of this machine; `report` gets each as soon as it is known. EngineError for an unknown engine."""
    engine, options, findings = request.engine, request.options, list[CheckResult]()
    with default_variable(RETRY_VARIABLE, "5"):  # seconds to wait for a store that does not answer
        module = engine_module(engine)
        required = module.requirements(options)
        checks: dict[str, Callable[[], str]] = {
            "python": check_python,
            "packages": partial(check_packages, required.extra),
            "cores": check_cores,
            "gpu": partial(check_gpu, engine, required.local_model),
            "memory": partial(_check_memory, required.local_model),
            "engine": partial(_check_engine, engine, options),
        }
        if isinstance(module, RemoteEngineModule):
            checks["endpoint"] = partial(module.check, options)
        if request.screen is not None:
            checks["screen"] = partial(_check_screen, request.screen)
        if request.source is not None:
            checks["source"] = partial(check_source, request.source)
        if request.run is not None:
            checks["run"] = partial(check_run, request.run)
        for name, check in checks.items():
            findings.append(finding(name, check))
            report(findings[-1])
    return findings


def _check_memory(model: LocalModel | None) -> str:
    """Check the memory. A model takes the machine's own memory only where there is no GPU."""
    runs_on_cpu = model is not None and model.cpu_memory_bytes > 0 and not gpus()
    return check_memory(model.cpu_memory_bytes if model is not None and runs_on_cpu else 0)


def _check_engine(engine: str, options: EngineOptions) -> str:
    description = engine_module(engine).describe(options)
    weights = f"; {', '.join(description.weights)}" if description.weights else ""
    scripts = ""
    if (version := description.versions.get(tesseract.PROGRAM)) is not None:
        meaning = ": only Latin, Chinese and Japanese script is read" if version == "none" else ""
        scripts = f"; {tesseract.PROGRAM} {version}{meaning}"
    return f"{description.name}, {description.protocol}{weights}{scripts}"


def _check_screen(url: str) -> str:
    screen = read_screen(url)
    Screener(screen)
    return f"{url}: looks at {' and '.join(modality.name for modality in screen.record.modalities)}"
