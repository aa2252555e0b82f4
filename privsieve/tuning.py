"""A model learns from labelled pictures. `privsieve` offers these functions."""

from collections.abc import Sequence

from jobs.console.requests import asked
from jobs.runtime.progress import SILENT
from jobs.tuning.training_set import TuneSetRequest, run_tune_set
from jobs.tuning.tuning import TuneRequest, run_tune
from privsieve.asking import Url, takes
from scoring.engines.vlm.adapter import Card
from scoring.tuning.training_set import SetRecord


@takes(TuneSetRequest)
def tune_set(
    source: Url,
    labels: Url,
    out: Url,
    *,
    target: str,
    protocol: str | None = None,
    prompt_file: bytes | None = None,
    dialogues: Url | None = None,
    source_format: str | None = None,
    split: str | None = None,
    num_pictures: int | None = None,
    validation_share: float = 0.1,
    seed: int = 0,
    exclude: Sequence[Url] = (),
    hash_list: Url | None = None,
) -> SetRecord:
    """Make a training set of labelled pictures, as `privsieve tune set`.

    LabelsError, SourceError, EngineError or StorageError; then `out` holds no set.
    """
    return run_tune_set(asked(TuneSetRequest, locals()), SILENT)


@takes(TuneRequest)
def tune(
    training_set: Url,
    model: Url,
    out: Url,
    *,
    recipe: Url,
    max_pixels: int = TuneRequest.max_pixels,
    seed: int = 0,
    micro_batch_size: int = 8,
) -> Card:
    """Tune a vision-language model on a training set, as `privsieve tune fit`, and return the card of the adapter.

    LabelsError or EngineError before anything is written; IncompleteError if the loss is no number.
    """
    return run_tune(asked(TuneRequest, locals()), SILENT)
