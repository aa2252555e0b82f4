"""Checkpoints of 0.7 M parameters, made on the spot: a Qwen3-VL with a tokenizer, an image processor and an adapter."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from scoring import protocols
from scoring.taxonomy import ATTRIBUTES

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
VOCABULARY = 2048

CHAT_TEMPLATE = """{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
{%- else -%}{{- part.text -}}{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""


def make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    return _fast(tokenizer)


def make_prefix_space_tokenizer(prepend: str, *, splits_digits: bool = True) -> PreTrainedTokenizerFast:
    """Of the SentencePiece kind: `▁Yes` at the start of a text and after a space, `Yes` elsewhere.

    prepend: "first", a text begins with ▁; "always", what follows a special token too. splits_digits: else `▁0` is a
    token too.
    """
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    digits = [pre_tokenizers.Digits(individual_digits=True)] if splits_digits else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace("▁", prepend), *digits])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL),
        special_tokens=["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))],
        initial_alphabet=[*map(chr, range(32, 127)), "\n"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([*_texts(), *["Yes No", "(Yes)", "(No)", "(0) 0 (1) 1 (2) 2 (9) 9"] * 50], trainer)
    return _fast(tokenizer)


def _texts() -> list[str]:
    texts = [file.read_text() for file in sorted(Path(protocols.__file__).parent.glob("texts/*.yaml"))]
    return [*texts * 3, *(f'{a.key}="{a.title}": {a.shows}' for a in ATTRIBUTES)]


def _fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=16384
    )
    fast.add_special_tokens({"additional_special_tokens": [*SPECIAL[3:], "<|im_start|>"]})
    return fast


def make_config(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLConfig:
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in SPECIAL}
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 64,
            "max_position_embeddings": 16384,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_section": [12, 10, 10],
                "mrope_interleaved": True,
            },
            "tie_word_embeddings": True,
            "eos_token_id": ids["<|im_end|>"],
            "bos_token_id": None,
            "pad_token_id": ids["<|endoftext|>"],
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 2,
            "out_hidden_size": 64,
            "deepstack_visual_indexes": [0],
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 2304,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
        architectures=["Qwen3VLForConditionalGeneration"],
        dtype="float32",
    )


def make_checkpoint(folder: Path, seed: int = 0, tokenizer: PreTrainedTokenizerFast | None = None) -> Path:
    """A whole checkpoint below `folder`, in float32, loadable offline."""
    torch.manual_seed(seed)
    tokenizer = tokenizer or make_tokenizer()
    model = Qwen3VLForConditionalGeneration(make_config(tokenizer)).float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.mul_(4)  # else the answer hardly depends on the image
    model.save_pretrained(folder)
    save_processor(folder, tokenizer)
    return folder


def save_processor(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    size = {"shortest_edge": 32 * 32, "longest_edge": 4096 * 4096}
    pixels = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, "size": size}
    normal = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**pixels, **normal),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**pixels, **normal),
        chat_template=CHAT_TEMPLATE,
    ).save_pretrained(folder)


TEXT_MODULES = ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj")
VISION_MODULES = ("attn.qkv", "attn.proj", "mlp.linear_fc1")


def make_adapter(folder: Path, checkpoint: Path, *, vision: bool = True, extra: tuple[str, ...] = ()) -> Path:
    """A LoRA adapter with random weights on the language model and, with `vision`, on the vision tower.

    extra: names of further modules, 64 wide.
    """
    seed, rank = 1, 4
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration.from_pretrained(checkpoint)
    tensors: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        wanted = VISION_MODULES if ".visual." in name else TEXT_MODULES
        if name.endswith(wanted) and (vision or wanted is TEXT_MODULES):
            tensors[f"base_model.model.{name}.lora_A.weight"] = torch.randn(rank, module.in_features) * 0.2
            tensors[f"base_model.model.{name}.lora_B.weight"] = torch.randn(module.out_features, rank) * 0.2
    for name in extra:
        tensors[f"base_model.model.{name}.lora_A.weight"] = torch.randn(rank, 64)
        tensors[f"base_model.model.{name}.lora_B.weight"] = torch.randn(64, rank)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": str(checkpoint),
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({n.removeprefix("base_model.model.").rsplit(".", 2)[0] for n in tensors}),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2))
    return folder
