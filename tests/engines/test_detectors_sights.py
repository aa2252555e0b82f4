"""What the detectors make of faces, codes, ridges and embedded data, without a model. All fictitious."""

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageDraw

from ingest.images.pixels import Pixels
from scoring.engines.detectors.faces import Face, face_findings
from scoring.engines.detectors.findings import ASSESSED, decide, embedded_findings
from scoring.engines.detectors.nudity import nudity_findings
from scoring.engines.detectors.without_model import Barcode, barcode_findings, is_fundus, ridge_share, scan_findings
from scoring.taxonomy import KEYS
from tests.engines.pages import HEIGHT, WIDTH, page, value


def face(width: float = 100, confidence: float = 0.9, sharpness: float = 200, flatness: float = 0.05) -> Face:
    return Face(100, 100, 100 + width, 100 + 1.3 * width, confidence, sharpness, flatness)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (face(), 1),
        (face(width=30, sharpness=30), 0.5),
        (face(sharpness=3), 0),  # blurred for anonymity
        (face(flatness=0.75), 0),  # a flat drawing
        (face(confidence=0.3), 0),
        (face(width=15), 0),
    ],
)
def test_only_recognisable_photographed_faces_are_biometric(seen: Face, expected: float) -> None:
    assert value(decide(face_findings([seen], (WIDTH, HEIGHT))), "biometrics") == expected


def test_nobody_is_classified() -> None:
    group = decide(face_findings([face(), face(95), face(98)], (WIDTH, HEIGHT)))
    assert value(group, "age") == value(group, "gender") == 1
    assert np.isnan(value(group, "race_ethnicity"))


def test_what_a_barcode_holds_is_known_by_its_form() -> None:
    area = (0.1, 0.1, 0.3, 0.3)
    contact = decide(barcode_findings([Barcode("BEGIN:VCARD\nFN:Ada Byron\nEND:VCARD", area)]))
    assert value(contact, "contact_details") == 1
    licence = decide(barcode_findings([Barcode("@\n\x1e\rANSI 636000090002DL", area)]))
    assert value(licence, "gov_ids") == 1
    goods = decide(barcode_findings([Barcode("4006381333931", area)]))
    assert value(goods, "non_unique_id") == 0
    assert value(goods, "documents") == 0.5


def test_embedded_coordinates_count_and_a_camera_model_does_not() -> None:
    assert value(decide(embedded_findings({"gps"})), "location") == 1
    assert value(decide(embedded_findings({"datetime"})), "metadata") == 0
    assert value(decide(embedded_findings({"camera", "copyright"})), "metadata") == 0


@pytest.mark.parametrize(("score", "expected"), [(0.05, 0), (0.2, 0.5), (0.79, 0.5), (0.8, 1)])
def test_nudity_follows_the_models_two_bounds(score: float, expected: float) -> None:
    assert value(decide(nudity_findings(score)), "nudity") == expected


def test_what_is_never_judged_is_null_and_what_was_not_found_is_absent_or_null() -> None:
    empty = decide([])
    never = [key for key in KEYS if key not in ASSESSED]
    assert len(never) == 5
    for key in [*never, "location", "medical_data", "beliefs", "age", "gender"]:
        assert np.isnan(value(empty, key)), key
    for key in ("biometrics", "gov_ids", "financial_data", "documents", "metadata"):
        assert value(empty, key) == 0, key


def test_ridges_that_turn_are_a_print_and_stripes_are_not() -> None:
    y, x = np.mgrid[:480, :400].astype(float)
    whorl = np.hypot((x - 200) * 1.3, y - 220) + 12 * np.sin(y / 70)
    share, spread = ridge_share(_grey(127 + 110 * np.sin(whorl / 1.6)))
    assert share > 0.75
    assert spread > 0.4
    _, spread = ridge_share(_grey(127 + 110 * np.sin(x / 1.6)))
    assert spread < 0.1
    share, _ = ridge_share(_grey(np.random.default_rng(1).uniform(0, 255, (480, 400))))
    assert share < 0.2


def disc(vessels: int) -> Pixels:
    """An orange disc on black, crossed by thin darker lines."""
    picture = Image.new("RGB", (400, 400))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((4, 4, 395, 395), fill=(200, 90, 50))
    for index in range(vessels):
        draw.arc((40 * index - 150, 30, 40 * index + 200, 370), -80, 80, fill=(150, 45, 30), width=4)
    picture.paste(Image.new("RGB", (400, 400)), mask=Image.fromarray(~_inside()))
    return np.asarray(picture)


def _inside() -> npt.NDArray[np.uint8]:
    y, x = np.mgrid[:400, :400]
    return np.where((x - 200) ** 2 + (y - 200) ** 2 < 196**2, 255, 0).astype(np.uint8)


def test_the_back_of_an_eye_has_vessels_and_an_orange_has_none() -> None:
    assert is_fundus(disc(vessels=7))
    assert not is_fundus(disc(vessels=0))
    assert not is_fundus(_grey(np.full((300, 300), 120.0)))


def test_a_radiograph_counts_where_it_tells_the_patient() -> None:
    dark = _grey(np.concatenate([np.zeros((200, 300)), np.full((100, 300), 150.0)]))
    result = [f.attribute for f in scan_findings(dark, page("OKAFOR HARRIET [F]", "DOB:07.22.1943"))]
    assert result == ["medical_data"]
    assert scan_findings(dark, page("GOOD NIGHT")) == []


def _grey(values: npt.NDArray[np.float64]) -> Pixels:
    return np.repeat(values.clip(0, 255).astype(np.uint8)[:, :, None], 3, axis=2)
