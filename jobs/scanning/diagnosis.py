"""`privsieve doctor`: what on this machine would stop a scan, one line each, before the scan begins.

The work is in `jobs.runtime`.
"""

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Annotated

from ingest.errors import PrivsieveError
from ingest.storage.retries import RETRY_VARIABLE
from ingest.storage.web import named
from jobs.console.engine_options import ChosenOptions, EngineName
from jobs.console.requests import EngineCpus, EngineGpus, Option, Url, checked_request
from jobs.runtime.checks import (
    CheckResult,
    check_cores,
    check_disk,
    check_gpu,
    check_memory,
    check_packages,
    check_python,
    check_run,
    check_shared_memory,
    check_source,
    finding,
    gpus,
)
from jobs.runtime.cluster import default_variable, is_this_machine, names_cluster, ray_session
from jobs.runtime.machines import cluster_nodes, gpus_of_engine, share_of_gpu
from jobs.runtime.on_worker import on_worker
from jobs.runtime.progress import SILENT, Feedback
from scoring.assessment import EngineOptions, RemoteEngineModule
from scoring.engine_facts import LocalModel
from scoring.engines import DEFAULT, engine_module
from scoring.screen.model import FittedScreen, Screener
from scoring.screen.screen_file import read_screen

MACHINE_LIMIT_S = 900.0
"""How long a machine may take to come; those of a cloud start within minutes."""


RETRY_S = "5"
"""How long to wait for a store that does not answer, unless the user set another time."""


Check = tuple[str, Callable[[], str]]
"""Its name, and the function that makes it."""


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

    ray_address: str | None = None
    """Ray cluster to join; default RAY_ADDRESS. `local` starts one on this machine, to see whether that works."""

    engine_cpus: EngineCpus = 1
    """CPUs that an engine gets on a cluster."""

    engine_gpus: EngineGpus | None = None
    """GPUs that an engine gets on a cluster; default what the engine asks for."""


def run_doctor(
    request: DoctorRequest,
    report: Callable[[CheckResult], None] = lambda finding: None,
    feedback: Feedback = SILENT,
) -> list[CheckResult]:
    """Run all checks, one finding each; `report` gets each as soon as it is known. EngineError for an unknown engine.

    On a cluster that answers, the engine is checked on a machine that could run it; source and run there and here.
    """
    if not is_this_machine(request.ray_address):
        here: list[Check] = [("python", check_python), ("packages", partial(check_packages, None))]
        ray = finding(*_of_ray(request)[0])
        if ray.is_ok:
            findings = _made([*here, ("ray", lambda: ray.text), *_of_storage(request)], report)
            for result in _findings_on_worker(request, feedback):
                findings.append(result)
                report(result)
            return findings
    return _made([*_of_machine(request), *_of_ray(request), *_of_engine(request), *_of_storage(request)], report)


def findings_on_machine(request: DoctorRequest, screen: FittedScreen | None) -> list[CheckResult]:
    """Check the machine that runs this: all checks but those of Ray. screen: as a scan sends it to its workers."""
    return _made([*_of_machine(request), *_of_engine(request, screen), *_of_storage(request)], lambda finding: None)


def _made(checks: Sequence[Check], report: Callable[[CheckResult], None]) -> list[CheckResult]:
    findings = []
    with default_variable(RETRY_VARIABLE, RETRY_S):
        for name, check in checks:
            result = finding(name, check)
            findings.append(result)
            report(result)
    return findings


def _findings_on_worker(request: DoctorRequest, feedback: Feedback) -> list[CheckResult]:
    num_gpus = gpus_of_engine(request.engine, request.options, request.engine_gpus)
    request = replace(request, options=replace(request.options, gpu_share=share_of_gpu(request.engine_gpus)))
    try:
        screen = None if request.screen is None else read_screen(request.screen)
        checks = partial(findings_on_machine, request, screen)
        with feedback.meter("doctor", None) as progress, ray_session(request.ray_address):
            result = on_worker(checks, request.engine_cpus, num_gpus, feedback, progress, MACHINE_LIMIT_S)
    except PrivsieveError as error:
        return [CheckResult("worker", False, str(error))]
    on_machine = [replace(item, check=f"{item.check}*") for item in result.found]
    return [CheckResult("worker", True, f"{result.machine}; what follows (*) was found there"), *on_machine]


def _of_machine(request: DoctorRequest) -> list[Check]:
    required = engine_module(request.engine).requirements(request.options)
    return [
        ("python", check_python),
        ("packages", partial(check_packages, required.extra)),
        ("cores", check_cores),
        ("gpu", partial(check_gpu, request.engine, required.local_model, request.options.gpu_share or 1.0)),
        ("memory", partial(_check_memory, required.local_model)),
        ("/dev/shm", check_shared_memory),
        ("disk", partial(check_disk, request.run)),
    ]


def _of_ray(request: DoctorRequest) -> list[Check]:
    return [("ray", partial(check_ray, request.ray_address))] if names_cluster(request.ray_address) else []


def _of_engine(request: DoctorRequest, screen: FittedScreen | None = None) -> list[Check]:
    engine, options = request.engine, request.options
    module = engine_module(engine)
    checks: list[Check] = [("engine", partial(check_engine, engine, replace(options, adapter=None)))]
    if options.adapter is not None:
        model = module.requirements(options).local_model
        checks.append(("adapter", partial(check_adapter, engine, options, model)))
    if isinstance(module, RemoteEngineModule):
        checks.append(("endpoint", partial(module.check, options)))
    if request.screen is not None:
        checks.append(("screen", partial(check_screen, request.screen, screen)))
    return checks


def _of_storage(request: DoctorRequest) -> list[Check]:
    checks: list[Check] = []
    if request.source is not None:
        checks.append(("source", partial(check_source, request.source)))
    if request.run is not None:
        checks.append(("run", partial(check_run, request.run)))
    return checks


def _check_memory(model: LocalModel | None) -> str:
    """Check the memory. A model takes the machine's own memory only where there is no GPU."""
    runs_on_cpu = model is not None and model.cpu_memory_bytes > 0 and not gpus()
    return check_memory(model.cpu_memory_bytes if model is not None and runs_on_cpu else 0)


def check_ray(address: str | None) -> str:
    with ray_session(address):
        nodes = cluster_nodes()
    cpus, gpus_of_nodes = sum(node.num_cpus for node in nodes), sum(node.num_gpus for node in nodes)
    return f"starts; machines: {len(nodes)}, logical CPUs: {cpus:g}, GPUs: {gpus_of_nodes:g}"


def check_engine(engine: str, options: EngineOptions) -> str:
    description = engine_module(engine).describe(options)
    weights = f"; {', '.join(description.weights)}" if description.weights else ""
    return f"{description.name}, {description.protocol}{weights}"


def check_adapter(engine: str, options: EngineOptions, model: LocalModel | None) -> str:
    """Check the adapter. It is compared with the weights if these are on this machine."""
    engine_module(engine).describe(options)
    is_compared = model is not None and model.weight_bytes > 0
    return f"{named(options.adapter or '')}: " + (
        "fits the model" if is_compared else "is complete; whether it fits shows when the model is loaded"
    )


def check_screen(url: str, screen: FittedScreen | None) -> str:
    """Load the models of a screen. screen: None reads it here."""
    screen = read_screen(url) if screen is None else screen
    Screener(screen)
    return f"{url}: looks at {' and '.join(modality.name for modality in screen.record.modalities)}"
