"""`privsieve doctor`: a line for everything that a scan needs, on this machine as it is; and nothing left behind."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.errors import PrivsieveError
from ingest.machine import install_command, num_cores
from jobs.runtime.checks import Gpu, ProblemError, check_gpu, gpus, gpus_of
from jobs.runtime.machines import gpus_of_engine
from jobs.scanning.diagnosis import DoctorRequest, run_doctor
from scoring.assessment import EngineOptions
from scoring.engine_facts import LocalModel
from tests.engines.chat_server import SECRET, ChatServer
from tests.jobs.made import privsieve, tar
from tests.making import Capture, Patch


@pytest.fixture
def server() -> Iterator[ChatServer]:
    running = ChatServer()
    yield running
    running.close()


def examined(capsys: Capture, *args: object) -> tuple[int, dict[str, tuple[str, str]], str]:
    """Exit code, name of a check -> (ok or problem, the text), the line at the end."""
    code = privsieve("doctor", *args)
    output = capsys.readouterr()
    found = {}
    for line in output.out.splitlines():
        verdict, name, text = line.split(maxsplit=2)
        assert verdict in ("ok", "problem")
        found[name] = (verdict, text)
    assert "Traceback" not in output.out + output.err
    return code, found, output.err.strip()


def test_all_is_well_for_a_scan(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    run = tmp_path / "new" / "run"
    code, found, end = examined(capsys, "--source", corpus, "--run", run)
    assert {name: text for name, (verdict, text) in found.items() if verdict == "problem"} == {}
    assert (code, end) == (0, "")
    assert list(found) == ["python", "packages", "cores", "gpu", "memory", "engine", "source", "run"]
    assert found["cores"][1].startswith(f"{num_cores()} core")
    assert found["engine"][1].startswith("detectors, detectors-")
    assert found["engine"][1].endswith("; tesseract none: only Latin, Chinese and Japanese script is read")
    assert found["source"][1] == "webdataset, 2 shards; the first sample is quarantined (not_an_image)"
    assert found["run"][1] == "new, can be written"
    assert not (tmp_path / "new").exists()


def test_an_existing_run_is_probed_and_left_as_it_was(scanned: Path, capsys: Capture) -> None:
    before = {file: file.stat().st_mtime_ns for file in scanned.rglob("*") if file.is_file()}
    code, found, end = examined(capsys, "--engine", "canned", "--run", scanned)
    assert found["run"] == ("ok", "an existing run, can be written")
    assert {file: file.stat().st_mtime_ns for file in scanned.rglob("*") if file.is_file()} == before
    assert (code, end) == (0, "")


@pytest.mark.slow
def test_places_that_cannot_be_used(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("not a run")
    tar(tmp_path / "empty.tar", {})
    run, source = tmp_path / "file" / "run", tmp_path / "nowhere"
    _, found, _ = examined(capsys, "--engine", "canned", "--run", run, "--source", source)
    assert found["run"][0] == found["source"][0] == "problem"
    assert "/file/run/doctor-" in found["run"][1]
    assert "not a directory" in found["run"][1]
    assert found["source"][1] == f"{source} does not exist"
    _, found, end = examined(
        capsys, "--engine", "canned", "--run", tmp_path / "other", "--source", tmp_path / "empty.tar"
    )
    assert found["run"] == (
        "problem",
        f"{tmp_path}/other holds other files and is not a run; use a new folder for --run",
    )
    assert found["source"][1] == f"{tmp_path}/empty.tar holds no sample in 1 shard"
    assert end.endswith("2 of 8 checks found a problem: source, run")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["letter.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_may_not_be_written(tmp_path: Path, capsys: Capture) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    _, found, _ = examined(capsys, "--engine", "canned", "--run", locked / "run")
    assert found["run"][0] == "problem"
    assert "permission denied" in found["run"][1]


def test_drivers_and_passwords_of_stores(capsys: Capture) -> None:
    places = ("--source", "gs://bucket/shards", "--run", f"s3://me:{SECRET}@bucket/run")
    code, found, end = examined(capsys, "--engine", "canned", *places)
    assert found["source"] == (
        "problem",
        f"cannot reach gs://bucket/shards: the driver for gs:// is not installed; {install_command('gs')}",
    )
    assert "give credentials by the environment" in found["run"][1]
    assert SECRET not in json.dumps(found) + end
    assert code == 1


@pytest.mark.slow
def test_a_model_that_is_not_there(capsys: Capture) -> None:
    _, found, _ = examined(capsys, "--engine", "transformers", "--model", "no/such/folder")
    assert found["engine"][1].startswith('the model folder "no/such/folder" does not exist; give a folder')
    _, found, _ = examined(capsys, "--engine", "transformers")
    assert found["engine"][1].startswith("the transformers engine needs --model")


@pytest.mark.slow
def test_an_endpoint(server: ChatServer, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.delenv("PRIVSIEVE_OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    asked = ("--engine", "openai", "--endpoint", server.url, "--model")
    _, found, _ = examined(capsys, *asked, "tiny-vl")
    assert found["endpoint"] == ("ok", "answers; a key is set; pictures and key travel unencrypted")
    _, found, _ = examined(capsys, *asked, "tiny-lv")
    assert found["endpoint"][0] == "problem"
    assert found["endpoint"][1].startswith(f'{server.url} does not know the model "tiny-lv", or is not a chat endpoint')
    server.keys = frozenset(["Bearer right"])
    _, found, _ = examined(capsys, *asked, "tiny-vl")
    assert "refuses access (401): the key is not accepted; set PRIVSIEVE_OPENAI_API_KEY" in found["endpoint"][1]
    assert SECRET not in json.dumps(found)


def test_a_function_returns_what_the_command_prints(capsys: Capture) -> None:
    before = dict(os.environ)
    found = run_doctor(DoctorRequest(engine="canned", source="/nowhere"))
    assert os.environ == before
    assert capsys.readouterr() == ("", "")
    assert [finding.check for finding in found if not finding.is_ok] == ["source"]


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_a_machine_without_a_gpu() -> None:
    assert check_gpu("canned", None) == "none found; the canned engine needs none"
    model = LocalModel(num_gpus=1, weight_bytes=10**9, cpu_memory_bytes=0, without_gpu=None)
    assert check_gpu("some", model) == "none found; the model runs on the CPU, slowly"
    with pytest.raises(ProblemError, match=r"^none found, and some needs one: buy one$"):
        check_gpu("some", replace(model, without_gpu="buy one"))


NVIDIA_SMI = """#!/bin/sh
# Eight GPUs, of which another program has filled the last.
for option; do case $option in --id=*) ids=$(echo "${option#--id=}" | tr , ' ') ;; esac; done
for id in ${ids:-0 1 2 3 4 5 6 7}; do
  if [ "$id" = 7 ]; then echo "NVIDIA L40S, 580.95.05, 46068, 100"; else echo "NVIDIA L40S, 580.95.05, 46068, 45000"; fi
