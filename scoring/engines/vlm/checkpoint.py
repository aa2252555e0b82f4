"""A model on this machine: whether it is complete, safe to load and a vision-language model.

Nothing here imports torch: the checks run before any data is read.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ingest.errors import EngineError
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from scoring.weights.files import SMALL_SUFFIXES, UNSAFE_SUFFIXES, is_file_name
from scoring.weights.sources import Weights, find_weights, weights_here

WHOLE = "model.safetensors"
INDEX = f"{WHOLE}.index.json"
ADAPTER_CONFIG = "adapter_config.json"
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
IMAGE_PROCESSORS = ("processor_config.json", "preprocessor_config.json")
BLOCK_BYTES = 64 << 20
PIECE_BYTES = 1 << 20
MAX_JSON_BYTES = 64 << 20


class Checkpoint(Weights):
    """A model on this machine; its folder holds all its files."""

    def digest(self) -> str:
        """Return a sha256 in hex: of the commit for a model of the hub, else of every byte of the small files and
        weights.

        For a folder it takes as long as reading the files; engines load without it.
        """
        if self.is_of_hub:
            return hashlib.sha256(self.name.encode()).hexdigest()
        small = (f for f in self.folder.iterdir() if f.is_file() and f.suffix in SMALL_SUFFIXES)
        return content_sha256([*sorted(small), *weight_files(self.folder)])


def checkpoint(model: str, *, with_weights: bool) -> Checkpoint:
    """Find a local folder, `owner/name[@revision]` of the hub, or a URL. EngineError says what is missing or wrong.

    with_weights: of a hub model, fetch all of it; else only its small files.
    """
    weights = find_weights(model, "model", with_weights=with_weights)
    return checkpoint_in(weights, has_weights=with_weights or not weights.is_of_hub)


def checkpoint_in(weights: Weights, *, has_weights: bool = True) -> Checkpoint:
    """Check a model in a local folder. Errors as in `checkpoint`."""
    try:
        check_model(weights.folder, has_weights=has_weights)
    except EngineError as error:  # for fetched files it names the cache
        raise EngineError(str(error).replace(str(weights.folder), weights.shown)) from None
    return Checkpoint(**vars(weights))


def check_model(folder: Path, *, has_weights: bool = True) -> None:
    """Raise EngineError naming what is missing or wrong in a model folder."""
    if (folder / ADAPTER_CONFIG).is_file():
        raise EngineError(
            f'the model folder "{folder}" holds an adapter ({ADAPTER_CONFIG}), which not every engine would load with '
            "the model: move it into a folder of its own and give that as --adapter"
        )
    config = read_json(folder / "config.json", f'the model folder "{folder}"')
    _refuse_without_any(folder, TOKENIZERS, "tokenizer")
    if not isinstance(config.get("vision_config"), Mapping):
        kind = config.get("model_type", "unknown")
        raise EngineError(
            f'the model "{folder.name}" is not a vision-language model (model_type {kind}, no vision_config in its '
            "config.json); choose another --model"
        )
    _refuse_without_any(folder, IMAGE_PROCESSORS, "image processor configuration")
    max_tokens(folder)
    check_one_set(folder)
    if has_weights:
        weight_shapes(folder)


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a model, sorted. EngineError if one is missing or there are only pickles, and as
    in `check_one_set`."""
    check_one_set(folder)
    files = _indexed(folder)
    for file in files:
        if not file.is_file():
            raise EngineError(f'the model folder "{folder}" has no {file.name}, which its {INDEX} names')
    if files:
        return files
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    unsafe = sorted(f.name for f in folder.iterdir() if f.suffix in UNSAFE_SUFFIXES)
    if unsafe:
        raise EngineError(
            f'the model folder "{folder}" has its weights as {unsafe[0]}, which can run code when loaded; '
            "only safetensors are loaded: convert it"
        )
    raise EngineError(f'the model folder "{folder}" has no weights: neither {WHOLE} nor {INDEX}')


def weight_bytes(model: str | None) -> int:
    """Return the size of the weights on this machine; 0 if they are missing. Fetches and checks nothing."""
    folder = None if model is None else weights_here(model)
    return sum(file.stat().st_size for file in folder.glob("*.safetensors") if file.is_file()) if folder else 0


