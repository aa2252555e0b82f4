"""Weights of a URL: what is fetched, what is refused, and what a fetched model is."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingest.errors import EngineError
from scoring.engines.vlm.checkpoint import checkpoint, weight_bytes
from tests.jobs.made import privsieve
from tests.weights.served import BASE, Served

Capture = pytest.CaptureFixture[str]

SECRET = "hush-5f0c2a"
MODEL_FILES = {
    *("chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "processor_config.json"),
    *("tokenizer.json", "tokenizer_config.json"),
}


def _started(*command: object) -> subprocess.Popen[str]:
    """A command in a process of its own, which holds what it uses until it ends."""
    words = [sys.executable, "-m", "jobs", *map(str, command)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _run(*command: object) -> tuple[int, str, str]:
    process = _started(*command)
    out, err = process.communicate()
    return process.returncode, out, err


def _cached(cache: Path, name: str) -> Path:
    (found,) = cache.glob(f"weights/*/*/{name}")
    return found


def test_a_model_of_a_url_is_the_model_of_a_folder(served: Served) -> None:
    found = checkpoint(served.url("micro"), with_weights=True)
    of_folder = checkpoint(str(served.root / "micro"), with_weights=True)
    assert (found.name, found.digest()) == ("micro", of_folder.digest())
    assert {file.name for file in found.folder.iterdir()} == MODEL_FILES
    assert served.num_gets() == dict.fromkeys(MODEL_FILES, 1), "neither pickles nor code nor folders"
    served.asked.clear()
    assert checkpoint(served.url("micro"), with_weights=True) == found
    assert served.asked == [], "a second time nothing is fetched"


def test_the_size_of_weights_is_known_once_they_are_here(served: Served) -> None:
    assert weight_bytes(served.url("micro")) == 0
    checkpoint(served.url("micro"), with_weights=True)
    assert weight_bytes(served.url("micro")) == (BASE / "model.safetensors").stat().st_size


def test_a_url_that_got_other_files_gives_those(served: Served) -> None:
    first = checkpoint(served.url("micro"), with_weights=True)
    (served.root / "micro" / "generation_config.json").write_text('{"temperature": 0}')
    second = checkpoint(served.url("micro"), with_weights=True)
    assert first.digest() != second.digest()
    assert second.digest() == checkpoint(str(served.root / "micro"), with_weights=True).digest()


def test_a_model_without_safetensors_is_refused_before_anything_is_fetched(served: Served) -> None:
    (served.root / "micro" / "model.safetensors").unlink()
    with pytest.raises(EngineError, match=r"/micro has its weights as pytorch_model.bin, which can run code"):
        checkpoint(served.url("micro"), with_weights=True)
    assert served.asked == []


def test_a_missing_file_is_named_with_the_url(served: Served) -> None:
    (served.root / "micro" / "tokenizer.json").unlink()
    expected = rf'^the model folder "{served.address}/micro" has no tokenizer: none of'
    with pytest.raises(EngineError, match=expected):
        checkpoint(served.url("micro"), with_weights=True)


def test_a_url_without_a_model_is_refused(served: Served) -> None:
    for url in (served.url("absent"), served.url("")):
        with pytest.raises(EngineError, match=r"holds no file of a model, or does not exist|does not end in the name"):
            checkpoint(url, with_weights=True)


@pytest.mark.parametrize(
    "link", ["../evil.json", "x/../../../evil.json", "a\\b.json", "a\x1b[31m.json", "n" * 250 + ".json"]
)
def test_a_listing_with_names_that_lead_elsewhere_is_refused(link: str, served: Served, cache: Path) -> None:
    served.links = (link,)
    with pytest.raises(EngineError, match=r"which is not the name of a file in it; nothing is fetched$"):
        checkpoint(served.url("micro"), with_weights=True)
    assert served.asked == []


def test_an_index_that_names_files_elsewhere_is_refused(served: Served) -> None:
    folder = served.root / "micro"
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "../../model-1.safetensors"}}))
    for model in (served.url("micro"), str(folder)):
        with pytest.raises(EngineError, match=r"its model.safetensors.index.json names files outside of the folder"):
            checkpoint(model, with_weights=True)


def test_a_small_file_of_gigabytes_is_refused(served: Served) -> None:
    served.sizes["config.json"] = 2**31
    with pytest.raises(
        EngineError, match=r"config.json has 2,147,483,648 bytes, and such a file of a model has at most"
    ):
        checkpoint(served.url("micro"), with_weights=True)
    assert served.asked == []


def test_a_url_with_a_password_is_refused(served: Served) -> None:
    with pytest.raises(EngineError, match="the URL holds a user name or password") as refused:
        checkpoint(f"https://me:{SECRET}@host/model", with_weights=True)
    assert SECRET not in str(refused.value)


@pytest.mark.slow
def test_two_processes_at_once_fetch_each_file_once(served: Served, cache: Path) -> None:
    served.stalled = "model.safetensors"
    first = _started("models", "fetch", served.url("micro"))
    while "model.safetensors" not in served.num_gets():
        time.sleep(0.05)
    of_first = served.num_heads
    second = _started("models", "fetch", served.url("micro"))
    while served.num_heads < 2 * of_first:  # it knows what there is
        time.sleep(0.05)
    time.sleep(1)  # now it waits; if it did not, it would have time to fetch
    assert second.poll() is None
    served.released.set()
    said = [process.communicate() for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], said
    assert said[0][0] == said[1][0]
    assert said[1][1] == f"another process of this machine is fetching {served.url('micro')}; waiting for it\n"
    assert served.num_gets() == dict.fromkeys(MODEL_FILES, 1)


@pytest.mark.slow
def test_a_killed_fetch_keeps_the_files_that_came_whole(served: Served, cache: Path) -> None:
    served.stalled = "model.safetensors"
    killed = _started("models", "fetch", served.url("micro"))
    while "model.safetensors" not in served.num_gets():
        time.sleep(0.05)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    (listed,) = json.loads(_run("models", "list", "--format", "json")[1])
    assert (listed["weights"], listed["state"]) == (served.url("micro"), "a part")
    served.released.set()
    served.asked.clear()
    code, out, err = _run("models", "fetch", served.url("micro") + "/")
    assert code == 0, err
    assert served.num_gets() == {"model.safetensors": 1}
    assert f"sha256 {checkpoint(str(BASE), with_weights=True).digest()}" in out
    assert not list(cache.rglob("*.part"))


@pytest.mark.slow
def test_a_file_that_was_changed_here_is_fetched_again(served: Served, cache: Path) -> None:
    url = served.url("micro")
    assert _run("models", "fetch", url)[0] == 0
    file = _cached(cache, "model.safetensors")
    file.write_bytes(file.read_bytes()[:-1])
    served.asked.clear()
    assert _run("models", "fetch", url)[0] == 0
    assert served.num_gets() == {"model.safetensors": 1}
    assert file.read_bytes() == (BASE / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_verify_finds_what_was_changed(served: Served, cache: Path) -> None:
    url = served.url("micro")
    assert _run("models", "fetch", url)[0] == 0
    assert _run("models", "verify")[:2] == (0, f"ok       {url}\n")
    file = _cached(cache, "model.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    code, out, err = _run("models", "verify", url)
    assert (code, out) == (1, f"problem  {url}: model.safetensors was changed since it was fetched\n")
    assert err == "privsieve: 1 of 1 were changed; they will be fetched again\n"
    assert _run("models", "fetch", url)[0] == 0
    assert _run("models", "verify", url)[0] == 0


@pytest.mark.slow
def test_remove_takes_it_out_of_the_cache(served: Served, cache: Path) -> None:
    url = served.url("micro")
    assert _run("models", "fetch", url)[0] == 0
    assert _run("models", "rm", url)[:2] == (0, f"removed {url}, 2.8 MB\n")
    assert not list(cache.glob("weights/*/micro"))
    assert _run("models", "rm", url)[0] == 2
    assert _run("models", "list")[1] == "0 folders, 0 bytes\n"


def test_offline_uses_only_the_cache(served: Served, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = served.url("micro")
    monkeypatch.setenv("PRIVSIEVE_OFFLINE", "1")
    with pytest.raises(
        EngineError, match=rf"^PRIVSIEVE_OFFLINE is set, and {url} is not whole in the local cache; run privsieve"
    ):
        checkpoint(url, with_weights=True)
    monkeypatch.delenv("PRIVSIEVE_OFFLINE")
    found = checkpoint(url, with_weights=True)
    monkeypatch.setenv("PRIVSIEVE_OFFLINE", "1")
    (served.root / "micro").rename(served.root / "away")
    assert checkpoint(url, with_weights=True) == found
    _cached(cache, "tokenizer.json").unlink()
    with pytest.raises(EngineError, match=r"/micro is not whole in the local cache"):
        checkpoint(url, with_weights=True)


@pytest.mark.slow
def test_a_model_that_changes_while_it_is_fetched_is_not_used(served: Served, cache: Path) -> None:
    served.stalled = "model.safetensors"
    fetching = _started("models", "fetch", served.url("micro"))
    while "model.safetensors" not in served.num_gets():
        time.sleep(0.05)
    (served.root / "micro" / "config.json").write_text("{}")
    served.released.set()
    _, err = fetching.communicate()
    assert fetching.returncode == 2
    assert err.endswith(f"{served.url('micro')} was changed while it was fetched; run the same command again\n")
    assert json.loads(_run("models", "list", "--format", "json")[1]) == []


def test_the_cache_may_not_be_a_file(served: Served, cache: Path) -> None:
    cache.write_text("")
    with pytest.raises(EngineError, match=r"cannot lock files in .*set PRIVSIEVE_CACHE to a folder on a disk of this"):
        checkpoint(served.url("micro"), with_weights=True)


def test_the_hash_that_fetch_prints_is_that_of_run_json(served: Served, capsys: Capture) -> None:
    assert privsieve("models", "fetch", served.url("micro"), "--quiet") == 0
    digest = checkpoint(str(BASE), with_weights=True).digest()
    said = capsys.readouterr()
    assert said.out.startswith(f"{served.url('micro')}: 2.8 MB, sha256 {digest}, in ")
    assert said.err == ""
    file = _cached(Path(os.environ["PRIVSIEVE_CACHE"]), "config.json")
    entry = json.loads((file.parent.parent / "entry.json").read_bytes())
    assert entry["sha256"]["config.json"] == hashlib.sha256((BASE / "config.json").read_bytes()).hexdigest()
