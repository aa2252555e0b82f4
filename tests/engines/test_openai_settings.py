"""Settings of the openai engine: which of them a run keeps, and which are refused."""

from typing import Any

import pytest

from ingest.errors import EngineError
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from scoring.taxonomy import KEYS
from tests.engines.chat_server import SECRET
from tests.making import Patch


def test_what_run_json_tells(monkeypatch: Patch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    options = EngineOptions(endpoint="https://models.example.org/v1/", model="some/model")
    found = engine_module("openai").describe(options)
    assert found.protocol.startswith("json-1 ")
    assert found.protocol.endswith(
        ", model some/model at https://models.example.org/v1, 262144 pixels, JPEG quality 95"
    )
    assert (found.assessed, found.max_side_px, found.num_gpus) == (KEYS, 1024, 0)
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"endpoint": None}, "the openai engine needs --endpoint: the base URL"),
        ({"model": None}, "the openai engine needs --model"),
        ({"protocol": "binary:first"}, "the binary:ours-1,first protocol needs the probabilities of chosen"),
        ({"protocol": "slots"}, "the slots protocol reads probabilities inside of the prompt"),
        ({"protocol": "jsn"}, 'unknown protocol "jsn" (did you mean "json"?)'),
        ({"adapter": "folder"}, "the openai engine takes no --adapter"),
        ({"tensor_parallel_size": 2}, "the openai engine takes no --tensor-parallel-size"),
        ({"endpoint": "ftp://host/v1"}, '--endpoint "ftp://host/v1" is not an http or https URL'),
        ({"endpoint": "localhost:8000"}, '--endpoint "localhost:8000" is not an http or https URL'),
        ({"endpoint": "http://host:port/v1"}, "--endpoint is not a valid URL"),
        ({"endpoint": f"https://me:{SECRET}@host/v1"}, "--endpoint holds a user name or password"),
        ({"endpoint": f"https://host/v1?key={SECRET}"}, "--endpoint must end with its path"),
    ],
)
def test_a_wrong_option_is_one_line(expected: dict[str, Any], message: str) -> None:
    options = EngineOptions(**({"endpoint": "http://127.0.0.1:1/v1", "model": "tiny-vl"} | expected))
    with pytest.raises(EngineError) as wrong:
        engine_module("openai").describe(options)
    assert str(wrong.value).startswith(message)
    assert SECRET not in str(wrong.value)
    assert len(str(wrong.value).splitlines()) == 1
