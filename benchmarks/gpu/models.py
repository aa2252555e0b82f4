"""Random models in the shapes of Qwen3-VL, and pictures for them: they cost what trained models and real pictures cost.

The micro model of the tests stands for all of them in a dry run.
"""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from benchmarks.gpu.call import Bench
from scoring.assessment import View
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.settings import VlmSettings
from scoring.protocols import protocol
from tests.vllm.micro import SPECIAL, TEXT_MODULES, VISION_MODULES, make_config, make_tokenizer, save_processor

TEXT_8B: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 5e6,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    },
}
VISION_8B: dict[str, Any] = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_heads": 16,
    "out_hidden_size": 4096,
    "deepstack_visual_indexes": [8, 16, 24],
}
TEXT_2B = TEXT_8B | {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16}
VISION_2B = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_heads": 16,
    "out_hidden_size": 2048,
    "deepstack_visual_indexes": [5, 11, 17],
}
SHAPES = {"8b": (TEXT_8B, VISION_8B, False), "2b": (TEXT_2B, VISION_2B, True)}
"""Size -> text, vision, and whether the vocabulary head is the embedding; those of Qwen3-VL."""

NUM_DIFFERENT = 64
"""Pictures that are made; more of them repeat these."""

SPREADING = 4
"""Factor of random matrices: else the answer hardly depends on the picture."""


RAM, ROOM = Path("/dev/shm"), 40 * 2**30
"""Where the weights of 2B and 8B are read fastest, and the bytes that must be free there."""


def weights_folder(bench: Bench) -> Path:
    """Return the folder of all saved weights, the same in both calls."""
    folder = bench.work / "weights"
    if not folder.exists():
        if not bench.is_dry and RAM.is_dir() and shutil.disk_usage(RAM).free > ROOM:
            folder.symlink_to(tempfile.mkdtemp(prefix="privsieve-gpu-", dir=RAM))
        else:
            folder.mkdir()
    return folder.resolve()


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def dtype() -> torch.dtype:
    return torch.bfloat16 if torch.cuda.is_available() else torch.float32


def shape(folder: Path, size: str, tokenizer_folder: Path) -> Path:
    """Write config.json, tokenizer and processor, no weights. size: of `SHAPES`, or "micro".

    Without a folder of the real tokenizer a small one is trained, with which a prompt has more tokens."""
    if tokenizer_folder.is_dir() and size in SHAPES:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer_folder)
        tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL[1:])})
    else:
        tokenizer = make_tokenizer()
    config = make_config(tokenizer)
    if size in SHAPES:
        text_shape, vision_shape, is_tied = SHAPES[size]
        text, vision = config.text_config.to_dict() | text_shape, config.vision_config.to_dict() | vision_shape
        text["tie_word_embeddings"] = is_tied
        options = config.to_dict() | {"text_config": text, "vision_config": vision, "tie_word_embeddings": is_tied}
        config = Qwen3VLConfig(**options | {"dtype": "bfloat16"})
    config.save_pretrained(folder)
    save_processor(folder, tokenizer)
    return folder


def random_model(folder: Path, factor: float = 1) -> Any:
    """Make the model of a folder on the GPU, if there is one. factor: of all matrices."""
    torch.manual_seed(0)
    config = Qwen3VLConfig.from_pretrained(folder, attn_implementation="sdpa")
    torch.set_default_dtype(dtype())
    with device():
        model = Qwen3VLForConditionalGeneration(config)
    torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for parameter in model.parameters() if factor != 1 else ():
            if parameter.dim() >= 2:
                parameter.mul_(factor)
    return model.eval()


def random_adapter(folder: Path, model: Path, rank: int) -> Path:
    """A LoRA adapter of random weights for the language model and the vision tower, of a third of the weights' size."""
    torch.manual_seed(1)
    with torch.device("meta"):
        skeleton = Qwen3VLForConditionalGeneration(Qwen3VLConfig.from_pretrained(model))
    tensors: dict[str, torch.Tensor] = {}
    for name, module in skeleton.named_modules():
        if name.endswith(VISION_MODULES if ".visual." in name else TEXT_MODULES):
            tensors[f"base_model.model.{name}.lora_A.weight"] = torch.randn(rank, module.in_features) * 0.02
            tensors[f"base_model.model.{name}.lora_B.weight"] = torch.randn(module.out_features, rank) * 0.02
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    modules = sorted({name.removeprefix("base_model.model.").rsplit(".", 2)[0] for name in tensors})
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none", "target_modules": modules}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def flops_per_picture(model: Any, num_patches: int, num_computed: int, num_context: int) -> tuple[float, float]:
    """(vision tower, language model): products of weights, and of attention.

    num_patches: of 16x16 px. num_computed: tokens after the shared prefix; num_context: prefix and these.
    """
    text, vision = model.config.text_config, model.config.vision_config
    weights = {name: p.numel() for name, p in model.named_parameters() if p.dim() >= 2 and "embed" not in name}
    merger = sum(n for name, n in weights.items() if ".visual." in name and "merger" in name)
    tower = sum(n for name, n in weights.items() if ".visual." in name) - merger
    language = sum(n for name, n in weights.items() if ".language_model." in name)
    seen = 2 * tower * num_patches + 2 * merger * num_patches / 4
    seen += 4 * num_patches**2 * vision.hidden_size * vision.depth
    width = text.num_attention_heads * text.head_dim
    attended = num_computed * (num_context - num_computed / 2)
    return seen, 2 * language * num_computed + 4 * attended * width * text.num_hidden_layers


def slots_settings(folder: Path, side_px: int) -> VlmSettings:
    """For pictures of this size, asked for the 22 answers in one prefill."""
    asked = protocol("slots")
    return VlmSettings(Checkpoint(folder, folder.name, str(folder)), None, asked, side_px**2, None, None, None)


def pictures(num_pictures: int, width: int, height: int, seed: int = 0) -> Sequence[View]:
    """Squares of 16 px, so that each patch of the model has a colour of its own."""
    made = []
    for number in range(min(num_pictures, NUM_DIFFERENT)):
        rng = np.random.default_rng((seed, number))
        squares = rng.integers(0, 256, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
        pixels = np.ascontiguousarray(squares.repeat(16, axis=0).repeat(16, axis=1)[:height, :width])
        made.append(View(pixels, frozenset(), f"{number:064x}"))
    return [made[number % len(made)] for number in range(num_pictures)]
