"""What needs a model of the user's or the detectors: LPIPS, and the second look."""

import json
from pathlib import Path

import numpy as np
import pytest

from ingest.errors import EngineError
from scoring.similarity.encoders import Lpips
from tests.jobs.made import privsieve
from tests.similarity.made import folder

DEMO = Path(__file__).parents[2] / "jobs" / "demo" / "corpus" / "tree"


def _field(number: int, content: bytes | int) -> bytes:
    """A field of a protobuf message, of fewer than 128 bytes or a number below 128."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    length = [len(content)] if len(content) < 128 else [len(content) & 127 | 128, len(content) >> 7]
    return bytes([number << 3 | 2, *length]) + content


def _value(name: str) -> bytes:
    """A ValueInfoProto of floats with four dimensions of any length."""
    shape = b"".join(_field(1, _field(2, f"{name}{n}".encode())) for n in range(4))
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, 1) + _field(2, shape)))


def _node(kind: str, inputs: str, output: str) -> bytes:
    return b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode()) + _field(4, kind.encode())


def mean_square_model(path: Path, inputs: str = "ab") -> Path:
    """An ONNX model (onnx.proto): the mean of (a − b)², as LPIPS with one layer of pixels would have it."""
    nodes = (
        _node("Sub", "ab" if len(inputs) == 2 else "aa", "d"),
        _node("Mul", "dd", "s"),
        _node("ReduceMean", "s", "y"),
    )
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"g")
    graph += b"".join(_field(11, _value(name)) for name in inputs) + _field(12, _value("y"))
    path.write_bytes(_field(1, 8) + _field(8, _field(2, 13)) + _field(7, graph))
    return path


def test_lpips_is_given_both_pictures_from_minus_one_to_one(tmp_path: Path) -> None:
    lpips = Lpips(mean_square_model(tmp_path / "lpips.onnx"))
    black, white = np.zeros((70, 80, 3), np.uint8), np.full((70, 80, 3), 255, np.uint8)
    assert lpips.distance(black, white) == pytest.approx(4)
    assert lpips.distance(white, white) == 0
    assert lpips.distance(black[:5, :7], white[:5, :7]) == pytest.approx(4), "a small picture is enlarged"


def test_a_model_with_one_input_is_no_lpips(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="it has not two inputs and one output"):
        Lpips(mean_square_model(tmp_path / "other.onnx", inputs="a"))


def test_compare_shows_lpips_where_a_model_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, originals = mean_square_model(tmp_path / "lpips.onnx"), folder(tmp_path / "originals", 2)
    command = ("similarity", "compare", originals, "--method", "invert", "--lpips", model, "--quiet")
    assert privsieve(*command, "--format", "json") == 0
    means = json.loads(capsys.readouterr().out)["sets"][0]["means"]
    assert means["lpips"] == pytest.approx(means["mse"] * 4 / 255**2, rel=1e-4)
    assert privsieve(*command) == 0
    text = capsys.readouterr().out
    assert "LPIPS is not available" not in text
    assert " LPIPS " in text


@pytest.mark.slow
def test_detectors_find_faces_below_noise_and_none_below_a_box(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = ("--method", "noise=10", "--method", "solid=100", "--look-again")
    arguments = ("--sample", 2, "--format", "json", "--quiet")
    assert privsieve("similarity", "compare", DEMO / "portrait", *methods, *arguments) == 0
    noisy, black = json.loads(capsys.readouterr().out)["sets"]
    assert noisy["num_detected_in"] == black["num_detected_in"] == 2
    assert noisy["still_detected"] > 0.5
    assert black["still_detected"] == 0
