"""What vLLM is sent of a picture: tokens and patches, without its own preparation of each picture.

vLLM prepares one picture after the other in Python, which takes longer than all else of a request. Pictures with the
same grid of patches differ in nothing but their patches. So vLLM prepares the first picture of each grid, and if what
it made is what this module makes of that picture, this module makes those that follow. Pictures of the web have
thousands of sizes, but a few hundred grids. Where the two differ, and for models that are not of the Qwen family, vLLM
prepares every picture.
"""

import threading
import time
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from vllm.multimodal.inputs import MultiModalFieldElem, MultiModalKwargsItem, MultiModalKwargsItems, PlaceholderRange
from vllm.v1.engine.async_llm import AsyncLLM

from scoring.engines.vlm.prompting import Prompter, TokenPrompt

PIXELS, GRID = "pixel_values", "image_grid_thw"
FRAMES = "temporal_patch_size"
"""Setting of models and of processors: the frames of a patch."""

COMPARED = ("type", "prompt_token_ids", "mm_hashes", "mm_placeholders")
"""Entries of an input, apart from the tensors and the time."""

Grid = tuple[int, ...]
"""Patches in time, height and width."""


class InputMaker:
    """Safe to use from several threads."""

    def __init__(self, engine: AsyncLLM, prompter: Prompter):
        self._renderer = engine.renderer
        self._prompter = prompter
        self._processing = engine.model_config.multimodal_config.mm_processor_kwargs or {}
        self._rendering = threading.Lock()
        """vLLM's preparation takes one picture at a time."""

        self._patterns: dict[Grid, MultiModalKwargsItem | None] = {}
        """Grid -> item of a picture with that grid; None where vLLM makes something else of it."""

        self._whole: dict[tuple[int, int], torch.Tensor] = {}
        """Size of pictures that are whole patches -> their grid."""

    def input_of(self, tokens: TokenPrompt, image: Image, name: str) -> dict[str, Any]:
        """Make the input of one picture. name: by which vLLM's caches know it."""
        if self._prompter.image_size is None:
            return self._input_by_vllm(tokens, image, name)
        pixels, grid = self._pixels(image)
        key = tuple(grid.flatten().tolist())
        if key not in self._patterns:
            rendered = self._input_by_vllm(tokens, image, name)
            item = rendered["mm_kwargs"]["image"][0]
            is_plain = set(item) == {PIXELS, GRID}
            is_pattern = is_plain and _is_same(rendered, self._input(item, pixels, key, tokens, name))
            # Without its pixels, which would fill the memory.
            self._patterns[key] = _with_pixels(item, torch.empty(0)) if is_pattern else None
            return rendered
        pattern = self._patterns[key]
        if pattern is None:
            return self._input_by_vllm(tokens, image, name)
        return self._input(pattern, pixels, key, tokens, name)

    def _input(
        self, pattern: MultiModalKwargsItem, pixels: torch.Tensor, grid: Grid, tokens: TokenPrompt, name: str
    ) -> dict[str, Any]:
        """Make what vLLM would, of another picture with the grid of the pattern."""
        ids, image_token = tokens.token_ids, self._prompter.image_token_id
        at = ids.index(image_token)
        num_visual = grid[0] * grid[1] * grid[2] // self._prompter.processor.image_processor.merge_size**2
        return {
            "type": "multimodal",
            "prompt_token_ids": [*ids[:at], *[image_token] * num_visual, *ids[at + 1 :]],
            "mm_kwargs": MultiModalKwargsItems({"image": [_with_pixels(pattern, pixels)]}),
            "mm_hashes": {"image": [name]},
            "mm_placeholders": {"image": [PlaceholderRange(at, num_visual)]},
            "arrival_time": time.time(),
        }

    def _input_by_vllm(self, tokens: TokenPrompt, image: Image, name: str) -> dict[str, Any]:
        prompt = {
            "prompt_token_ids": list(tokens.token_ids),
            "multi_modal_data": {"image": image},
            "multi_modal_uuids": {"image": [name]},
        }
        with self._rendering:
            rendered: dict[str, Any] = self._renderer.render_cmpl([prompt])[0]
        return rendered

    def _pixels(self, image: Image) -> tuple[torch.Tensor, torch.Tensor]:
        """Return whole numbers, which the model scales itself, and the grid, shape (1, 3)."""
        processor = self._prompter.processor.image_processor
        cut = processor.patch_size, processor.merge_size
        if image.size in self._whole:  # it needs no new size
            return _patches(image, *cut), self._whole[image.size]
        processed = processor(
            images=[image], do_rescale=False, do_normalize=False, return_tensors="pt", **self._processing
        )
        pixels, grid = processed[PIXELS], processed[GRID]
        _, height, width = grid.flatten().tolist()
        is_whole = (width * processor.patch_size, height * processor.patch_size) == image.size
        if is_whole and torch.equal(_patches(image, *cut), pixels):
            self._whole[image.size] = grid
        return pixels, grid


def _with_pixels(item: MultiModalKwargsItem, pixels: torch.Tensor) -> MultiModalKwargsItem:
    return MultiModalKwargsItem({**item, PIXELS: MultiModalFieldElem(pixels, item[PIXELS].field)})


def _is_same(rendered: dict[str, Any], made: dict[str, Any]) -> bool:
    """Return whether vLLM's own input of a picture is the one that was made here."""
    theirs, ours = (each["mm_kwargs"]["image"][0][PIXELS].data for each in (rendered, made))
    is_rest_same = all(rendered[name] == made[name] for name in COMPARED)
    has_same_pixels = bool(theirs.dtype == ours.dtype and torch.equal(theirs, ours))
    return rendered.keys() == made.keys() and is_rest_same and has_same_pixels


def _patches(image: Image, side_px: int, merged: int) -> torch.Tensor:
    """Cut a still picture into patches, shape (patches, 3 * side_px²), in a quarter of the processor's time.

    Blocks of merged x merged patches that the model joins follow each other.
    """
    colours = np.stack([np.asarray(colour) for colour in image.split()])
    _, height, width = colours.shape
    blocks = (height // side_px // merged, width // side_px // merged)
    # A row of a patch is one value, which numpy copies seven times as fast as its bytes.
    rows = colours.view(f"V{side_px}").reshape(3, blocks[0], merged, side_px, blocks[1], merged)
    patches = np.ascontiguousarray(rows.transpose(1, 4, 2, 5, 0, 3))
    return torch.from_numpy(patches.view(np.uint8).reshape(-1, 3 * side_px * side_px))
