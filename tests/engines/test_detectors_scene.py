"""What the detectors make of people, vehicles and things that were found, without a model; and of licence plates."""

from dataclasses import replace

import numpy as np
import pytest

from scoring.assessment import Assessment
from scoring.engines.detectors.faces import Face
from scoring.engines.detectors.findings import decide
from scoring.engines.detectors.objects import Thing
from scoring.engines.detectors.page import Page
from scoring.engines.detectors.scene import (
    human_faces,
    is_plate,
    plate_findings,
    plates_in_close_up,
    scene_findings,
    vehicles_to_read,
)
from tests.engines.pages import HEIGHT, WIDTH, line, page, value

SIZE = (WIDTH, HEIGHT)
BICYCLE, CAR, BOAT, DOG, HORSE, SUITCASE, RACKET, BOTTLE, CUP, COMPUTER = 1, 2, 8, 16, 17, 28, 38, 39, 41, 63


def thing(kind: int, x: float, y: float, width: float, height: float, confidence: float = 0.8) -> Thing:
    """Its top left is at x, y pixels."""
    return Thing(x, y, x + width, y + height, confidence, kind)


def person(x: float, height: float = 600, y: float = 100, confidence: float = 0.8) -> Thing:
    return thing(0, x, y, height / 3, height, confidence)


def face(of: Thing, flatness: float = 0.05) -> Face:
    return Face(of.x_min + 20, of.y_min + 10, of.x_min + 90, of.y_min + 100, 0.9, 200, flatness)


def face_at(x: float, width: float, confidence: float = 0.9) -> Face:
    return Face(x, 150, x + width, 150 + 1.3 * width, confidence, 200, 0.05)


def seen(*things: Thing, faces: tuple[Face, ...] = ()) -> Assessment:
    return decide(scene_findings(things, faces, SIZE))


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        ([person(100)], 0),
        ([person(100), person(500, 580)], 0),  # two who pose together
        ([person(100), person(500, 150, 300)], 1),  # one far behind the other
        ([person(100 + 200 * place) for place in range(4)], 0),  # a group that poses
        ([person(100 + 200 * place, 300) for place in range(4)], 1),  # a crowd
        ([person(100 + 150 * place, 100, confidence=0.4) for place in range(5)], 1),
        ([person(100 + 150 * place, 100, confidence=0.4) for place in range(4)], 0),
        ([person(100, 300), thing(CAR, 500, 300, 300, 200)], 0.5),
        ([person(100, 200), thing(CAR, 500, 300, 300, 200)], 1),  # a passer-by
        ([person(100, 200), person(300, 190), thing(CAR, 500, 300, 300, 200)], 1),
        ([person(100, 600), thing(CAR, 500, 300, 300, 200)], 0),  # the owner beside it
        ([person(100, 0.19 * HEIGHT)], 0.5),  # alone, but far away
        ([person(100, 0.21 * HEIGHT)], 0),
    ],
)
def test_bystanders_are_people_far_behind_in_crowds_and_in_traffic(things: list[Thing], expected: float) -> None:
    assert value(seen(*things), "background_people") == expected


@pytest.mark.parametrize(
    ("faces", "expected"),
    [
        ([face_at(100, 100)], 0),
        ([face_at(100, 100), face_at(300, 95), face_at(500, 98)], 0),
        ([face_at(100, 100), face_at(300, 30), face_at(500, 28)], 1),
        ([face_at(100, 100), face_at(300, 30)], 0.5),
        ([face_at(100 + 60 * place, 30) for place in range(6)], 1),  # a crowd: nobody is large enough to pose
        ([face_at(100 + 60 * place, 30) for place in range(5)], 0),
    ],
)
def test_bystanders_are_faces_much_smaller_than_the_largest_and_crowds(faces: list[Face], expected: float) -> None:
    assert value(seen(faces=tuple(faces)), "background_people") == expected


