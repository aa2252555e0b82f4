"""Models of the Hugging Face hub, in the cache of its own package, and checked here.

That cache names a file of git LFS by its SHA-256, and any other by its git hash.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import CachedRepoInfo, CachedRevisionInfo, HfApi, constants, scan_cache_dir, snapshot_download
from huggingface_hub.errors import CacheNotFound
from huggingface_hub.utils import tqdm

from ingest.errors import StorageError
from scoring.weights.cache import WEIGHTS_SUFFIX, file_sha256, refuse_without_room
from scoring.weights.fetching import SMALL_SUFFIXES, is_file_name, model_files, progress, refuse_large


def fetched_of_hub(name: str, revision: str | None, asked: str, *, with_weights: bool) -> Path:
    """Fetch the files of a model that are not here, and return their folder, which has the name of the commit.

    asked: for messages. StorageError or EngineError in one line, and the errors of the hub's package.
    """
    info = HfApi().model_info(name, revision=revision, files_metadata=True)
    remote = {file.rfilename: file for file in info.siblings or () if is_file_name(file.rfilename)}
    names = [file for file in model_files(asked, remote) if with_weights or not file.endswith(WEIGHTS_SUFFIX)]
    num_bytes = {file: int(remote[file].size or 0) for file in names}
    folder = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "snapshots" / str(info.sha)
    for file, size in num_bytes.items():
        refuse_large(asked, file, size)
    missing = [file for file in names if not (folder / file).is_file()]
    if missing:
        num_missing, num_all = sum(num_bytes[file] for file in missing), sum(num_bytes.values())
        folder.mkdir(parents=True, exist_ok=True)
        refuse_without_room(folder, num_missing, asked, "HF_HOME")
        on_bytes = progress(name.partition("/")[2], num_all - num_missing, num_all)
        if _snapshot(name, revision, with_weights=with_weights, tqdm_class=_bar(on_bytes)) != folder:
            raise StorageError(f"{asked} was changed while it was fetched; run the same command again")
        for file in missing:
            lfs = remote[file].lfs
            if lfs is not None and file_sha256(folder / file) != lfs.sha256:
                remove_file(folder / file)
                raise StorageError(f"{asked}: {file} came with another SHA-256 than it should have")
    return folder


def local_of_hub(name: str, revision: str | None, *, with_weights: bool) -> Path:
    """Return the folder of a model that is here; nothing is fetched. FileNotFoundError if it is not, or not whole."""
    folder = _snapshot(name, revision, with_weights=with_weights, local_files_only=True)
    has_weights = any(folder.glob(f"*{WEIGHTS_SUFFIX}"))
    if with_weights and not has_weights:
        raise FileNotFoundError
    return folder


def _snapshot(name: str, revision: str | None, *, with_weights: bool, **options: Any) -> Path:
    wanted = [f"*{suffix}" for suffix in (*SMALL_SUFFIXES, *([WEIGHTS_SUFFIX] if with_weights else []))]
    folder = snapshot_download(name, revision=revision, allow_patterns=wanted, ignore_patterns=["*/*"], **options)
    return Path(folder)


def _bar(on_bytes: Callable[[int], None]) -> type[tqdm]:
    """Return a class of progress bars that draws nothing, and passes on how many bytes came."""

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any):
            self._counts = options.get("name") == "huggingface_hub.snapshot_download"
            super().__init__(*args, **options | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            if self._counts:
                on_bytes(int(n or 0))

    return Bar


def models_of_hub() -> list[tuple[CachedRepoInfo, CachedRevisionInfo]]:
    """Return the models in the hub's cache, in each of their versions."""
    try:
        found = scan_cache_dir()
    except CacheNotFound:
        return []
    return [(repo, version) for repo in found.repos if repo.repo_type == "model" for version in repo.revisions]


def changed_files(version: CachedRevisionInfo) -> list[Path]:
    """Return the files of which the content has another hash than their name in the cache."""
    return sorted(file.file_path for file in version.files if not _is_unchanged(file.blob_path))


def _is_unchanged(blob: Path) -> bool:
    if len(blob.name) == 64:
        return file_sha256(blob) == blob.name
    if len(blob.name) == 40:
        content = blob.read_bytes()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == blob.name
    return True  # a system without links: the hub's package keeps no hash there


def remove_file(file: Path) -> None:
    """Remove a file from the hub's cache, so that it is fetched again."""
    file.resolve().unlink(missing_ok=True)
    file.unlink(missing_ok=True)


def remove_version(version: CachedRevisionInfo) -> None:
    """Remove a model in one version."""
    scan_cache_dir().delete_revisions(version.commit_hash).execute()
