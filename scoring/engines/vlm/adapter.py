"""A LoRA adapter: checks before loading that each of its modules fits the model.

Of an adapter that fits only in part, a corpus would be scored with half of a tuned model.
A tuned adapter says about itself what it is: privsieve.json for programs, README.md for people, written last.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from ingest.errors import EngineError
from ingest.sample import printable
from ingest.storage.file_format import FORMAT, Format, refuse_other_format
from ingest.storage.place import Place, place
from scoring.engines.vlm.checkpoint import ADAPTER_CONFIG, content_sha256, read_json, safetensors_shapes, weight_shapes
from scoring.weights.sources import Weights, find_weights

WEIGHTS = "adapter_model.safetensors"
HALF = re.compile(r"(?P<module>.+)\.lora_(?P<half>A|B)(\.\w+)?\.weight")
UNSUPPORTED = (
    "alpha_pattern",
    "use_dora",
    "bias",
    "modules_to_save",
    "layer_replication",
    "lora_bias",
    "fan_in_fan_out",
    "use_qalora",
    "use_bdlora",
    "alora_invocation_tokens",
)
"""Settings of peft by which an adapter is more than two matrices for each module."""

CHANGES_BASE = ("pissa", "olora", "corda", "loftq")
"""Beginnings of `init_lora_weights` with which peft changes the model's own weights, too."""

_WRAPPERS = frozenset({"base_model", "model", "language_model"})
"""Parts of names that change between releases of transformers, peft and vLLM."""


@dataclass(frozen=True, kw_only=True)
class Adapter(Weights):
    """A LoRA adapter on this machine."""

    modules: tuple[str, ...]
    """Names of the modules as the adapter writes them, sorted."""

    def digest(self) -> str:
        """Return the sha256 of every byte, in hex."""
        return content_sha256([self.folder / ADAPTER_CONFIG, self.folder / WEIGHTS])


def adapter(given: str) -> Adapter:
    """Load a local folder, `owner/name[@revision]` of the hub, or a URL. EngineError if there is no LoRA adapter that
    can be loaded whole."""
    return adapter_in(find_weights(given, "adapter"))


def adapter_in(weights: Weights) -> Adapter:
    """Check an adapter in a local folder. Errors as in `adapter`."""
    root, where = weights.folder, f'the adapter "{weights.shown}"'
    config = read_json(root / ADAPTER_CONFIG, where)
    if config.get("peft_type") != "LORA":
        raise EngineError(f"{where} is of type {config.get('peft_type')}; only LORA adapters are loaded")
    for option in UNSUPPORTED:
        if config.get(option) not in (None, False, "none", [], {}):
            raise EngineError(f"{where} uses {option}, which is not loaded; merge it into the model instead")
    if str(config.get("init_lora_weights")).lower().startswith(CHANGES_BASE):
        raise EngineError(
            f"{where} was begun with {printable(str(config['init_lora_weights'])):.40}, which changes the model's own "
            "weights; merge it into the model instead"
        )
    if not (root / WEIGHTS).is_file():
        raise EngineError(f"{where} has no {WEIGHTS}; only safetensors are loaded")
    modules = tuple(sorted({module for module, _ in _halves(root / WEIGHTS, where)}))
    return Adapter(**vars(weights), modules=modules)


def check_fits(given: Adapter, model: Path) -> None:
    """Raise EngineError naming the first module of the adapter that this model lacks or has in another shape."""
    shapes = {plain(name.removesuffix(".weight")): shape for name, shape in weight_shapes(model).items()}
    halves = _halves(given.folder / WEIGHTS, f'the adapter "{given.shown}"')
    for module in given.modules:
        shape_in_model = shapes.get(plain(module))
        if shape_in_model is None:
            raise EngineError(f'the adapter "{given.shown}" does not fit: the model has no module {module}')
        wanted = (halves[module, "B"][0], halves[module, "A"][1])
        if shape_in_model != wanted:
            raise EngineError(
                f'the adapter "{given.shown}" does not fit: {module} is {_times(shape_in_model)} in the model and '
                f"{_times(wanted)} in the adapter"
            )


