"""The detectors with OpenVINO, which only this environment has, against onnxruntime."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.errors import EngineError
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from jobs.scanning.engine_host import _refuse_other_packages
from scoring import openvino
from scoring.assessment import Assessment, EngineOptions, View
from scoring.engines import detectors
from scoring.engines.detectors.glance import Glance, thumbnail
from scoring.engines.detectors.ocr import TextReader
from scoring.privacy import IS_DECISIVE
from tests.engines.pages import CORPUS, drawn
from tests.making import Patch

library = pytest.importorskip("openvino", reason="the openvino extra is not installed")
HAS_BFLOAT16 = "BF16" in library.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")

DECODED = (decode(path.read_bytes(), ImageLimits(max_side_px=800)) for path in sorted(CORPUS.rglob("*.*g")))
DEMO = [View(image.views[0], image.metadata, "") for image in DECODED if isinstance(image, DecodedImage)]


@pytest.fixture(autouse=True)
def with_openvino(monkeypatch: Patch) -> None:
    """Also where the processor has bfloat16 without AMX: there OpenVINO takes more time."""
    if not HAS_BFLOAT16:
        pytest.skip("the processor has no bfloat16")
    monkeypatch.setattr(openvino, "in_use", lambda: f"{version('openvino')} bf16")


@contextmanager
def onnxruntime_alone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openvino, "in_use", lambda: None)
        yield


def answers() -> list[Assessment]:
    outcomes = detectors.load(EngineOptions()).assess(DEMO)
    assert all(isinstance(outcome, Assessment) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, Assessment)]


def face_areas(some: list[Assessment]) -> np.ndarray:
    boxes = [box for answer in some for box in answer.boxes if box.kind.startswith("face")]
    return np.array([(box.x_min, box.y_min, box.x_max, box.y_max) for box in boxes])


def test_the_demo_pictures_get_the_same_answers() -> None:
    by_openvino = answers()
    with onnxruntime_alone():
        by_onnxruntime = answers()
    values, others = (np.array([answer.values for answer in some]) for some in (by_openvino, by_onnxruntime))
    assert np.mean((values == others) | (np.isnan(values) & np.isnan(others))) >= 0.98
    private, also_private = (np.nan_to_num(some[:, IS_DECISIVE]).max(axis=1) > 0 for some in (values, others))
    assert private.tolist() == also_private.tolist()
    assert private.any()
    assert not private.all()
    assert face_areas(by_openvino) == pytest.approx(face_areas(by_onnxruntime), abs=0.03)
    assert len(face_areas(by_openvino)) >= 3


def test_each_network_is_openvinos_and_computes_in_bfloat16(monkeypatch: Patch) -> None:
    opened = dict[str, Any]()

    def recorded(file: Path, *padding: Any) -> openvino.OpenVinoNetwork:
        made = network(file, *padding)
        opened[file.name] = padding, made
        return made

    network = openvino.OpenVinoNetwork
    monkeypatch.setattr(openvino, "OpenVinoNetwork", recorded)
    detectors.load(EngineOptions())
    assert set(opened) == set(detectors.describe(EngineOptions()).weights)
    assert {name for name, (padding, _) in opened.items() if "constant" in padding} == {"PP-OCRv6_rec_small.onnx"}
    for _, made in opened.values():
        compiled = made._request.get_compiled_model()
        assert compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name() == "bf16"


@pytest.mark.parametrize("size", [(1500, 110), (740, 190), (130, 700)])
def test_pictures_of_any_shape_are_read_where_their_text_is(size: tuple[int, int]) -> None:
    """Wide ones are searched by rapidocr's own method; none of these has the sides of a shape that is padded to."""
    page = drawn(["Harriet Okafor"] * (size[1] // 60), size)
    lines = TextReader().read(page)
    with onnxruntime_alone():
        expected = TextReader().read(page)
    assert [line.text.strip() for line in lines] == [line.text.strip() for line in expected]
    assert np.allclose([line.area for line in lines], [line.area for line in expected], atol=0.05)


def test_the_numbers_that_a_screen_has_learnt_are_the_same_with_openvino() -> None:
    small = [thumbnail(view.pixels, 400) for view in DEMO]
    with ThreadPoolExecutor(4) as threads:
        numbers = list(threads.map(Glance().numbers, small))
    with onnxruntime_alone():
        assert np.array_equal(numbers, list(map(Glance().numbers, small)))


def test_the_run_says_which_openvino_and_which_precision() -> None:
    description = detectors.describe(EngineOptions())
    assert description.versions["openvino"] == f"{version('openvino')} bf16"
    assert "PP-OCRv6_det_small.onnx" in description.weights
    assert len(description.weights) == 5
    with onnxruntime_alone():
        alone = detectors.describe(EngineOptions())
        assert alone.versions["openvino"] == "none"
        assert "PP-OCRv6_det_small_int8.onnx" in alone.weights
        with pytest.raises(EngineError, match=r"openvino is \d.* where the engine was described, and none here"):
            _refuse_other_packages(description.versions)
    with pytest.raises(EngineError, match=r"openvino is none where the engine was described, and \d.* here"):
        _refuse_other_packages(alone.versions)


@pytest.mark.parametrize(("flags", "is_used"), [("fpu amx_bf16 amx_int8", True), ("fpu avx512_bf16", False)])
def test_openvino_is_used_where_the_processor_has_amx(
    monkeypatch: Patch, tmp_path: Path, flags: str, is_used: bool
) -> None:
    monkeypatch.undo()
    processors = tmp_path / "cpuinfo"
    processors.write_text(f"processor: 0\nflags: {flags}\n")
    monkeypatch.setattr(openvino, "_PROCESSORS", processors)
    assert openvino.in_use.__wrapped__() == (f"{version('openvino')} bf16" if is_used else None)


def test_openvino_calls_nobody_and_writes_nothing_into_the_home_folder(tmp_path: Path) -> None:
    script = (
        "from scoring.engines.detectors.models import checked_path; from scoring.openvino import OpenVinoNetwork; "
        "OpenVinoNetwork(checked_path('centerface.onnx'))"
    )
    subprocess.run([sys.executable, "-c", script], env=os.environ | {"HOME": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []


def test_an_openvino_that_cannot_be_loaded_is_one_clear_line(monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(EngineError, match="OpenVINO cannot be loaded: install the package openvino again, or remove"):
        detectors.load(EngineOptions())
