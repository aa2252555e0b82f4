"""Models of the modalities `encoder` and `text-encoder` in the format of the library transformers: `config.json`,
`model.safetensors`, and `preprocessor_config.json` or `tokenizer.json`. Nothing in these files can run: the library's
own classes are taken, and a model that needs code of its own is refused.

The embedding is, of these the first that there is:

- what a model that embeds pictures and texts alike, such as CLIP, gives for a comparison of both: `image_embeds` or
  `text_embeds`;
- `pooler_output`, unless it comes from a layer that the library can leave out (`add_pooling_layer`: BERT, RoBERTa,
  ViT), whose weights many checkpoints lack;
- the mean of `last_hidden_state` over its tokens or places.
"""

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError, NoFeaturesError
from ingest.images.pixels import Pixels
from ingest.machine import install_command
from ingest.storage.given_files import MAX_SETTINGS_BYTES
from scoring.screen.modalities import Features, PictureView, pooled
from scoring.screen.text_encoder import MAX_TOKENS, Tokens

TRANSFORMERS_VERSION = "transformers-1"
"""Changes with the preparation of pictures and captions: a screen of another version is refused."""

MAX_SIDE_PX = 1_024
"""Limit of each number in the settings by which a picture is prepared."""

MAX_RATIO = 16
"""Longer side by shorter side. A picture resized by its shorter side could have any length, so only the middle is seen
of a longer one."""

MAX_NUMBER = 2**20
"""Limit of whole numbers in config.json."""

MAX_LAYERS = 1_000
"""Limit of those that count layers, each of which takes time before anything can be compared with the weights."""

MAX_LIST = 100
"""Limit of the entries of a list in the settings."""

MAX_BUFFER_NUMBERS = 2**24
"""Limit of the numbers that a model computes from its settings, such as the relative positions of its patches."""

MAX_ATTENTION_NUMBERS = 2**28
"""Limit of heads x patches²: a layer of a vision transformer holds as many numbers of 4 bytes at once."""

PROCESSORS = frozenset(
    f"{name}ImageProcessor" for name in ("Beit", "Bit", "CLIP", "ConvNext", "DeiT", "DINOv3ViT", "Siglip", "ViT")
)
"""Classes that prepare pictures; none of them asks a server for anything."""


@dataclass(frozen=True)
class _Role:
    """What a model must be."""

    name: str
    """In messages."""

    model_types: frozenset[str]
    """Those that are taken. None of them asks the hub for a part of the model, as others do for their backbone."""

    features: str
    """Function of a model that embeds pictures and texts alike."""


_OF_PICTURES = _Role(
    "encoder",
    frozenset(
        [
            *("beit", "clip", "clip_vision_model", "convnext", "convnextv2", "deit", "dinov2"),
            *("dinov2_with_registers", "dinov3_vit", "resnet", "siglip", "siglip_vision_model", "swin", "vit"),
        ]
    ),
    "get_image_features",
)
_OF_TEXTS = _Role(
    "text encoder",
    frozenset(
        [
            *("bert", "camembert", "clip", "clip_text_model", "distilbert", "electra", "mpnet", "roberta"),
            *("siglip", "xlm-roberta"),
        ]
    ),
    "get_text_features",
)


def transformers_identity(is_of_pictures: bool, weights: bytes, config: bytes, other: bytes) -> dict[str, str]:
    """Return what decides the features. other: content of the settings of pictures, or of tokenizer.json."""
    try:
        major, _ = version("transformers").split(".")[0], version("torch")
    except PackageNotFoundError as error:
        raise _missing(_OF_PICTURES if is_of_pictures else _OF_TEXTS, error.name) from None
    names = ("weights", "config", "preprocessor" if is_of_pictures else "tokenizer")
    digests = {
        name: hashlib.sha256(file).hexdigest() for name, file in zip(names, (weights, config, other), strict=True)
    }
    return {"features": TRANSFORMERS_VERSION, "transformers": major, **digests}