def test_a_group_at_a_table_has_no_bystanders_though_some_sit_and_some_stand() -> None:
    together = [person(100), person(400, 300, 250), person(700, 320, 250)]
    faces = [face_at(150, 90), face_at(430, 80), face_at(730, 85)]
    faces[1:] = [replace(each, y_min=260, y_max=350) for each in faces[1:]]
    assert value(seen(*together, faces=tuple(faces)), "background_people") == 0
    assert value(seen(*together, faces=tuple(faces[:2])), "background_people") == 1  # one has no face
    small = [replace(each, x_max=each.x_min + 40) for each in faces]
    assert value(seen(*together, faces=tuple(small)), "background_people") == 1
    heads = (face_at(500, 25, confidence=0.3), face_at(600, 25, confidence=0.3))
    assert value(seen(faces=(*faces[:2], *heads)), "background_people") == 1  # people behind a couple
    behind = [person(100 + 150 * place, 100, confidence=0.4) for place in range(5)]  # the model is sure of none of them
    assert value(seen(*behind, faces=(face_at(150, 90), face_at(430, 85))), "background_people") == 1


def test_the_face_of_an_animal_is_nobodys_unless_a_person_is_there() -> None:
    dog, rider = thing(DOG, 100, 100, 400, 400), person(150, 300)
    own, other = face_at(200, 90), face_at(800, 90)
    assert human_faces([own, other], [dog]) == [other]
    assert human_faces([own, other], [dog, rider]) == [own, other]
    assert human_faces([own], []) == [own]
    assert human_faces([own], [replace(dog, confidence=0.4)]) == [own]


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        ([person(100), thing(RACKET, 280, 250, 80, 120)], 1),
        ([person(100), thing(RACKET, 800, 250, 80, 120)], np.nan),  # it lies elsewhere
        ([person(400, 300, 100), thing(HORSE, 300, 250, 400, 400)], 1),
        ([person(100, 300, 100), thing(BICYCLE, 600, 250, 300, 300)], np.nan),
        ([person(100), thing(BOTTLE, 280, 400, 30, 90), thing(CUP, 240, 420, 40, 40)], 1),
        ([person(100), thing(CUP, 240, 420, 40, 40)], 0.5),
        ([person(100), thing(CUP, 800, 420, 40, 40)], np.nan),
        ([person(100), thing(SUITCASE, 300, 550, 100, 150)], 0.5),
        ([thing(RACKET, 280, 250, 80, 120)], np.nan),
    ],
)
def test_activities_are_seen_by_what_a_person_uses_and_never_denied(things: list[Thing], expected: float) -> None:
    np.testing.assert_equal(value(seen(*things), "activities"), expected)


def test_property_is_a_vehicle_boat_or_computer_that_fills_part_of_the_picture_and_never_denied() -> None:
    assert value(seen(thing(CAR, 100, 100, 90, 60)), "property_assets") == 1
    assert value(seen(thing(BOAT, 100, 100, 300, 200)), "property_assets") == 1
    assert value(seen(thing(COMPUTER, 100, 100, 300, 200)), "property_assets") == 1
    for small in (thing(CAR, 100, 100, 60, 50), thing(BOAT, 100, 100, 150, 150), thing(COMPUTER, 100, 100, 150, 150)):
        assert np.isnan(value(seen(small), "property_assets"))
    assert np.isnan(value(seen(person(100)), "property_assets"))


def test_somebody_without_a_visible_face_still_shows_age_and_gender_roughly() -> None:
    from_behind = seen(person(100))
    assert value(from_behind, "age") == value(from_behind, "gender") == 0.5
    assert value(from_behind, "biometrics") == 0
    assert np.isnan(value(seen(person(100, 0.14 * HEIGHT)), "age"))  # too small
    assert np.isnan(value(seen(person(100, confidence=0.49)), "age"))
    assert np.isnan(value(seen(person(100), faces=(face(person(100)),)), "age"))  # the face rule speaks of this one


def test_people_with_flat_faces_are_drawn_and_do_not_count() -> None:
    poster, far = person(100), person(500, 300, 300)
    assert value(seen(poster, far), "background_people") == 1
    assert value(seen(poster, far, faces=(face(poster, flatness=0.75),)), "background_people") == 0


