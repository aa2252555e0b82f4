"""All checks in order: what on this machine would stop a scan."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from jobs.checking.engines import check_adapter, check_engine
from jobs.checking.findings import Finding, finding
from jobs.checking.gpus import check_gpu, gpus
from jobs.checking.machine import check_disk, check_memory, check_packages, check_python, check_shared_memory
from jobs.checking.ray_start import check_ray, list_executors
from jobs.checking.storage import check_run, check_source, short_retries
from scoring.assessment import EngineOptions, RemoteEngineModule
from scoring.engine_facts import LocalModel
from scoring.engines import DEFAULT, engine_module


@dataclass(frozen=True)
class DoctorRequest:
    engine: str = DEFAULT

    options: EngineOptions = field(default_factory=EngineOptions)

    source: str | None = None
    """A corpus to list and read; None checks none."""

    run_url: str | None = None
    """A run to write to; None checks none."""

    ray_address: str | None = None
    """A Ray cluster to join; None for RAY_ADDRESS, else one of its own."""


def run_doctor(request: DoctorRequest, report: Callable[[Finding], None] = lambda finding: None) -> list[Finding]:
    """One finding per check; `report` receives each as soon as it is known. EngineError for an unknown engine."""
    findings = []
    with short_retries():
        for name, check in _checks(request):
            found = finding(name, check)
            findings.append(found)
            report(found)
    return findings


def _checks(request: DoctorRequest) -> list[tuple[str, Callable[[], str]]]:
    engine, options = request.engine, request.options
    module = engine_module(engine)
    required = module.requirements(options)
    model = required.local_model
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", check_python),
        ("packages", partial(check_packages, required.extra)),
        ("gpu", partial(check_gpu, engine, model)),
        ("memory", partial(_check_memory, model)),
        ("/dev/shm", check_shared_memory),
        ("disk", partial(check_disk, request.run_url)),
        ("ray", partial(check_ray, request.ray_address)),
        ("executors", list_executors),
        ("engine", partial(check_engine, engine, replace(options, adapter=None))),
    ]
    if options.adapter is not None:
        checks.append(("adapter", partial(check_adapter, engine, options, model)))
    if isinstance(module, RemoteEngineModule):
        checks.append(("endpoint", partial(module.check, options)))
    if request.source is not None:
        checks.append(("source", partial(check_source, request.source)))
    if request.run_url is not None:
        checks.append(("run", partial(check_run, request.run_url)))
    return checks


def _check_memory(model: LocalModel | None) -> str:
    """A model takes the machine's own memory only where there is no GPU."""
    runs_on_cpu = model is not None and model.cpu_memory_bytes > 0 and not gpus()
    return check_memory(model.cpu_memory_bytes if model is not None and runs_on_cpu else 0)
