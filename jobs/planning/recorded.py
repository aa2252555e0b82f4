"""Figures that a plan uses where it cannot measure: each says where it comes from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RecordedSpeed:
    """images_per_s: of one GPU. origin: what the figure is and is not."""

    images_per_s: float
    origin: str


SPEEDS: dict[str, RecordedSpeed] = {
    "vllm": RecordedSpeed(80.0, "the target for an 8B model on one H200 with pictures of 512 px; not a measurement"),
}
"""Engine name -> the figure for where the engine cannot run."""


@dataclass(frozen=True)
class RecordedHostCost:
    """CPU time that a picture takes on its way from downscaled pixels to the model.

    fixed_ms: of every picture. ms_per_megapixel: of what the model sees of it.
    """

    fixed_ms: float
    ms_per_megapixel: float
    origin: str

    def ms(self, megapixels: float) -> float:
        return self.fixed_ms + self.ms_per_megapixel * megapixels


_MACHINE = "one thread of an AMD EPYC with two cores, vLLM 0.32 and transformers 5.19"

HOST_COSTS: dict[str, RecordedHostCost] = {
    "vllm": RecordedHostCost(1.6, 22.0, f"recorded for image processor and hand-over to vLLM, {_MACHINE}"),
    "transformers": RecordedHostCost(0.8, 13.5, f"recorded for image processor and tokenizer, {_MACHINE}"),
}
"""Engine that is shown downscaled pictures -> what `python -m tests.benchmarks.host_cost` measured."""