def plain(module: str) -> str:
    """Return a module's name without the parts that differ between packages."""
    return ".".join(part for part in module.split(".") if part not in _WRAPPERS)


def _halves(file: Path, where: str) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return (module, "A" or "B") -> shape. EngineError if a tensor is not half of a LoRA pair, or a half is
    missing."""
    halves: dict[tuple[str, str], tuple[int, ...]] = {}
    for name, shape in safetensors_shapes(file).items():
        match = HALF.fullmatch(name)
        if match is None or len(shape) != 2:
            raise EngineError(f"{where} holds {name}, which is not a LoRA matrix of a linear module")
        halves[match["module"], match["half"]] = shape
    for module, half in list(halves):
        other = "B" if half == "A" else "A"
        if (module, other) not in halves:
            raise EngineError(f"{where} is incomplete: {module} has no lora_{other}")
    if not halves:
        raise EngineError(f"{where} holds no weights")
    return halves


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(str(n) for n in shape)


ENGINE = "transformers"
"""What an adapter is tried with: it runs on every machine on which tuning does."""

CARD = "privsieve.json"
PAGE = "README.md"
BEGUN = "tuning.json"
"""What a begun tuning was asked for; removed at its end."""

PACKAGES = ("torch", "transformers", "peft", "accelerate")
"""That tuning needs; a card names their versions."""

MAX_CARD_BYTES = 10 * 2**20
WARNING = (
    "The weights were made from pictures of people and may have memorised parts of them: treat the adapter as personal "
    "data, and share it only as you would share the pictures."
)


class Card(BaseModel):
    """The content of privsieve.json."""

    model_config = ConfigDict(frozen=True)

    format: Format = FORMAT
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
    num_steps: int
    num_parameters: int
    seconds: float
    """That the last process of the run took; a continued run took longer in all."""

    train_accuracy: float
    validation_accuracy: float | None
    curves: tuple[dict[str, float], ...]
    packages: dict[str, str]
    device: str
    precision: str


def read_card(adapter: Path) -> Card | None:
    """Read the card of an adapter folder; None if it was not made by privsieve. EngineError if it is damaged."""
    return card_at(place(str(adapter)), str(adapter))


def card_at(adapter: Place, name: str) -> Card | None:
    """Read the card of an adapter on any storage, as `read_card` does. name: of the adapter, for messages."""
    file, remedy = adapter.at(CARD), "remove it to use the adapter without its checks"
    try:
        if file.size() > MAX_CARD_BYTES:
            raise OSError
        content = file.content()
        refuse_other_format(from_json(content), f'the adapter "{name}": its {CARD}', remedy, EngineError)
        return Card.model_validate_json(content)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, OSError):
        raise EngineError(f'the adapter "{name}": its {CARD} is damaged; {remedy}') from None


def scan_command(model: str, adapter: str) -> str:
    """Return the command that uses the adapter; protocol, texts and picture size come from its card."""
    return f"privsieve scan SOURCE --run RUN --engine {ENGINE} --model {model} --adapter {adapter}"


def page(card: Card) -> str:
    """Write README.md: Markdown with the header that model hubs read."""
    import jinja2

    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"code": _code, "tojson": json.dumps}
    template = Path(__file__).with_name("card.md.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        card=card,
        warning=WARNING,
        command=scan_command(card.model, "THIS-FOLDER"),
        train=card.counts.get("train", {}),
        num_held_back=card.counts.get("validation", {}).get("pictures", 0),
        curves=sorted({name for point in card.curves for name in point} - {"step"}),
        points=card.curves[:: max(1, len(card.curves) // MAX_CURVE_LINES)],
    )


MAX_CURVE_LINES = 20


def _code(text: object) -> str:
    """Escape a name from a labels file, so that Markdown shows it and does not obey it."""
    return f"`{printable(str(text)).replace('`', chr(39))}`"