class TransformersEncoder:
    """Embeddings of pictures."""

    def __init__(self, weights: bytes, config: bytes, preprocessor: bytes) -> None:
        """Contents of the files. EngineError if a package is missing, or the files are no encoder of pictures."""
        self._model = _Model(_OF_PICTURES, weights, config)
        self._processor = _processor(config, preprocessor)
        try:
            self.length = len(self._embedding(np.zeros((8, 8, 3), np.uint8)))
        except NoFeaturesError as error:
            raise EngineError(
                f"{error}; give its config.json and its preprocessor of the same model, or choose another model"
            ) from None

    def features(self, picture: PictureView) -> Features:
        return Features(self._embedding(picture.view.pixels))

    def _embedding(self, pixels: Pixels) -> npt.NDArray[np.float32]:
        from PIL import Image

        picture = Image.fromarray(np.ascontiguousarray(middle(pixels)))
        try:
            values = self._model.output(self._prepared(picture))
        except NoFeaturesError:
            raise
        except Exception as error:  # the edge: what a foreign model raises
            raise NoFeaturesError(f"the encoder cannot look at a picture ({type(error).__name__})") from None
        return pooled(values)

    def _prepared(self, picture: Any) -> Mapping[str, Any]:
        """Return what the model takes. NoFeaturesError if the picture would take too much memory."""
        inputs: Mapping[str, Any] = self._processor(images=picture, return_tensors="pt")
        settings = getattr(self._model.config, "vision_config", self._model.config)
        num_heads = getattr(settings, "num_attention_heads", None)
        if isinstance(num_heads, int):  # not the lists of Swin, which attends in windows
            num_patches = inputs["pixel_values"].shape[-1] * inputs["pixel_values"].shape[-2] / settings.patch_size**2
            if num_heads * num_patches**2 > MAX_ATTENTION_NUMBERS:
                raise NoFeaturesError(
                    f"the encoder cuts a picture into {num_patches:,.0f} patches, too many for memory"
                )
        return inputs


class TransformersTextModel:
    """A model of texts."""

    def __init__(self, weights: bytes, config: bytes) -> None:
        """Contents of the files. EngineError if a package is missing, or the files are no encoder of texts."""
        self._model = _Model(_OF_TEXTS, weights, config)
        stated: Any = getattr(self._model.config, "text_config", None)
        settings = stated if hasattr(stated, "model_type") else self._model.config
        # SigLIP learnt from texts that were filled up to its length, without a mask.
        self.has_fixed_length = str(settings.model_type).startswith("siglip")
        most = getattr(settings, "max_position_embeddings", None)
        self.max_tokens = min(MAX_TOKENS, most) if isinstance(most, int) and most > 0 else MAX_TOKENS
        self.num_words: int | None = settings.vocab_size
        self.padding_id: int | None = getattr(settings, "pad_token_id", None)
        self._inputs = ("input_ids",) if self.has_fixed_length else ("input_ids", "attention_mask")

    def output(self, tokens: Tokens) -> npt.NDArray[np.float32]:
        import torch

        return self._model.output({name: torch.from_numpy(tokens[name]) for name in self._inputs})


