"""Models of the Hugging Face hub, in the cache of its own package (`hf cache` lists, verifies and removes)."""

from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import DryRunError
from huggingface_hub.utils import tqdm

from scoring.weights.files import SMALL_SUFFIXES, WEIGHTS_SUFFIX, progress


def fetched_of_hub(name: str, revision: str | None, *, with_weights: bool) -> Path:
    """Fetch the files of a model that are not here, and return their folder, which has the name of the commit. Errors
    of the hub's package."""
    try:
        files = _snapshot(name, revision, with_weights=with_weights, dry_run=True, tqdm_class=_Silent)
    except DryRunError as error:  # it says no more than that the hub gave no list
        raise error.__cause__ or error from None
    num_all = sum(file.file_size or 0 for file in files)
    num_here = sum(file.file_size or 0 for file in files if not file.will_download)
    bar = _bar(name.partition("/")[2], num_here, num_all)
    return Path(_snapshot(name, revision, with_weights=with_weights, tqdm_class=bar))


def local_of_hub(name: str, revision: str | None, *, with_weights: bool) -> Path:
    """Return the folder of a model that is here; nothing is fetched. FileNotFoundError if it is not, or not whole."""
    folder = Path(_snapshot(name, revision, with_weights=with_weights, local_files_only=True))
    if with_weights and not any(folder.glob(f"*{WEIGHTS_SUFFIX}")):
        raise FileNotFoundError
    return folder


def _snapshot(name: str, revision: str | None, *, with_weights: bool, **options: Any) -> Any:
    wanted = [f"*{suffix}" for suffix in (*SMALL_SUFFIXES, *([WEIGHTS_SUFFIX] if with_weights else []))]
    return snapshot_download(name, revision=revision, allow_patterns=wanted, ignore_patterns=["*/*"], **options)


class _Silent(tqdm):  # type: ignore[misc]
    """A progress bar that draws nothing."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options | {"disable": True})


def _bar(name: str, num_here: int, num_all: int) -> type[tqdm]:
    """Return a class of bars that pass on how many bytes of the model are here."""
    on_bytes = progress(name, num_here, num_all)

    class Bar(_Silent):
        def __init__(self, *args: Any, **options: Any):
            self._counts = options.get("name") == "huggingface_hub.snapshot_download"
            super().__init__(*args, **options)

        def update(self, n: float | None = 1) -> None:
            if self._counts and n:
                on_bytes(int(n))

    return Bar
