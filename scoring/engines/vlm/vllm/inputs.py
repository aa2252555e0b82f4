"""Prompt and picture -> what vLLM's engine process takes, without most of what its front end does for each picture.

Two pictures of one size differ in their pixels only. So vLLM itself prepares the first of each size, which is the
pattern for the others: their pixels go through the model's image processor alone. Whether that gives the same is
checked on every pattern; where it does not, and for models that are not of the Qwen family, vLLM prepares every
picture.
"""

import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from vllm.multimodal.inputs import MultiModalFieldElem, MultiModalKwargsItem, MultiModalKwargsItems
from vllm.v1.engine.async_llm import AsyncLLM

from scoring.engines.vlm.prompting import Prompter, TokenPrompt

MAX_PATTERNS = 512
PIXELS, GRID = "pixel_values", "image_grid_thw"


class InputMaker:
    """Safe to use from several threads."""

    def __init__(self, engine: AsyncLLM, prompter: Prompter):
        self._renderer = engine.renderer
        self._prompter = prompter
        self._lock = threading.Lock()
        self._patterns: OrderedDict[tuple[str, tuple[int, int]], dict[str, Any] | None] = OrderedDict()

    def input_of(self, tokens: TokenPrompt, image: Image, name: str) -> dict[str, Any]:
        """Make the input of one picture. name: by which vLLM's caches know it."""
        key = tokens.text, image.size
        with self._lock:
            pattern = self._patterns.get(key)
            if key in self._patterns:
                self._patterns.move_to_end(key)
            else:
                first = self._input_by_vllm(tokens, image, name)
                self._patterns[key] = first if self._is_pattern(first, image) else None
                if len(self._patterns) > MAX_PATTERNS:
                    self._patterns.popitem(last=False)
                return first
            if pattern is None:
                return self._input_by_vllm(tokens, image, name)
        of_pattern = pattern["mm_kwargs"]["image"][0]
        grid = of_pattern[GRID].data
        pixels = MultiModalFieldElem(data=self._pixels(image, grid), field=of_pattern[PIXELS].field)
        item = MultiModalKwargsItem({**of_pattern, PIXELS: pixels})
        return {
            **pattern,
            "prompt_token_ids": list(pattern["prompt_token_ids"]),
            "mm_kwargs": MultiModalKwargsItems({"image": [item]}),
            "mm_hashes": {"image": [name]},
        }

    def _input_by_vllm(self, tokens: TokenPrompt, image: Image, name: str) -> dict[str, Any]:
        prompt = {
            "prompt_token_ids": list(tokens.token_ids),
            "multi_modal_data": {"image": image},
            "multi_modal_uuids": {"image": [name]},
        }
        rendered: dict[str, Any] = self._renderer.render_cmpl([prompt])[0]
        return rendered

    def _is_pattern(self, rendered: dict[str, Any], image: Image) -> bool:
        if self._prompter.image_size is None or len(rendered["mm_kwargs"].get("image", ())) != 1:
            return False
        item = rendered["mm_kwargs"]["image"][0]
        if set(item) != {PIXELS, GRID} or list(rendered["mm_hashes"]) != ["image"]:
            return False
        pixels = self._pixels(image, item[GRID].data)
        theirs = item[PIXELS].data
        return bool(theirs.dtype == pixels.dtype and torch.equal(theirs, pixels))

    def _pixels(self, image: Image, grid: torch.Tensor) -> torch.Tensor:
        """Return whole numbers, which the model scales itself. grid: patches in time, height and width."""
        processor = self._prompter.processor.image_processor
        _, height, width = grid.flatten().tolist()
        if (width * processor.patch_size, height * processor.patch_size) == image.size:  # it needs no new size
            return _patches(image, processor.patch_size, processor.merge_size, processor.temporal_patch_size)
        tensor: torch.Tensor = processor(
            images=[image],
            size=self._prompter.image_size,
            do_rescale=False,
            do_normalize=False,
            return_tensors="pt",
        )[PIXELS]
        return tensor


def _patches(image: Image, side_px: int, merged: int, frames: int) -> torch.Tensor:
    """Cut a still picture into patches, shape (patches, 3 * frames * side_px²), in a quarter of the processor's time.

    Blocks of merged x merged patches that the model joins follow each other; a patch holds each colour `frames` times.
    """
    colours = np.stack([np.asarray(colour) for colour in image.split()])
    _, height, width = colours.shape
    blocks = (height // side_px // merged, width // side_px // merged)
    # A row of a patch is one value, which numpy copies seven times as fast as its bytes.
    rows = colours.view(f"V{side_px}").reshape(3, blocks[0], merged, side_px, blocks[1], merged)
    patches = np.empty((*blocks, merged, merged, 3, frames, side_px), dtype=rows.dtype)
    patches[...] = rows.transpose(1, 4, 2, 5, 0, 3)[:, :, :, :, :, None]
    return torch.from_numpy(patches.view(np.uint8).reshape(-1, 3 * frames * side_px * side_px))
