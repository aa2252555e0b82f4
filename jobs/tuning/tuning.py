"""From a training set to an adapter: the work of `tune`."""

import json
import shutil
import time
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ingest import __version__
from ingest.errors import EngineError, LabelsError
from ingest.storage.place import place
from jobs.runtime.feedback import Feedback
from jobs.runtime.requests import STRICT, Count
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.engines.vlm.adapter import adapter, check_fits
from scoring.engines.vlm.checkpoint import Checkpoint, checkpoint
from scoring.tuning.card import CARD, PACKAGES, PAGE, Card, page, read_card
from scoring.tuning.recipe import Recipe, recipe
from scoring.tuning.training_set import TrainingSet, open_set

if TYPE_CHECKING:
    from scoring.tuning.training import Trained, TrainingRequest

BEGUN = "tuning.json"
"""What a begun run was asked for; removed at its end."""

COLLAPSED = 0.1
"""A model whose commonest answer is this much commoner than it should be has learnt to say one thing."""

MAX_DIFFERENCE = 1e-4
"""Allowed between the probabilities of the model in memory and of the saved adapter, in float32."""


@checked_dataclass(frozen=True, config=STRICT)
class TuneRequest:
    """What `tune` was asked for."""

    training_set: str
    model: str
    out: str
    recipe: str
    max_pixels: Count = DEFAULT_MAX_PIXELS
    """To which pictures are downscaled, as `scan --max-pixels` does."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    micro_batch_size: Count = 8
    steps_per_checkpoint: Count = 100
    num_processes: Count = 1
    """GPUs, or processes on a machine without; more than one run on Ray."""

    ray_address: str | None = None
    keep_checkpoints: bool = False


def run_tune(request: TuneRequest, feedback: Feedback) -> Card:
    """Tunes, or continues a killed run of the same request, and returns the card of the adapter.

    LabelsError or EngineError in one line before anything is computed; IncompleteError if the loss is no number.
    """
    packages = _packages()
    made_of = open_set(request.training_set)
    asked = made_of.protocol()
    made_of.check_files()
    chosen = recipe(request.recipe)
    model = checkpoint(request.model, with_weights=True)
    out = _folder(request.out)
    content = {
        "set_sha256": made_of.digest,
        "model_sha256": model.digest(),
        "recipe": chosen.model_dump(mode="json"),
        "max_pixels": request.max_pixels,
        "seed": request.seed,
        "micro_batch_size": request.micro_batch_size,
        "num_processes": request.num_processes,
    }
    if (card := read_card(out)) is not None:
        return _same(card, content, out)
    _begin(out, content)
    from scoring.tuning.memory import refuse_too_large
    from scoring.tuning.training import CHECKPOINTS, TrainingRequest

    work = TrainingRequest(
        made_of,
        asked,
        model,
        chosen,
        out,
        request.max_pixels,
        request.seed,
        request.micro_batch_size,
        request.steps_per_checkpoint,
    )
    refuse_too_large(work)
    began = time.monotonic()
    trained = _trained(work, request, feedback)
    seconds = time.monotonic() - began
    check_fits(adapter(str(out)), model.folder)
    made = _card(made_of, model, chosen, request, trained, seconds, packages)
    place(str(out / PAGE)).write(page(made).encode())
    place(str(out / CARD)).write(made.model_dump_json(indent=1).encode())
    (out / BEGUN).unlink(missing_ok=True)
    if not request.keep_checkpoints:
        shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
    return made


def _packages() -> dict[str, str]:
    try:
        return {name: package_version(name) for name in PACKAGES}
    except PackageNotFoundError as error:
        raise EngineError(f'tune needs the package {error.name}: pip install "privsieve[tune]"') from None


def _folder(out: str) -> Path:
    where = place(out)
    if not where.is_local:
        raise LabelsError(f"{out}: an adapter is written to a folder of this machine; copy it from there")
    return Path(where.path)


def _same(card: Card, content: dict[str, object], out: Path) -> Card:
    """The finished adapter, if it is of the same request. LabelsError naming the first difference."""
    for name, wanted in content.items():
        if name != "micro_batch_size" and json.loads(card.model_dump_json())[name] != wanted:
            raise LabelsError(f"{out} holds an adapter that was tuned with another {name}; name another --out")
    return card


def _begin(out: Path, content: dict[str, object]) -> None:
    """Writes down what was asked for, or compares it with what a killed run wrote."""
    file = out / BEGUN
    if file.is_file():
        try:
            begun = json.loads(file.read_bytes())
        except ValueError:
            begun = {}
        for name, wanted in content.items():
            if begun.get(name) != wanted:
                raise LabelsError(
                    f"{out} holds a run that was begun with another {name}; give the same to continue it, "
                    "or name another --out"
                )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LabelsError(f"{out} already exists and holds no tuning run; name another --out, or remove it")
    place(str(file)).write(json.dumps(content, indent=1).encode())


def _trained(work: "TrainingRequest", request: TuneRequest, feedback: Feedback) -> "Trained":
    chosen = work.recipe
    if request.num_processes > 1:
        from jobs.tuning.on_ray import train_on_ray

        return train_on_ray(work, request.num_processes, request.ray_address, feedback)
    from scoring.tuning.training import train

    with feedback.meter("tuning", None) as meter:
        done = 0

        def on_step(step: int, steps: int) -> None:
            nonlocal done
            meter.expect(steps * chosen.batch_size)
            meter.advance((step - done) * chosen.batch_size)
            done = step

        return train(work, on_step)


def _card(
    made_of: TrainingSet,
    model: Checkpoint,
    chosen: Recipe,
    request: TuneRequest,
    trained: "Trained",
    seconds: float,
    packages: dict[str, str],
) -> Card:
    record = made_of.record
    cautions, difference = [], trained.max_probability_difference
    if trained.share_of_commonest_answer > trained.share_of_commonest_target + COLLAPSED:
        cautions.append(
            f"the model gives one answer to {trained.share_of_commonest_answer:.0%} of the training pictures, and it "
            f"is right for {trained.share_of_commonest_target:.0%} at most: it has hardly learnt to tell them apart; "
            "tune on more pictures, or with another learning_rate"
        )
    if difference > MAX_DIFFERENCE:
        cautions.append(
            f"saved and loaded again, the model's probabilities differ by up to {difference:.1e} (allowed: "
            f"{MAX_DIFFERENCE:.0e} in float32; lower precision gives more)"
        )
    return Card(
        privsieve_version=__version__,
        model=model.name,
        model_sha256=model.digest(),
        target=record.target,
        protocol=record.protocol,
        protocol_version=record.protocol_version,
        prompt_file=record.prompt_file,
        max_pixels=request.max_pixels,
        recipe=chosen.model_dump(mode="json"),
        set_sha256=made_of.digest,
        labels_sha256=record.labels_sha256,
        annotators=record.annotators,
        licences=record.licences,
        counts=record.counts,
        num_excluded=record.num_excluded,
        seed=request.seed,
        num_processes=request.num_processes,
        num_steps=trained.num_steps,
        num_parameters=trained.num_parameters,
        seconds=round(seconds, 1),
        train_accuracy=trained.train_accuracy,
        validation_accuracy=trained.validation_accuracy,
        share_of_commonest_answer=trained.share_of_commonest_answer,
        share_of_commonest_target=trained.share_of_commonest_target,
        max_probability_difference=difference,
        curves=tuple({"step": float(point.step), **point.values} for point in trained.curves),
        packages=packages,
        device=trained.device,
        cautions=tuple(cautions),
    )