done
"""


@pytest.fixture
def eight_gpus(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


LARGE = LocalModel(num_gpus=1, weight_bytes=30 * 2**30, cpu_memory_bytes=0, without_gpu=None)


@pytest.mark.usefixtures("eight_gpus")
def test_only_the_gpus_that_a_task_was_given_are_looked_at(monkeypatch: Patch) -> None:
    with pytest.raises(ProblemError, match=r"^8 x NVIDIA L40S, .* of which 100 MiB are free; the weights take 30,720"):
        check_gpu("some", LARGE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(ProblemError, match=r"^1 x NVIDIA L40S, .* of which 100 MiB are free"):
        check_gpu("some", LARGE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    assert [gpu.free_mib for gpu in gpus()] == [45_000, 45_000]
    with pytest.raises(ProblemError, match=r"^2 x NVIDIA L40S, .* but --tensor-parallel-size is 4; lower it"):
        check_gpu("some", replace(LARGE, num_gpus=4))
    for nothing in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", nothing)
        assert check_gpu("some", LARGE) == "none found; the model runs on the CPU, slowly"


def test_a_model_that_is_spread_over_two_gpus_gets_both() -> None:
    spread = EngineOptions(tensor_parallel_size=2)
    assert [gpus_of_engine("vllm", spread, wanted) for wanted in (None, 0, 2, 4)] == [2, 0, 2, 4]
    for too_few in (0.5, 1):
        with pytest.raises(
            PrivsieveError, match=rf"^--engine-gpus {too_few}: the model is spread over 2 GPUs .*; give 2"
        ):
            gpus_of_engine("vllm", spread, too_few)


@pytest.mark.usefixtures("eight_gpus")
def test_weights_that_exceed_the_share_of_a_gpu(monkeypatch: Patch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(
        ProblemError, match=r"weights take 30,720 MiB, more than --engine-gpus 0.5 of it: give a larger"
    ):
        check_gpu("some", LARGE, 0.5)


def test_what_nvidia_smi_lists() -> None:
    listed = "NVIDIA H200, 580.95.05, 143771, 143190\nNVIDIA GB10, 580.95.05, [N/A], [N/A]\n"
    first, second = gpus_of(listed)
    assert first == Gpu("NVIDIA H200", "580.95.05", 143_771, 143_190)
    assert (second.memory_mib, second.free_mib > 10**9) == (0, True)
    assert gpus_of("") == []