def check_one_set(folder: Path) -> None:
    """Raise EngineError if transformers and vLLM would load different weights.

    transformers prefers model.safetensors to an index; vLLM takes what the index names, or else all safetensors.
    """
    others = {file.name for file in _indexed(folder) or folder.glob("*.safetensors")} - {WHOLE}
    if (folder / WHOLE).is_file() and others:
        raise EngineError(
            f'the model folder "{folder}" has weights twice, {WHOLE} and {min(others)}, and engines differ in which '
            "they load: remove one of the two"
        )


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return weight name -> shape of all safetensors files of a model."""
    return {name: shape for file in weight_files(folder) for name, shape in safetensors_shapes(file).items()}


def safetensors_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Return tensor name -> shape from the header alone. EngineError if it cannot be read, or does not account for
    every byte after it."""
    try:
        with safe_open(file, framework="np") as tensors:
            return {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    except (SafetensorError, OSError):
        raise EngineError(
            f'"{file.name}" in "{file.parent}" is damaged or cut: its safetensors header does not fit; fetch it again'
        ) from None


def stored_dtype(folder: Path) -> str | None:
    """Return the precision in config.json; None if there is none."""
    config = read_json(folder / "config.json", f'the model folder "{folder}"')
    stated = [part.get("dtype") or part.get("torch_dtype") for part in (config, _text_config(config, folder))]
    return next((str(dtype) for dtype in stated if dtype), None)


def max_tokens(folder: Path) -> int | None:
    """Return the longest prompt and answer that the model was made for, in tokens; None if config.json has no limit."""
    config = read_json(folder / "config.json", f'the model folder "{folder}"')
    stated = (_text_config(config, folder) or config).get("max_position_embeddings")
    if stated is None:
        return None
    if not isinstance(stated, int) or stated < 1:
        raise EngineError(
            f'the model "{folder.name}": max_position_embeddings in its config.json is {json.dumps(stated)[:40]}, '
            "which is not a number of tokens"
        )
    return stated


def read_json(file: Path, where: str) -> dict[str, Any]:
    """Read a JSON object. EngineError if the file is missing or not a JSON object; `where` begins the message."""
    if not file.is_file():
        raise EngineError(f"{where} has no {file.name}")
    try:
        content = json.loads(given_content(place(str(file)), f"{where}: its {file.name}", MAX_JSON_BYTES))
    except (ValueError, RecursionError):
        raise EngineError(f"{where}: its {file.name} is not valid JSON") from None
    if not isinstance(content, dict):
        raise EngineError(f"{where}: its {file.name} is not a JSON object")
    return content


def content_sha256(files: Sequence[Path]) -> str:
    """Return the sha256 in hex over names, sizes and all content."""
    digest = hashlib.sha256()
    for file in files:
        status = file.stat()
        digest.update(f"{file.name}\0{status.st_size}\0".encode())
        digest.update(_blocks_sha256(file.resolve(), status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


@lru_cache(maxsize=1024)
def _blocks_sha256(file: Path, num_bytes: int, mtime_ns: int) -> bytes:
    """Return the sha256 over the hashes of the file's blocks, computed on all cores: one core takes at least 10 s for
    16 GB.

    mtime_ns: part of the cache key, so that a process reads a file again only after it was changed.
    """
    digest = hashlib.sha256()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for block_hash in pool.map(lambda start: _block_sha256(file, start), range(0, num_bytes, BLOCK_BYTES)):
            digest.update(block_hash)
    return digest.digest()


def _block_sha256(file: Path, start: int) -> bytes:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        stream.seek(start)
        for _ in range(BLOCK_BYTES // PIECE_BYTES):
            digest.update(stream.read(PIECE_BYTES))
    return digest.digest()


def _indexed(folder: Path) -> list[Path]:
    """Return the files that the index names, sorted, whether they exist or not; empty without an index."""
    if not (folder / INDEX).is_file():
        return []
    names = read_json(folder / INDEX, f'the model folder "{folder}"').get("weight_map")
    if not isinstance(names, Mapping) or not names or not all(isinstance(name, str) for name in names.values()):
        raise EngineError(f'the model folder "{folder}": its {INDEX} names no weight files; fetch the model again')
    if not all(map(is_file_name, names.values())):
        raise EngineError(f'the model folder "{folder}": its {INDEX} names files outside of the folder')
    return sorted({folder / name for name in names.values()})


def _refuse_without_any(folder: Path, names: Sequence[str], what: str) -> None:
    if not any((folder / name).is_file() for name in names):
        raise EngineError(f'the model folder "{folder}" has no {what}: none of {", ".join(names)}')


def _text_config(config: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Return the part of config.json for the language model; empty if there is none."""
    part = config.get("text_config") or {}
    if not isinstance(part, Mapping):
        raise EngineError(f'the model "{folder.name}": text_config in its config.json is not a JSON object')
    return part
