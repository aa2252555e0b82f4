"""`privsieve tune fit SET --model M --out ADAPTER --recipe R`: a LoRA adapter that `scan --adapter` loads."""

import json
import posixpath
import shutil
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ingest import __version__
from ingest.errors import EngineError, LabelsError, PrivsieveError, StorageError
from ingest.machine import install_command
from ingest.storage.place import Place, place
from ingest.storage.web import named
from jobs.console.requests import Count, Option, Url, checked_request
from jobs.runtime.progress import SILENT, Feedback, weights_shown
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.engines.vlm.adapter import BEGUN, CARD, PACKAGES, PAGE, Card, adapter, card_at, check_fits, page
from scoring.engines.vlm.checkpoint import checkpoint
from scoring.runs import RUN_LEASE
from scoring.runs.lease import Lease, lease
from scoring.tuning.recipe import SHIPPED, other_setting, recipe
from scoring.tuning.training_set import open_set

if TYPE_CHECKING:
    from scoring.tuning.outcome import Trained
    from scoring.tuning.training import TrainingRequest


REFUSED = PrivsieveError.exit_code


SAID = {
    "set_sha256": "training set",
    "model_sha256": "--model",
    "recipe": "--recipe",
    "max_pixels": "--max-pixels",
    "seed": "--seed",
    "micro_batch_size": "--micro-batch-size",
}
"""A fact of a request -> its name on the command line."""


OF_SET = (
    *("target", "protocol", "protocol_version", "prompt_file"),
    *("labels_sha256", "annotators", "licences", "counts", "num_excluded"),
)
"""What the card repeats of the training set."""


@checked_request
class TuneRequest:
    """What `tune` was asked for."""

    training_set: Annotated[Url, Option(argument="SET")]
    """Folder that tune set made."""

    model: Url
    """A folder, a hub name such as owner/name, or a URL."""

    out: Url
    """Folder of the adapter: a new one, or that of a killed run to continue."""

    recipe: Annotated[Url, Option(fill=", ".join(SHIPPED))]
    """Hyper-parameters: {}, or a YAML file (privsieve help tuning)."""

    max_pixels: Count = DEFAULT_MAX_PIXELS
    """Width x height to which pictures are downscaled, as in scan."""

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    """Seed of the tuning."""

    micro_batch_size: Count = 8
    """Pictures at once on the device; the recipe's batch is made of several."""


def run_tune(request: TuneRequest, feedback: Feedback = SILENT) -> Card:
    """Tune, or continue a killed run of the same request, and return the card of the adapter.

    A finished adapter of the same request is not made again. LabelsError or EngineError in one line before anything is
    written; RunError if another command is at work in the same folder. IncompleteError if the loss is no number, or
    another command took the folder over.
    """
    out = place(request.out)
    if not out.is_local:
        raise StorageError(
            f"--out {named(request.out)}: an adapter is tuned in a folder of this machine; copy it there"
        )
    installed_packages()
    made_of = open_set(request.training_set)
    protocol = made_of.protocol()
    made_of.check_files()
    chosen = recipe(request.recipe)
    with weights_shown(feedback):
        model = checkpoint(request.model, with_weights=True)
    content = {
        "set_sha256": made_of.digest,
        "model_sha256": model.digest(),
        "recipe": chosen.stored(),
        "max_pixels": request.max_pixels,
        "seed": request.seed,
        "micro_batch_size": request.micro_batch_size,
    }
    if (card := _finished(out, request.out, content, feedback)) is not None:
        return card
    from scoring.tuning.training import TrainingRequest, check

    work = TrainingRequest(
        made_of, protocol, model, chosen, Path(out.path), request.max_pixels, request.seed, request.micro_batch_size
    )
    check(work)
    with lease(out.at(RUN_LEASE), request.out, takeover=None) as own_lease:
        own_lease.confirm()  # if two commands began at once, the last one holds it
        # Another command may have ended just now.
        card = _finished(out, request.out, content, feedback)
        return card or _tuned(work, request, content, own_lease, feedback)