@pytest.mark.parametrize(
    "text",
    [
        *("AB12 CDE", "B-MX 1234", "1ABC234", "CFA 7360", "AB-123-CD", "4821 BKD", "MH12 DE 1433", "ABC1D23"),
        *("WA 12345", "30F-12345", "5A2 3344", "\u4eacA12345"),
    ],
)
def test_plates_of_several_countries(text: str) -> None:
    assert is_plate(text)


@pytest.mark.parametrize(
    "text",
    [
        *("TAXI", "A", "", "HOTEL CALIFORNIA", "ABCDE"),
        *("2024", "12345678", "12.03.1985", "3.14159", "256 GB", "500ML", "120HZ", "EXIT 12", "NO. 12345"),
        *("EST. 1984", "MAY 2024", "CES 2024", "ISO 9001", "RTX 4090", "BMW 320", "E320 CDI", "CLS 350", "GLC300"),
    ],
)
def test_other_words_and_numbers_are_no_plates(text: str) -> None:
    assert not is_plate(text)


CARS = [thing(CAR, 300, 200, 400, 300)]
ON_CAR = line("AB12 CDE", 400, 420)


def plates(lines: Page, things: list[Thing]) -> float:
    return value(decide(plate_findings(lines, things)), "non_unique_id")


def test_a_number_is_a_plate_on_a_vehicle_or_alone_but_not_on_a_page() -> None:
    words = [
        "The shop is open on all days of the week",
        "and the doors are closed at night, as ever",
        "Please knock and wait for the porter",
    ]
    written = [line(text, 20, 40 + 40 * index) for index, text in enumerate(words)]
    assert plates(Page((*written, ON_CAR), WIDTH, HEIGHT), CARS) == 1
    assert plates(Page((*written, ON_CAR), WIDTH, HEIGHT), []) == 0
    assert plates(Page((ON_CAR,), WIDTH, HEIGHT), []) == 0  # far too small for a close-up
    assert plates(Page((line("AB12 CDE", 200, 300, height=80),), WIDTH, HEIGHT), []) == 1
    large = line("CFA 7360", 200, 300, height=80)
    assert plates(Page((large,), WIDTH, HEIGHT), []) == 0.5
    assert plates(Page((line("MICHIGAN", 250, 200), large), WIDTH, HEIGHT), []) == 1
    assert plates(page("Name: Petra Novak", "AB12 CDE"), []) == 0
    manual = page(
        "Replacing the filter",
        "1. Open the front cover of the appliance with care.",
        "2. Pull out the old filter and wipe the frame.",
        "3. Insert part number",
        "AF 2041",
    )
    assert plates(manual, []) == 0


def test_two_lines_of_a_motorcycle_are_one_plate_with_room_for_the_last_sign() -> None:
    stacked = (line("4821", 400, 420), line("BKD", 390, 450))
    (found,) = plate_findings(Page(stacked, WIDTH, HEIGHT), CARS)
    assert found.kind == "licence plate"
    assert found.area is not None
    x_min, y_min, x_max, y_max = found.area
    assert x_min < 390 / WIDTH
    assert x_max > (400 + 4 * 12) / WIDTH
    assert (y_min, y_max) == (420 / HEIGHT, 474 / HEIGHT)
    beside = (line("4821", 400, 420), line("BKD", 600, 450))
    assert plate_findings(Page(beside, WIDTH, HEIGHT), CARS) == []


def test_only_large_vehicles_without_a_plate_are_read_closely() -> None:
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    far = thing(CAR, 20, 20, 60, 40)
    found = plate_findings(Page((ON_CAR,), WIDTH, HEIGHT), CARS)
    assert vehicles_to_read([*CARS, far], pixels, []) == [(slice(200, 501), slice(300, 701))]
    assert vehicles_to_read(CARS, pixels, found) == []
    assert [finding.kind for finding in plates_in_close_up([ON_CAR])] == ["licence plate"]
    assert plates_in_close_up([line("AB12 CDE", 400, 420, confidence=0.4)]) == []
