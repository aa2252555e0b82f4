"""What a tuned adapter says about itself: privsieve.json for programs, README.md for people. Written last."""

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.errors import EngineError
from ingest.sample import printable
from ingest.storage.place import Place, place

ENGINE = "transformers"
"""What an adapter is tried with: it runs on every machine on which tuning does."""

CARD = "privsieve.json"
PAGE = "README.md"
BEGUN = "tuning.json"
"""What a begun tuning was asked for; removed at its end."""

PACKAGES = ("torch", "transformers", "peft", "accelerate", "tensorboardX")
"""That tuning needs; a card names their versions."""

MAX_CARD_BYTES = 10 * 2**20
WARNING = (
    "The weights were made from pictures of people and may have memorised parts of them: treat the adapter as personal "
    "data, and share it only as you would share the pictures."
)


class Card(BaseModel):
    """The content of privsieve.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format_version: Literal[1] = 1
    privsieve_version: str
    model: str
    model_sha256: str
    """Hash of the base model's files."""

    target: str
    protocol: str
    protocol_version: str
    prompt_file: str | None
    max_pixels: Annotated[int, Field(ge=1)]
    """To which pictures were downscaled; `scan` takes the same."""

    recipe: dict[str, object]
    set_sha256: str
    """Hash of set.json, which names the hash of every shard."""

    labels_sha256: str
    annotators: tuple[str, ...]
    licences: tuple[str, ...]
    counts: dict[str, dict[str, int]]
    num_excluded: dict[str, int]
    seed: int
    num_processes: int
    num_steps: int
    num_parameters: int
    seconds: float
    """That the last process of the run took; a continued run took longer in all."""

    train_accuracy: float
    validation_accuracy: float | None
    share_of_commonest_answer: float
    share_of_commonest_target: float
    max_probability_difference: float
    """Between the tuned model in memory and the saved adapter, loaded again."""

    curves: tuple[dict[str, float], ...]
    packages: dict[str, str]
    device: str
    precision: str
    cautions: tuple[str, ...]


def read_card(adapter: Path) -> Card | None:
    """Read the card of an adapter folder; None if it was not made by privsieve. EngineError if it is damaged."""
    return card_at(place(str(adapter)), str(adapter))


def card_at(adapter: Place, name: str) -> Card | None:
    """Read the card of an adapter on any storage, as `read_card` does. name: of the adapter, for messages."""
    file = adapter.at(CARD)
    try:
        if file.size() > MAX_CARD_BYTES:
            raise OSError
        return Card.model_validate_json(file.content())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValidationError, OSError):
        raise EngineError(
            f'the adapter "{name}": its {CARD} is damaged or of another version of privsieve; remove it to use the '
            "adapter without its checks"
        ) from None


def scan_command(model: str, adapter: str) -> str:
    """Return the command that uses the adapter; protocol, texts and picture size come from its card."""
    return f"privsieve scan SOURCE --run RUN --engine {ENGINE} --model {model} --adapter {adapter}"


def page(card: Card) -> str:
    """Write README.md: Markdown with the header that model hubs read."""
    ours = card.recipe.get("our_choices") or ()
    assert isinstance(ours, list | tuple)
    recipe = _code(str(card.recipe["name"]))
    source = _code(str(card.recipe["source"])) if card.recipe["source"] else "a file of the user"
    rows = [
        f"| {name} | {value} | {'our choice' if name in ours else recipe} |"
        for name, value in card.recipe.items()
        if name not in ("name", "source", "our_choices")
    ]
    train = card.counts.get("train", {})
    held_back = "not measured: no pictures were held back"
    if card.validation_accuracy is not None:
        held_back = f"{card.validation_accuracy:.3f}"
    header = {"base_model": card.model, "library_name": "peft", "tags": ["privsieve", "privacy", "lora"]}
    lines = [
        "---",
        *(f"{name}: {json.dumps(value)}" for name, value in header.items()),
        "---",
        "",
        f"# A privacy adapter for {_code(card.model)}",
        "",
        f"> {WARNING}",
        "",
        f"Answers the protocol `{card.protocol}` of privsieve {card.privsieve_version}:",
        "",
        "```",
        scan_command(card.model, "THIS-FOLDER"),
        "```",
        "",
        *(f"**Caution:** {caution}\n" for caution in card.cautions),
        "## What it was tuned on",
        "",
        f"- {train.get('pictures', 0)} pictures; {card.counts.get('validation', {}).get('pictures', 0)} held back",
        f"- labelled by: {', '.join(map(_code, card.annotators))}",
        f"- licence of labels and pictures: {', '.join(map(_code, card.licences)) or 'not given'}",
        f"- left out because an evaluation set holds them: {card.num_excluded.get('sha256', 0)} the same file, "
        f"{card.num_excluded.get('phash', 0)} near duplicates",
        *([f"- left out by a list: {card.num_excluded['drop_list']}"] if "drop_list" in card.num_excluded else []),
        *(f"- {_code(name)}: {num}" for name, num in train.items() if name != "pictures"),
        f"- set.json {card.set_sha256}, labels {card.labels_sha256}",
        "",
        "## How",
        "",
        "| setting | value | from |",
        "|---|---|---|",
        *rows,
        "",
        f"Source of the recipe: {source}.",
        f"Seed {card.seed}, {card.num_steps} steps, "
        f"{card.num_processes} process{'es' if card.num_processes > 1 else ''}, {card.num_parameters:,} parameters, "
        f"{card.seconds:.0f} s on {card.device} in {card.precision}.",
        "",
        "## What came of it",
        "",
        f"- right answers among the training pictures: {card.train_accuracy:.3f}",
        f"- right answers among the held-back pictures: {held_back}",
        f"- the commonest answer is given to {card.share_of_commonest_answer:.3f} of the training pictures, "
        f"and is right for {card.share_of_commonest_target:.3f} at most",
        f"- saved and loaded again, probabilities differ by at most {card.max_probability_difference:.1e}",
        "",
        "These figures come from the trainer. Measure the adapter through a scan: `privsieve evaluate RUN --labels …`.",
        "",
        "The same curves are in `tensorboard/`, for TensorBoard.",
        "",
        "| step | " + " | ".join(_names(card)) + " |",
        "|---|" + "---|" * len(_names(card)),
        *(
            f"| {p['step']:.0f} | " + " | ".join(f"{p[n]:.4g}" if n in p else "" for n in _names(card)) + " |"
            for p in _thinned(card)
        ),
        "",
        "Packages: " + ", ".join(f"{name} {version}" for name, version in card.packages.items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """Escape a name from a labels file, so that Markdown shows it and does not obey it."""
    return f"`{printable(text).replace('`', chr(39))}`"


def _names(card: Card) -> list[str]:
    return sorted({name for point in card.curves for name in point} - {"step"})


def _thinned(card: Card, num: int = 20) -> list[dict[str, float]]:
    step = max(1, len(card.curves) // num)
    return list(card.curves[::step])
