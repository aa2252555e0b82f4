"""Checkpoints of other families than Qwen3-VL, each below a million parameters, made on the spot."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CLIPImageProcessor,
    GotOcr2ImageProcessor,
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLProcessor,
    InternVLVideoProcessor,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    MllamaConfig,
    MllamaForConditionalGeneration,
    MllamaImageProcessor,
    MllamaProcessor,
    PreTrainedTokenizerFast,
)

from tests.vllm.micro import CHAT_TEMPLATE, make_tokenizer

IMAGE, SIDE_PX, PATCH_PX = "<|image_pad|>", 56, 14
TEMPLATE = CHAT_TEMPLATE.replace("<|vision_start|>", "").replace("<|vision_end|>", "")
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}


def _text(model_type: str, tokenizer: Any) -> dict[str, Any]:
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    sizes = {"vocab_size": len(tokenizer), "num_key_value_heads": 1, "max_position_embeddings": 8192}
    return {"model_type": model_type, **SMALL, **sizes, **ends}


def make_llava(folder: Path) -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    vision = {"model_type": "clip_vision_model", **SMALL, "image_size": SIDE_PX, "patch_size": PATCH_PX}
    image = tokenizer.convert_tokens_to_ids(IMAGE)
    config = LlavaConfig(text_config=_text("llama", tokenizer), vision_config=vision, image_token_index=image)
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    LlavaProcessor(
        image_processor=CLIPImageProcessor(
            size={"shortest_edge": SIDE_PX}, crop_size={"height": SIDE_PX, "width": SIDE_PX}
        ),
        tokenizer=tokenizer,
        patch_size=PATCH_PX,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token=IMAGE,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def make_internvl(folder: Path) -> None:
    """Cuts a picture into one to four tiles, by its shape."""
    torch.manual_seed(0)
    names = ("start_image_token", "end_image_token", "context_image_token", "video_token")
    tokens = ("<|vision_start|>", "<|vision_end|>", IMAGE, "<|video_pad|>")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer()._tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=8192,
        extra_special_tokens=dict(zip(names, tokens, strict=True)),
    )
    vision = {**SMALL, "image_size": [SIDE_PX, SIDE_PX], "patch_size": [PATCH_PX, PATCH_PX]}
    image = tokenizer.convert_tokens_to_ids(IMAGE)
    config = InternVLConfig(text_config=_text("qwen2", tokenizer), vision_config=vision, image_token_id=image)
    InternVLForConditionalGeneration(config).save_pretrained(folder)
    size = {"height": SIDE_PX, "width": SIDE_PX}
    InternVLProcessor(
        GotOcr2ImageProcessor(size=size, crop_to_patches=True, min_patches=1, max_patches=4),
        tokenizer,
        InternVLVideoProcessor(size=size),
        image_seq_length=(SIDE_PX // PATCH_PX // 2) ** 2,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def make_with_code_of_its_own(folder: Path, model_type: str) -> None:
    """The small files as TinyLLaVA and InternVL2.5 have them: the code is named in config.json."""
    make_llava(folder)
    (folder / "processor_config.json").unlink()
    config = {
        "model_type": model_type,
        "auto_map": {"AutoConfig": "configuration.Config", "AutoModel": "modeling.Model"},
        "architectures": ["Model"],
        "vision_config": {"model_type": "own_vision"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "configuration.py").write_text("raise SystemExit('this must never run')\n")
    (folder / "modeling.py").write_text("raise SystemExit('this must never run')\n")
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "CLIPImageProcessor"}')


def make_mllama(folder: Path) -> None:
    """Llama 3.2-Vision: the picture is seen by cross attention and takes a single token."""
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|image|>", "<|python_tag|>"], "bos_token": "<s>"})
    text = _text("mllama_text_model", tokenizer) | {"cross_attention_layers": [1], "bos_token_id": 0}
    vision = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_global_layers": 1,
        "attention_heads": 2,
        "vision_output_dim": 128,
        "image_size": SIDE_PX,
        "patch_size": PATCH_PX,
        "intermediate_layers_indices": [0],
    }
    image = tokenizer.convert_tokens_to_ids("<|image|>")
    config = MllamaConfig(vision_config=vision, text_config=text, image_token_index=image)
    model = MllamaForConditionalGeneration(config)
    for name, gate in model.named_parameters():
        if name.endswith("_gate"):  # 0 at the start of training: nothing would be seen of the picture
            torch.nn.init.constant_(gate, 1.0)
    model.save_pretrained(folder)
    MllamaProcessor(
        MllamaImageProcessor(size={"height": SIDE_PX, "width": SIDE_PX}, max_image_tiles=4),
        tokenizer,
        chat_template=TEMPLATE.replace(IMAGE, "<|image|>"),
    ).save_pretrained(folder)