def _tuned(
    work: "TrainingRequest", request: TuneRequest, content: dict[str, object], own_lease: Lease, feedback: Feedback
) -> Card:
    """Tune and write the adapter, as the only command in its folder."""
    from scoring.tuning.training import CHECKPOINTS, last_checkpoint

    out = work.folder
    is_begun = _is_begun(place(str(out)), str(out), content)
    if not is_begun:
        place(str(out / BEGUN)).write(json.dumps(content, indent=1).encode())
    began = time.monotonic()
    try:
        trained = _trained(work, own_lease, feedback)
    except PrivsieveError as error:
        if error.exit_code == REFUSED and not is_begun and last_checkpoint(out) is None:
            own_lease.stop()
            shutil.rmtree(out)  # nothing was done, and a corrected command must not continue another run
        raise
    seconds = time.monotonic() - began
    own_lease.confirm()
    check_fits(adapter(str(out)), work.checkpoint.folder)
    made = _card(work, request, trained, seconds)
    place(str(out / PAGE)).write(page(made).encode())
    place(str(out / CARD)).write(made.model_dump_json(indent=1).encode())
    (out / BEGUN).unlink(missing_ok=True)
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
    return made


def _finished(out: Place, name: str, content: dict[str, object], feedback: Feedback) -> Card | None:
    """Return the card of an adapter of the same request, or None. LabelsError if something else is there."""
    card = card_at(out, name)
    if card is None:
        _is_begun(out, name, content)
    else:
        _refuse_another(json.loads(card.model_dump_json()), content, f"{name} holds an adapter that was tuned")
        feedback.notice(f"{name} is already tuned with this set, model and recipe")
    return card


def installed_packages() -> dict[str, str]:
    """Return the versions of the packages that tuning needs. EngineError names the first that is missing."""
    try:
        return {name: package_version(name) for name in PACKAGES}
    except PackageNotFoundError as error:
        raise EngineError(f"tune needs the package {error.name}: {install_command('tune')}") from None


def _is_begun(out: Place, name: str, content: dict[str, object]) -> bool:
    """Return whether a killed run of the same request is there. LabelsError if another one is, or something else."""
    try:
        begun = json.loads(out.at(BEGUN).content())
    except (FileNotFoundError, NotADirectoryError):
        if out.exists() and (
            not out.is_dir() or any(posixpath.basename(e["name"]) != RUN_LEASE for e in out.entries())
        ):
            raise LabelsError(
                f"{name} already exists and holds no tuning run; name another --out, or remove it"
            ) from None
        return False
    except ValueError:
        begun = None
    if not isinstance(begun, dict):
        raise LabelsError(f"{name}: its {BEGUN} is damaged; name another --out, or remove the folder")
    _refuse_another(begun, content, f"{name} holds a run that was begun")
    return True


def _refuse_another(before: dict[str, object], content: dict[str, object], where: str) -> None:
    """Raise LabelsError that names the first difference. A card does not record the size of micro-batches."""
    for name, wanted in content.items():
        former = before.get(name)
        if former == wanted or (name == "micro_batch_size" and name not in before):
            continue
        if isinstance(former, dict) and isinstance(wanted, dict) and not other_setting(former, wanted):
            continue
        raise LabelsError(f"{where} with another {SAID[name]}; give the same, or name another --out")


def _trained(work: "TrainingRequest", own_lease: Lease, feedback: Feedback) -> "Trained":
    from scoring.tuning.training import train

    with feedback.meter("tuning", None) as meter:
        num_done: int | None = None

        def on_step(step: int, steps: int) -> None:
            nonlocal num_done
            own_lease.check()
            if num_done is None:  # of a continued run only the rest counts, so that the time left is right
                num_done = step - 1
                meter.expect((steps - num_done) * work.recipe.batch_size)
            meter.advance((step - num_done) * work.recipe.batch_size)
            num_done = step

        return train(work, on_step)


def _card(work: "TrainingRequest", request: TuneRequest, trained: "Trained", seconds: float) -> Card:
    record = work.training_set.record
    return Card(
        privsieve_version=__version__,
        model=work.checkpoint.name,
        model_sha256=work.checkpoint.digest(),
        max_pixels=request.max_pixels,
        recipe=work.recipe.stored(),
        set_sha256=work.training_set.digest,
        seed=request.seed,
        seconds=round(seconds, 1),
        packages=installed_packages(),
        **{name: getattr(record, name) for name in OF_SET},
        **asdict(trained),
    )
