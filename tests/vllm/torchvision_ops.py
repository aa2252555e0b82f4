"""Lets a torchvision made for CUDA be imported beside a torch made for the CPU, in the environment of these tests only.

`make test-vllm` copies this file into that environment, with a .pth file that imports it, so that every process of the
tests has it, Ray's workers and vLLM's too. torchvision registers fake versions of two operators at import and finds no
operators, since its compiled part needs CUDA; the two schemas are enough, nothing here calls them.
"""

import importlib.abc
import sys

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class DeclareBeforeImport(importlib.abc.MetaPathFinder):
    """Finds nothing; declares the schemas when torchvision is first looked for, so that other starts stay light."""

    library = None

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        if fullname == "torchvision" and self.library is None:
            import torch

            self.library = torch.library.Library("torchvision", "FRAGMENT")
            for schema in SCHEMAS:
                self.library.define(schema)
        return None


sys.meta_path.insert(0, DeclareBeforeImport())