def middle(pixels: Pixels) -> Pixels:
    """Return the middle of a picture that is longer than `MAX_RATIO` times its shorter side, else all of it."""
    height, width = pixels.shape[:2]
    longest = MAX_RATIO * min(height, width)
    top, left = max(0, (height - longest) // 2), max(0, (width - longest) // 2)
    return pixels[top : top + longest, left : left + longest]


class _Model:
    """A model in float32 without gradients."""

    def __init__(self, role: _Role, weights: bytes, config: bytes) -> None:
        settings = _settings(config, f"the config.json of the {role.name}")
        try:
            import torch  # noqa: F401
            import transformers  # noqa: F401
        except ImportError as error:
            raise _missing(role, error.name) from error
        from scoring.engines.vlm.loading import quiet

        try:
            with quiet():
                self._model = _loaded(role, weights, settings)
        except EngineError:
            raise
        except Exception as error:  # the edge: a foreign file makes the libraries raise anything
            raise EngineError(
                f"the {role.name} cannot be loaded by transformers ({type(error).__name__}): its config.json and its "
                "weights do not fit each other, or are damaged or of a newer version; download the model again, or "
                "install a newer version of transformers"
            ) from None
        self.config = self._model.config
        self._call = getattr(self._model, role.features, self._model)

    def output(self, inputs: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        """Return the embedding, (1, d), or those of tokens or places."""
        import torch

        with torch.inference_mode():
            output = self._call(**inputs)
            values = output.get("pooler_output")
            values = output.last_hidden_state if values is None else values
            return np.asarray(values.numpy(), dtype=np.float32)


def _loaded(role: _Role, weights: bytes, settings: Mapping[str, Any]) -> Any:
    """Load the model. Its size is compared with that of the weights before it takes memory."""
    import torch
    from safetensors.torch import load
    from transformers import CONFIG_MAPPING, MODEL_MAPPING

    from scoring.engines.vlm.loading import PLAIN

    kind = settings.get("model_type")
    if not isinstance(kind, str) or kind not in role.model_types:
        taken = ", ".join(sorted(role.model_types))
        raise EngineError(f"no {role.name} of the model_type {_shown(kind)} is taken; there are: {taken}")
    config = CONFIG_MAPPING[kind].from_dict(settings)
    model_class: Any = MODEL_MAPPING[type(config)]
    tensors = load(weights)
    if other := sorted({str(each.dtype) for each in tensors.values()} - {str(each) for each in (*PLAIN, torch.int64)}):
        raise EngineError(f"the weights of the {role.name} are {other[0]}; give them as float32, float16 or bfloat16")
    has_layer = "add_pooling_layer" in inspect.signature(model_class).parameters
    options: dict[str, Any] = {"attn_implementation": "eager"} | ({"add_pooling_layer": False} if has_layer else {})
    with torch.device("meta"):
        skeleton = model_class._from_config(config, **options)
    num_needed = sum(each.numel() for each in skeleton.parameters())
    num_there = sum(each.numel() for each in tensors.values())
    if (num_made := sum(each.numel() for each in skeleton.buffers())) > MAX_BUFFER_NUMBERS:
        raise EngineError(
            f"the config.json of the {role.name} describes tables of {num_made:,} numbers; {MAX_BUFFER_NUMBERS:,} are "
            "the most that is taken"
        )
    if num_needed > num_there:
        raise EngineError(
            f"the weights of the {role.name} are incomplete: its config.json describes a model of {num_needed:,} "
            f"numbers, and model.safetensors has {num_there:,}"
        )
    model, information = model_class.from_pretrained(
        None,
        config=config,
        state_dict=tensors,
        dtype=torch.float32,
        local_files_only=True,
        output_loading_info=True,
        **options,
    )
    if information["missing_keys"]:
        raise EngineError(f"the weights of the {role.name} are incomplete: no {min(information['missing_keys']):.80}")
    return model


def _processor(config: bytes, preprocessor: bytes) -> Any:
    """Return what prepares pictures by the settings of the folder; with Pillow, where the library can do it so."""
    from transformers import AutoImageProcessor

    from scoring.engines.vlm.loading import quiet

    where = "the preprocessor_config.json of the encoder"
    settings = _settings(preprocessor, where)
    settings = settings.get("image_processor", settings)  # a processor_config.json, of pictures and texts
    for name, number in _numbers(settings, where):
        if not abs(number) <= MAX_SIDE_PX:
            raise EngineError(f"{where}: {name:.40} is larger than {MAX_SIDE_PX:,}, the most that is taken")
    kind = settings.get("image_processor_type") or settings.get("feature_extractor_type")
    if kind is not None:
        name = str(kind).removesuffix("Fast").removesuffix("Pil").replace("FeatureExtractor", "ImageProcessor")
        if name not in PROCESSORS:
            taken = ", ".join(sorted(PROCESSORS))
            raise EngineError(f"{where}: no image_processor_type {_shown(kind)} is taken; there are: {taken}")
    try:
        with TemporaryDirectory() as folder, quiet():
            Path(folder, "config.json").write_bytes(config)
            Path(folder, "preprocessor_config.json").write_text(json.dumps(settings))
            return AutoImageProcessor.from_pretrained(
                folder, backend="pil", trust_remote_code=False, local_files_only=True
            )
    except Exception as error:  # the edge: a foreign file makes the library raise anything
        raise EngineError(
            f"{where} cannot be used by transformers ({type(error).__name__}); download the model again, or install "
            "a newer version of transformers"
        ) from None


def _settings(content: bytes, where: str) -> dict[str, Any]:
    """Return the settings in a file. EngineError if it is no JSON object, or asks for more than a model needs."""
    if len(content) > MAX_SETTINGS_BYTES:
        raise EngineError(f"{where} has more than {MAX_SETTINGS_BYTES:,} bytes, the most that such a file may have")
    try:
        settings = json.loads(content)
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise EngineError(f"{where} is not a JSON object; download the model again")
    if "auto_map" in settings:
        raise EngineError(f"{where} asks for code of its own (auto_map), which is never run; choose another model")
    if settings.get("quantization_config"):
        raise EngineError(f"{where} says that the weights are quantized; give them as float32, float16 or bfloat16")
    for name, number in _numbers(settings, where):
        most = MAX_LAYERS if "layers" in name or "depth" in name else MAX_NUMBER
        if isinstance(number, int) and number > most:
            raise EngineError(f"{where}: {name:.40} is larger than {most:,}, the most that is taken")
    return settings


def _numbers(settings: Any, where: str) -> Iterator[tuple[str, float]]:
    """Yield each number with its name; of a list of numbers, such as the layers of each stage, their sum.

    EngineError if a list is too long.
    """
    waiting = [("", settings)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            if len(value) > MAX_LIST:
                raise EngineError(f"{where}: {name:.40} has more than {MAX_LIST} entries, the most that is taken")
            numbers = [each for each in value if _is_number(each)]
            waiting += [(name, each) for each in value if isinstance(each, (dict, list))]
            yield name, sum(numbers)
        elif _is_number(value):
            yield name, value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(kind: Any) -> str:
    """Return a model type for a message; it comes from a foreign file."""
    return json.dumps(kind)[:40]


def _missing(role: _Role, package: str | None) -> EngineError:
    return EngineError(
        f"the {role.name} is in the format of transformers, which needs the package {package}: "
        f"{install_command('transformers')}"
    )
