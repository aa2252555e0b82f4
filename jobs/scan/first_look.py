"""What a machine of the cluster says before a run exists: the engine's description, or why it could not scan.

`look` runs on the machine where the scan was started; the other functions run on a machine that has what an engine
needs, in a Ray task.
"""

import uuid
from collections.abc import Iterator
from functools import partial

from ingest.errors import EngineError, StorageError
from ingest.formats import Source
from ingest.storage.place import PART, Place
from jobs.doctor.checks import check_gpu, finding, first_sample, new_folders_removed
from jobs.runtime.on_worker import Said, fetch_with_progress, on_worker
from jobs.runtime.progress import Feedback, Meter
from scoring.assessment import Closable, EngineDescription, EngineOptions, RemoteEngineModule, Unscored
from scoring.engines import engine_module
from scoring.engines.canary import canary
from scoring.runs.layout import PROBE


def look(
    engine: str,
    options: EngineOptions,
    num_cpus: float,
    num_gpus: float,
    feedback: Feedback,
    meter: Meter,
    *,
    new_run: tuple[Source, Place] | None,
) -> EngineDescription:
    """Return the engine's description, from a machine of the cluster. Call this inside of `ray_session`.

    new_run: source and folder of a run that does not exist yet; then the machine is checked. PrivsieveError with the
    machine's name and what to do if it could not scan.
    """
    if new_run is None:
        fetch = partial(fetch_with_progress, engine, options)
        return on_worker(partial(described, engine, options), num_cpus, num_gpus, feedback, meter, before=fetch).found
    source, run = new_run
    probe = f"{PROBE}{uuid.uuid4().hex}"
    with new_folders_removed(run):
        run.at(probe + PART).write(probe.encode())
        try:
            check = partial(engine_checked, engine, options)
            before = partial(storage_checked, engine, options, source, run, probe)
            return on_worker(check, num_cpus, num_gpus, feedback, meter, before=before).found
        finally:
            run.at(probe + PART).remove()


def described(engine: str, options: EngineOptions) -> EngineDescription:
    """Return the description on this machine. EngineError as of the engine's `describe`."""
    return engine_module(engine).describe(options)


def storage_checked(engine: str, options: EngineOptions, source: Source, run: Place, probe: str) -> Iterator[Said]:
    """Raise PrivsieveError if this machine cannot read the source, write to the run, or fetch the weights.

    probe: name and content of a file that the machine of the command wrote into the folder of the run.
    """
    first_sample(source)
    _check_folder(run, probe)
    yield from fetch_with_progress(engine, options)


def engine_checked(engine: str, options: EngineOptions) -> EngineDescription:
    """Return the description. Raise the PrivsieveError that would stop the scan on this machine.

    An engine with a GPU is loaded, asked about a made picture and closed again.
    """
    module = engine_module(engine)
    description = module.describe(options)
    gpu = finding("gpu", partial(check_gpu, engine, module.requirements(options).local_model, options.gpu_share or 1.0))
    if not gpu.is_ok:
        raise EngineError(f"GPU: {gpu.text}")
    if isinstance(module, RemoteEngineModule):
        module.check(options)
    if description.num_gpus:
        _check_answers(engine, options)
    return description


def _check_folder(run: Place, probe: str) -> None:
    """Raise StorageError if this machine cannot write to the folder, or it is not the folder that has the probe."""
    theirs, own = run.at(probe + PART), run.at(f"{probe}-answer{PART}")
    if not theirs.exists() or theirs.read() != probe.encode():
        raise StorageError(
            f"{run.path} is another folder here than where the command was given: give --run as a URL, or as a folder "
            "that all machines share"
        )
    own.write(probe.encode())
    own.remove()


def _check_answers(engine: str, options: EngineOptions) -> None:
    """Raise EngineError if the engine cannot be loaded here, or cannot answer about a plain picture."""
    loaded = engine_module(engine).load(options)
    try:
        answer = loaded.assess([canary()])[0]
    finally:
        if isinstance(loaded, Closable):
            loaded.close()
    if isinstance(answer, Unscored) and answer.reason in ("engine_error", "engine_oom"):
        raise EngineError(f"the engine cannot answer for a plain picture: {answer.message}")
