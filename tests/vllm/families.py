"""Checkpoints of other families than Qwen3-VL, each below a million parameters, made on the spot."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CLIPImageProcessor,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3ImageProcessor,
    Gemma3Processor,
    GotOcr2ImageProcessor,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessor,
    Idefics3Processor,
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
    PixtralImageProcessor,
    PixtralProcessor,
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
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


def make_smolvlm(folder: Path) -> None:
    """Cuts a picture into tiles. Its processor is described by its files, since making one needs num2words."""
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
    marks = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *tiles]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    vision = {**SMALL, "image_size": 64, "patch_size": 16}
    config = SmolVLMConfig(
        text_config=_text("llama", tokenizer),
        vision_config=vision,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    SmolVLMForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    size = {"size": {"longest_edge": 128}, "max_image_size": {"longest_edge": 64}}
    sampling = {"fps": 1, "max_frames": 4, "video_size": {"longest_edge": 64}}
    processor = {
        "processor_class": "SmolVLMProcessor",
        "image_seq_len": 4,
        "image_processor": {"image_processor_type": "SmolVLMImageProcessor", **size},
        "video_processor": {"video_processor_type": "SmolVLMVideoProcessor", **size, "video_sampling": sampling},
    }
    (folder / "processor_config.json").write_text(json.dumps(processor))
    (folder / "chat_template.jinja").write_text(TEMPLATE.replace(IMAGE, "<image>"))


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


def make_pixtral(folder: Path) -> None:
    """Pixtral as transformers has it: a LLaVA whose vision tower takes any size, a token per patch and row."""
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    marks = ["[IMG]", "[IMG_BREAK]", "[IMG_END]"]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    vision = {"model_type": "pixtral", **SMALL, "head_dim": 32, "image_size": 4 * SIDE_PX, "patch_size": PATCH_PX}
    image = tokenizer.convert_tokens_to_ids("[IMG]")
    config = LlavaConfig(
        text_config=_text("mistral", tokenizer) | {"head_dim": 32},
        vision_config=vision,
        image_token_index=image,
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
    )
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    PixtralProcessor(
        PixtralImageProcessor(size={"longest_edge": 4 * SIDE_PX}, patch_size={"height": PATCH_PX, "width": PATCH_PX}),
        tokenizer,
        patch_size=PATCH_PX,
        chat_template=TEMPLATE.replace(IMAGE, "[IMG]"),
    ).save_pretrained(folder)


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


def make_idefics3(folder: Path) -> None:
    """Cuts a picture into tiles, as SmolVLM2 does, whose architecture it shares."""
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
    marks = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *tiles]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    config = Idefics3Config(
        text_config=_text("llama", tokenizer),
        vision_config={"model_type": "idefics3_vision", **SMALL, "image_size": 64, "patch_size": 16},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    Idefics3ForConditionalGeneration(config).save_pretrained(folder)
    Idefics3Processor(
        Idefics3ImageProcessor(size={"longest_edge": 128}, max_image_size={"longest_edge": 64}),
        tokenizer,
        image_seq_len=4,
        chat_template=TEMPLATE.replace(IMAGE, "<image>"),
    ).save_pretrained(folder)


def make_gemma3(folder: Path) -> None:
    torch.manual_seed(0)
    names = {"boi_token": "<|vision_start|>", "eoi_token": "<|vision_end|>", "image_token": IMAGE}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer()._tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=8192,
        extra_special_tokens=names,
    )
    config = Gemma3Config(
        text_config=_text("gemma3_text", tokenizer) | {"head_dim": 32},
        vision_config={"model_type": "siglip_vision_model", **SMALL, "image_size": SIDE_PX, "patch_size": PATCH_PX},
        mm_tokens_per_image=4,
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
        boi_token_index=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        eoi_token_index=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    )
    Gemma3ForConditionalGeneration(config).save_pretrained(folder)
    Gemma3Processor(
        Gemma3ImageProcessor(size={"height": SIDE_PX, "width": SIDE_PX}),
        tokenizer,
        image_seq_length=4,
        chat_template=TEMPLATE.replace(IMAGE, "<|vision_start|>"),
    ).save_pretrained(folder)
