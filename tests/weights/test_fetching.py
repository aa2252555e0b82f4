"""Weights of a URL: what is fetched, what is refused, and what a fetched model is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import privsieve as privsieve_api
from ingest.errors import EngineError
from jobs.runtime.progress import Feedback, Meter
from jobs.runtime.weights import fetch_weights
from scoring.engines.vlm.checkpoint import checkpoint, weight_bytes
from tests.jobs.made import privsieve
from tests.making import Capture, Patch
from tests.recorded import RecordedMeter
from tests.weights.served import BASE, Served

MODEL_FILES = {
    *("chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "processor_config.json"),
    *("tokenizer.json", "tokenizer_config.json"),
}


def _started(*command: object) -> subprocess.Popen[str]:
    """A command in a process of its own, which holds what it uses until it ends."""
    words = [sys.executable, "-m", "jobs", *map(str, command)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_fetch_ends_at_a_signal_and_keeps_the_files_that_came_whole(
    sent: signal.Signals, served: Served, cache: Path
) -> None:
    served.stalled = "model.safetensors"
    killed = _started("models", "fetch", served.url("micro"))
    while "model.safetensors" not in served.num_gets():
        time.sleep(0.05)
    os.kill(killed.pid, sent)
    killed.communicate(timeout=30)
    (listed,) = privsieve_api.cached_weights()
    assert (listed.source, listed.is_whole) == (served.url("micro"), False)
    served.released.set()
    served.asked.clear()
    checkpoint(served.url("micro") + "/", with_weights=True)
    assert served.num_gets() == {"model.safetensors": 1}
    assert _cached(cache, "model.safetensors").read_bytes() == (BASE / "model.safetensors").read_bytes()
    assert not list(cache.rglob("*.part"))


def test_verify_finds_changed_files_fetch_mends_them_and_rm_removes_all(
    served: Served, cache: Path, capsys: Capture
) -> None:
    url = served.url("micro")

    def said(*command: object) -> tuple[int, str, str]:
        return privsieve("models", *command), *capsys.readouterr()

    assert said("fetch", url, "--quiet")[0] == 0
    assert said("verify") == (0, f"ok       {url}\n", "")
    file = _cached(cache, "model.safetensors")
    slot, content = file.parents[1], file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert said("verify", url) == (
        1,
        f"problem  {url}: model.safetensors was changed since it was fetched\n",
        "privsieve: 1 of 1 were changed; they will be fetched again\n",
    )
    assert said("verify", url) == (0, f"a part   {url}\n", "")
    (listed,) = json.loads(said("list", "--format", "json")[1])
    assert (listed["state"], listed["num_bytes"]) == ("a part", sum(f.stat().st_size for f in file.parent.iterdir()))
    served.asked.clear()
    assert said("fetch", url, "--quiet")[0] == 0
    file.write_bytes(content[:-1])  # a size that differs is seen without verify
    assert said("fetch", url, "--quiet")[0] == 0
    assert served.num_gets() == {"model.safetensors": 2}
    assert file.read_bytes() == content
    assert said("rm", url) == (0, f"removed {url}, 2.8 MB\n", "")
    assert not list(cache.glob("weights/*/micro"))
    assert said("rm", url)[0] == 2
    assert said("list") == (0, "0 folders, 0 bytes\n", "")
    slot.mkdir()
    (slot / "entry.json").write_text("{")
    problem = f"entry.json is damaged in these folders; delete them: {slot}\n"
    assert said("list") == (0, "0 folders, 0 bytes\n", problem)
    assert said("verify") == (1, "", f"privsieve: {problem}")


def test_offline_uses_only_the_cache(served: Served, cache: Path, monkeypatch: Patch) -> None:
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
    assert privsieve_api.cached_weights() == []


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


def test_python_fetches_and_lists_without_a_word(served: Served, capfd: Capture) -> None:
    fetched = privsieve_api.fetch_weights(served.url("micro"))
    assert fetched.sha256 == checkpoint(str(BASE), with_weights=True).digest()
    assert (fetched.name, fetched.asked) == ("micro", served.url("micro"))
    (listed,) = privsieve_api.cached_weights()
    assert (listed.folder, listed.num_bytes, listed.is_whole) == (fetched.folder, fetched.num_bytes, True)
    assert capfd.readouterr() == ("", "")


def test_the_bytes_that_came_are_shown_in_pieces_and_nothing_where_all_is_here(
    served: Served, cache: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("scoring.weights.cache.REQUEST_BYTES", 2**19)
    meters = list[RecordedMeter]()

    @contextmanager
    def meter(label: str, num_images: int | None) -> Iterator[Meter]:
        meters.append(RecordedMeter(label, num_images))
        yield meters[-1]

    for _ in range(2):
        fetch_weights(served.url("micro"), Feedback(meter, lambda line: None))
    (shown,) = meters
    texts = [text for text, is_logged in shown.phases if not is_logged]
    assert [text for text, is_logged in shown.phases if is_logged] == ["fetching micro, 2.8 MB"]  # a line in a log
    assert "fetching micro: 1.7 MB of 2.8 MB" in texts
    assert texts[-1] == "fetching micro: 2.8 MB of 2.8 MB"
    assert _cached(cache, "model.safetensors").read_bytes() == (BASE / "model.safetensors").read_bytes()
