"""The user's choices for a vision-language engine, checked and completed; the same for every engine here.

Also what is known of an engine without its weights: the prompt, its number of tokens, and its costs.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from ingest.errors import EngineError, did_you_mean
from ingest.images.pixels import Pixels
from scoring.assessment import EngineDescription, EngineOptions
from scoring.engine_facts import Preview, package_versions
from scoring.engines.picture import DEFAULT_MAX_PIXELS, max_side_px, prepared
from scoring.engines.vlm.adapter import BEGUN, CARD, Adapter, Card, adapter_in, check_fits, read_card
from scoring.engines.vlm.checkpoint import Checkpoint, checkpoint
from scoring.protocols import chosen_protocol, protocol
from scoring.protocols.interface import Protocol, prompt_parts
from scoring.weights.sources import find_weights

DEFAULT_PROTOCOL = "slots"
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class VlmSettings:
    """The user's choices, checked."""

    checkpoint: Checkpoint
    adapter: Adapter | None
    protocol: Protocol
    max_pixels: int
    dtype: str | None
    """Precision; None for that of the stored model."""

    batch_size: int | None
    """Pictures per batch; None: the engine decides."""

    tensor_parallel_size: int | None
    """GPUs per model; None: the engine decides."""


def refuse_wrong_options(engine: str, options: EngineOptions, names: Collection[str]) -> None:
    """Raise EngineError for an option that is missing, not taken or wrong, whatever the model and the adapter hold.

    names: names of the options that this engine takes."""
    options.refuse_all_but(engine, names)
    if options.model is None:
        raise EngineError(f"the {engine} engine needs --model: a folder, a hub name such as owner/name, or a URL")
    if options.dtype is not None and options.dtype not in DTYPES:
        known = ", ".join(DTYPES)
        raise EngineError(f'unknown --dtype "{options.dtype}"{did_you_mean(options.dtype, DTYPES)}; there are: {known}')
    chosen_protocol(options, DEFAULT_PROTOCOL)


def settings(options: EngineOptions, *, with_weights: bool) -> VlmSettings:
    """Complete options that `refuse_wrong_options` let pass. EngineError in one line for anything wrong in the model
    or the adapter.

    with_weights: fetch the weights of a hub model, and compare the adapter with them; a folder is always checked whole.
    """
    tuned = None
    if options.adapter is not None:
        weights = find_weights(options.adapter, "adapter")
        if (weights.folder / BEGUN).is_file():
            raise EngineError(
                f'the adapter "{weights.shown}" is from a tuning that has not ended; run the same tune command again '
                "to continue it"
            )
        tuned = adapter_in(weights)
    card = None if tuned is None else read_card(tuned.folder)
    if card is not None:
        options = _as_tuned(options, card)
    protocol = chosen_protocol(options, DEFAULT_PROTOCOL)
    model = checkpoint(options.model or "", with_weights=with_weights)
    if card is not None:
        _refuse_other_texts(card, protocol)
    _refuse_other_weights(options, model, tuned)
    if tuned is not None and any(model.folder.glob("*.safetensors")):
        check_fits(tuned, model.folder)
    max_pixels = options.max_pixels or DEFAULT_MAX_PIXELS
    return VlmSettings(
        model, tuned, protocol, max_pixels, options.dtype, options.batch_size, options.tensor_parallel_size
    )


def _refuse_other_weights(options: EngineOptions, model: Checkpoint, given: Adapter | None) -> None:
    """Raise EngineError if this machine has other weights than those with which the run began.

    Hashing a folder takes seconds per 10 GB, on all cores; a process hashes it once.
    """
    if options.weights_sha256 is None:
        return
    for weights in (model, given):
        if weights is not None and weights.digest() not in options.weights_sha256:
            raise EngineError(
                f'"{weights.name}" has other files on this machine than where the engine was described (their '
                "SHA-256): copy the same ones to all machines; for weights that were fetched, see privsieve models "
                "verify, or hf cache verify"
            )


