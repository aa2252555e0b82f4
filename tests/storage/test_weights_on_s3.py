"""Models in a bucket: the same as in a folder, through faults, and without a trace of the keys."""

from pathlib import Path

import pytest
import s3fs

from ingest.errors import EngineError
from scoring.engines.vlm.checkpoint import checkpoint
from tests.jobs.made import privsieve
from tests.making import Capture, Patch
from tests.storage.conftest import BUCKET, KEY_ID, SECRET, Proxy

BASE = Path(__file__).parents[2] / "jobs" / "demo" / "tuning" / "base"
URL = f"s3://{BUCKET}/models/base"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.setenv("PRIVSIEVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def bucket(store: Proxy) -> s3fs.S3FileSystem:
    """With the micro model of the demo, a pickle and a folder beside it."""
    bucket = s3fs.S3FileSystem(use_listings_cache=False)
    for file in BASE.iterdir():
        bucket.pipe_file(f"{BUCKET}/models/base/{file.name}", file.read_bytes())
    bucket.pipe_file(f"{BUCKET}/models/base/pytorch_model.bin", b"a pickle")
    bucket.pipe_file(f"{BUCKET}/models/base/below/config.json", b"{}")
    store.seen.clear()
    return bucket


def _gets(store: Proxy) -> list[str]:
    names = {file.name for file in BASE.iterdir()} | {"pytorch_model.bin"}
    return sorted(name for verb, path, _ in store.seen if verb == "GET" and (name := path.rpartition("/")[2]) in names)


def test_a_model_of_a_bucket_has_the_hash_of_its_folder(store: Proxy, bucket: s3fs.S3FileSystem) -> None:
    found, of_folder = checkpoint(URL, with_weights=True), checkpoint(str(BASE), with_weights=True)
    assert (found.name, found.digest()) == (of_folder.name, of_folder.digest())
    assert _gets(store) == sorted(file.name for file in BASE.iterdir())


def test_a_model_comes_whole_through_a_store_that_stumbles(store: Proxy, bucket: s3fs.S3FileSystem) -> None:
    store.first(1, "short", method="GET", part="model.safetensors")
    digest = checkpoint(URL, with_weights=True).digest()
    assert store.faults == 1
    assert digest == checkpoint(str(BASE), with_weights=True).digest()


def test_a_fetch_that_the_store_refuses_is_continued(
    store: Proxy, bucket: s3fs.S3FileSystem, monkeypatch: Patch
) -> None:
    store.fault = lambda method, path, span: 403 if path.endswith("model.safetensors") and method == "GET" else None
    with pytest.raises(EngineError, match=r"^cannot read corpora/models/base/model.safetensors: permission denied$"):
        checkpoint(URL, with_weights=True)
    store.fault = lambda method, path, span: None
    store.seen.clear()
    checkpoint(URL, with_weights=True)
    assert _gets(store) == ["model.safetensors"]


@pytest.mark.parametrize("key", ["../config.json", "a\\b.json"])
def test_a_bucket_with_names_that_lead_elsewhere_is_refused(key: str, store: Proxy, bucket: s3fs.S3FileSystem) -> None:
    bucket.pipe_file(f"{BUCKET}/models/base/{key}", b"{}")
    store.seen.clear()
    with pytest.raises(EngineError, match=r"which is not the name of a file in it; nothing is fetched$"):
        checkpoint(URL, with_weights=True)
    assert _gets(store) == []


def test_keys_are_neither_in_the_cache_nor_in_messages(
    store: Proxy, bucket: s3fs.S3FileSystem, cache: Path, capsys: Capture
) -> None:
    assert privsieve("models", "fetch", URL) == 0
    assert privsieve("models", "fetch", f"s3://{BUCKET}/absent") == 2
    said = capsys.readouterr()
    assert f"s3://{BUCKET}/absent holds no file of a model, or does not exist" in said.err
    written = b"".join(file.read_bytes() for file in cache.rglob("*") if file.is_file())
    for secret in (KEY_ID, SECRET):
        assert secret not in said.out + said.err
        assert secret.encode() not in written
