"""`--vllm-option NAME=VALUE`: a checked list, refused in one line, without vLLM."""

from pathlib import Path

import pytest

from ingest.errors import EngineError
from scoring.engines.vlm.vllm.options import VllmOptions, vllm_options
from tests.jobs.made import privsieve


def test_values_are_read_by_their_types() -> None:
    given = ("max_num_batched_tokens=16384", "gpu_memory_utilization=0.45", "enforce_eager=True")
    found = vllm_options((*given, "performance_mode=throughput", "quantization=fp8"))
    assert found == {
        "max_num_batched_tokens": 16384,
        "gpu_memory_utilization": 0.45,
        "enforce_eager": True,
        "performance_mode": "throughput",
        "quantization": "fp8",
    }
    assert found["enforce_eager"] is True
    assert vllm_options(None) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("max_num_seq=8",), '"max_num_seq" (did you mean "max_num_seqs"?); there are: max_num_batched_tokens, '),
        (("trust_remote_code=true",), 'unknown --vllm-option "trust_remote_code"'),
        (("max_num_seqs",), '--vllm-option "max_num_seqs": give NAME=VALUE, such as max_num_seqs=512'),
        (("max_num_seqs=many",), '--vllm-option max_num_seqs="many": input should be a valid integer'),
        (("max_num_seqs=\x1b[2J" + 99 * "7",), '--vllm-option max_num_seqs="\\x1b[2J' + 73 * "7" + '": input'),
        (("\x1b[2J",), '--vllm-option "\\x1b[2J": give NAME=VALUE'),
        (("\x1b[2J=1",), 'unknown --vllm-option "\\x1b[2J"'),
        (("max_num_seqs=0",), '--vllm-option max_num_seqs="0": input should be greater than or equal to 1'),
        (("gpu_memory_utilization=1.5",), "input should be less than or equal to 1"),
        (("gpu_memory_utilization=nan",), "input should be less than or equal to 1"),
        (("enforce_eager=many",), "input should be a valid boolean"),
        (("performance_mode=fast",), "input should be 'balanced' or 'throughput'"),
        (("cudagraph_mode=FULL",), "input should be 'none', 'piecewise', 'full' or 'full_and_piecewise'"),
        (("max_num_seqs=1", "max_num_seqs=2"), "--vllm-option max_num_seqs is given twice"),
    ],
)
def test_what_is_no_such_option_is_refused_in_one_line(given: tuple[str, ...], message: str) -> None:
    with pytest.raises(EngineError) as refused:
        vllm_options(given)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engine", "vllm", "--model", "owner/name", "--vllm-option", "max_seqs=1"), 'vllm-option "max_seqs"'),
        (("--engine", "vllm"), "the vllm engine needs --model"),
        (("--engine", "transformers", "--model", "owner/name", "--dtype", "int4"), 'unknown --dtype "int4"'),
        (("--engine", "openai", "--model", "name"), "the openai engine needs --endpoint"),
        (("--engine", "canned", "--protocol", "json"), "the canned engine takes no --protocol"),
    ],
)
def test_a_wrong_option_is_found_without_vllm_and_before_shards_are_listed(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("scan", tmp_path / "no-such-corpus", "--run", tmp_path / "run", *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_each_option_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
    assert [name for name in VllmOptions.model_fields if f"\n| `{name}` | " not in text] == []
