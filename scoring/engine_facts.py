"""What an engine module can say without loading a model: what it requires, what it would ask, what it costs.

`privsieve doctor`, `scan --dry-run` and `plan` show these facts and need no knowledge of any single engine.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ingest.images.pixels import Pixels


@dataclass(frozen=True)
class LocalModel:
    """A model that runs on the machines of the scan, on a GPU or on the CPU."""

    num_gpus: int
    """GPUs that share the model."""

    weight_bytes: int
    """Size of its weight files; 0 if they are not on this machine."""

    cpu_memory_bytes: int
    """Memory that it takes where it runs on the CPU; 0 if unknown."""

    without_gpu: str | None
    """What to do on a machine without a GPU; None if the model then runs on the CPU."""


@dataclass(frozen=True)
class Requirements:
    """What a machine needs to run the engine. Missing model files are reported by `describe`."""

    extra: str | None = None
    """The extra of privsieve's package that installs what the engine needs; None if the plain package is enough."""

    local_model: LocalModel | None = None
    """None if the engine uses no GPU here."""


@dataclass(frozen=True)
class PromptPart:
    """One turn of a chat, or a note between turns."""

    heading: str
    """The role, or the note itself."""

    text: str | None = None
    """None for a note."""


@dataclass(frozen=True)
class Preview:
    """What the engine would ask, and how it would see a picture."""

    describe_picture: Callable[[Pixels], str]
    """A decoded picture -> its size as the engine sees it, in a few words."""

    protocol: str | None = None
    """Name and version of what is asked; None for an engine that takes no prompt."""

    parts: tuple[PromptPart, ...] = ()
    """The whole prompt, in order."""

    num_text_tokens: int | None = None
    """Tokens of the prompt without the picture; None where only the server has the tokenizer."""


@dataclass(frozen=True)
class RecordedSpeed:
    """A speed to plan with where the engine cannot run."""

    images_per_s: float
    """Of one GPU."""

    origin: str
    """Where the figure comes from."""


@dataclass(frozen=True)
class RecordedHostCost:
    """CPU time that a picture takes between being downscaled and reaching the model."""

    fixed_ms: float
    """For every picture."""

    ms_per_megapixel: float
    """For each megapixel that the model sees."""

    origin: str
    """What was timed, and on which machine."""

    def ms(self, megapixels: float) -> float:
        return self.fixed_ms + self.ms_per_megapixel * megapixels


@dataclass(frozen=True)
class Costs:
    """What a plan needs beside the time that `assess` takes, which is measured where the engine can run."""

    max_pixels: int | None = None
    """Decoded pictures are downscaled to this many pixels for the model; None if they are used as they are."""

    host: RecordedHostCost | None = None
    """None if nothing happens between the decoded picture and the engine."""

    speed: RecordedSpeed | None = None
    """None if there is no figure: then a plan is made only where the engine can run."""