def _as_tuned(options: EngineOptions, card: Card) -> EngineOptions:
    """Complete the options with the adapter's settings of tuning. EngineError if they contradict it."""
    if options.max_pixels not in (None, card.max_pixels):
        raise EngineError(
            f"the adapter was tuned with pictures of at most {card.max_pixels} pixels; leave out --max-pixels "
            f"{options.max_pixels}, or remove {CARD} from the adapter's folder to use it all the same"
        )
    texts = None if card.prompt_file is None else card.prompt_file.encode()
    options = replace(options, max_pixels=card.max_pixels, prompt_file=options.prompt_file or texts)
    if options.protocol is None:
        return replace(options, protocol=card.protocol)
    base, tuned = options.protocol.partition(":")[0], card.protocol.partition(":")[0]
    if base != tuned:
        raise EngineError(
            f"the adapter was tuned to answer {card.protocol}, and {options.protocol} would be asked; ask {tuned} "
            f"(scan does so without --protocol), or remove {CARD} from the adapter's folder to use it all the same"
        )
    return options


def _refuse_other_texts(card: Card, asked: Protocol) -> None:
    """Raise EngineError if the adapter was tuned on other words of the same protocol."""
    tuned_on = protocol(card.protocol)
    if tuned_on.name == asked.name and card.protocol_version != asked.version:
        raise EngineError(
            f"the adapter was tuned on the texts of {card.protocol_version}, and the model would be asked with those "
            f"of {asked.version}; leave out --prompt-file, tune again with this version of privsieve, or remove {CARD} "
            "from the adapter's folder to use it all the same"
        )


def description(
    name: str, chosen: VlmSettings, packages: tuple[str, ...], batches_at_once: int = 1
) -> EngineDescription:
    """Describe the engine. packages: those that can change the answers. EngineError if one is not installed."""
    weights = {chosen.checkpoint.name: chosen.checkpoint.digest()}
    if chosen.adapter is not None:
        card = read_card(chosen.adapter.folder)
        if card is not None and card.model_sha256 != weights[chosen.checkpoint.name]:
            raise EngineError(
                f'the adapter was tuned on "{card.model}", whose files differ from those of '
                f'"{chosen.checkpoint.name}"; '
                f"give that --model, or remove {CARD} from the adapter's folder to use it all the same"
            )
        weights |= {f"adapter {chosen.adapter.name}": chosen.adapter.digest()}
    return EngineDescription(
        name=name,
        protocol=f"{chosen.protocol.version}, {chosen.max_pixels} pixels, {chosen.dtype or 'stored'} precision",
        assessed=chosen.protocol.assessed,
        weights=weights,
        versions=package_versions(name, packages),
        max_side_px=max_side_px(chosen.max_pixels),
        num_gpus=chosen.tensor_parallel_size or 1,
        batches_at_once=batches_at_once,
    )


def preview_of(chosen: VlmSettings) -> Preview:
    """Count with the model's own processor, as the engines do."""
    from scoring.engines.vlm.prompting import Prompter

    prompt, prompter = chosen.protocol.prompt, Prompter(chosen.checkpoint.folder, chosen.max_pixels)
    prompter.check_template(prompt)
    tokens = prompter.tokens(prompt)
    ids, image = tokens.token_ids, prompter.image_token_id

    def describe_picture(pixels: Pixels) -> str:
        picture = prepared(pixels, chosen.max_pixels)
        try:
            token_ids = prompter.processed(tokens.text, picture)["input_ids"][0]
        except Exception as error:  # the edge, as in the engines: processors raise anything, perhaps with content
            return f"cannot be prepared at {picture.width}x{picture.height} ({type(error).__name__}): engine_error"
        num_visual = len(token_ids) - len(ids) + prompt.has_image
        return f"seen at {picture.width}x{picture.height}, {num_visual} visual tokens"

    return Preview(
        describe_picture=describe_picture,
        protocol=f"{chosen.protocol.name}, version {chosen.protocol.version}",
        parts=prompt_parts(chosen.protocol),
        num_text_tokens=len(ids) - prompt.has_image,
        num_tokens_after_picture=len(ids) - 1 - ids.index(image) if image in ids else 0,
    )
