"""Where the detectors look for writing, and people on real photographs. All names are fictitious."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ingest.images.pixels import Pixels
from scoring.assessment import Assessment, EngineOptions, View
from scoring.engines import detectors
from scoring.engines.detectors.faces import FACE_CONFIDENCE, SURE_FACE, FaceFinder
from scoring.engines.detectors.objects import PERSON, ObjectFinder
from tests.engines.pages import CORPUS, drawn, picture
from tests.making import Patch

pytest.importorskip("rapidocr", reason="the detectors extra is not installed")

from scoring.engines.detectors.ocr import TextReader

TEXTS = ["Name: Harriet Okafor", "", "Card 4111 1111 1111 1111", "harriet@example.org"]


@pytest.fixture(scope="module")
def reader() -> TextReader:
    return TextReader()


def searched(reader: TextReader, monkeypatch: Patch) -> list[tuple[int, int]]:
    """Filled with the sizes (height, width) at which the network looks from now on, in pixels."""
    sizes: list[tuple[int, int]] = []
    run = reader.writing.probabilities

    def noted(image: Pixels) -> object:
        sizes.append((image.shape[0], image.shape[1]))
        return run(image)

    monkeypatch.setattr(reader.writing, "probabilities", noted)
    reader.forget()
    return sizes


def read(reader: TextReader, pixels: Pixels) -> set[str]:
    texts = [line.text for line in reader.read(pixels)]
    assert len(texts) == len(set(texts))
    return set(texts)


def large(pixels: Pixels, size: tuple[int, int], corner: tuple[int, int]) -> Pixels:
    """The picture on a grey one of size (width, height)."""
    around = np.full((size[1], size[0], 3), 120, np.uint8)
    around[corner[1] : corner[1] + pixels.shape[0], corner[0] : corner[0] + pixels.shape[1]] = pixels
    return around


def test_a_few_engraved_letters_are_found_without_searching_the_whole(reader: TextReader, monkeypatch: Patch) -> None:
    sizes = searched(reader, monkeypatch)
    scissors = Image.fromarray(picture(CORPUS / "object" / "scissors.jpg")).resize((1400, 1050))
    assert "CHROME" in read(reader, np.asarray(scissors))
    assert sum(height * width for height, width in sizes) < 0.9 * 704 * 960


def test_writing_in_a_corner_is_searched_there_and_read_as_in_the_whole(reader: TextReader, monkeypatch: Patch) -> None:
    small = drawn(TEXTS, size=(560, 320))
    sizes = searched(reader, monkeypatch)
    whole = read(reader, small)
    assert len(whole) == 3
    sizes.clear()
    assert read(reader, large(small, (1400, 1000), (800, 640))) == whole
    assert sizes[0] == (352, 480)
    assert sizes[1][0] < 448
    assert sizes[1][1] < 640


def test_a_second_view_is_searched_only_where_it_differs(reader: TextReader, monkeypatch: Patch) -> None:
    first = large(drawn(TEXTS, size=(560, 320)), (1400, 1000), (60, 60))
    second = first.copy()
    second[:, 1200:] = 0
    third = first.copy()
    third[640:960, 800:1360] = drawn(["Mr Tobias Wren"], size=(560, 320))
    sizes = searched(reader, monkeypatch)
    shown = read(reader, first)
    sizes.clear()
    assert read(reader, second) == shown
    assert sizes == [(352, 480)]
    sizes.clear()
    assert read(reader, third) == {*shown, "Mr Tobias Wren"}
    assert sizes[1][0] < 448
    reader.forget()
    sizes.clear()
    assert read(reader, second) == shown
    assert len(sizes) == 2


def test_text_that_a_second_view_changes_is_read_anew(reader: TextReader) -> None:
    reader.forget()
    first = large(drawn(["Room 4", "Mr Tobias Wren"], size=(560, 320)), (1400, 1000), (60, 60))
    second = large(drawn(["Room 4", "Mr Amos Feather"], size=(560, 320)), (1400, 1000), (60, 60))
    assert read(reader, first) == {"Room 4", "Mr Tobias Wren"}
    assert read(reader, second) == {"Room 4", "Mr Amos Feather"}


def test_a_form_that_a_later_view_shows_filled_is_read_in_whole_lines(reader: TextReader) -> None:
    blank = drawn(["Name:", "Date of birth:", "Card:"], size=(1100, 700))
    filled = drawn(["Name: Harriet Okafor", "Date of birth: 10.03.1985", "Card:"], size=(1100, 700))
    reader.forget()
    alone = read(reader, filled)
    assert len(alone) == 3
    reader.forget()
    read(reader, blank)
    assert read(reader, filled) == alone
    assert read(reader, blank) == {"Name:", "Date of birth:", "Card:"}


def test_the_answer_of_a_picture_does_not_depend_on_the_one_before() -> None:
    engine = detectors.load(EngineOptions())
    blank = View(drawn(["Name:", "Date of birth:", "Card:"], size=(1100, 700)), frozenset(), "a" * 64)
    filled = View(drawn(["Name: Harriet Okafor", "Date of birth: 10.03.1985"], size=(1100, 700)), frozenset(), "b" * 64)
    (alone,) = engine.assess([filled])
    _, behind = engine.assess([blank, filled])
    assert isinstance(alone, Assessment)
    assert isinstance(behind, Assessment)
    np.testing.assert_array_equal(behind.values, alone.values)
    assert (behind.evidence, behind.boxes) == (alone.evidence, alone.boxes)


@pytest.mark.parametrize(("name", "num_people"), [("man.jpg", 1), ("woman.jpg", 1)])
def test_one_person_is_found_once(name: str, num_people: int) -> None:
    pixels = picture(CORPUS / "portrait" / name)
    found = [thing for thing in ObjectFinder().find(pixels) if thing.kind == PERSON]
    assert len(found) == num_people
    height, width = pixels.shape[:2]
    assert all(0 <= t.x_min < t.x_max <= width and 0 <= t.y_min < t.y_max <= height for t in found)
    assert found[0].num_pixels > 0.4 * height * width


@pytest.mark.parametrize("path", [Path("art") / "lion.png", Path("document") / "voter_card.jpg"])
def test_nobody_is_found_where_nobody_is(path: Path) -> None:
    assert [thing for thing in ObjectFinder().find(picture(CORPUS / path)) if thing.kind == PERSON] == []


@pytest.mark.parametrize(
    "path", [Path("portrait") / "man.jpg", Path("portrait") / "woman.jpg", Path("art") / "lion.png"]
)
def test_a_picture_and_its_mirror_image_show_the_same_faces(path: Path) -> None:
    pixels = picture(CORPUS / path)
    width = pixels.shape[1]
    finder = FaceFinder()
    faces = [face for face in finder.find(pixels) if face.confidence >= FACE_CONFIDENCE]
    mirrored = finder.find(np.ascontiguousarray(pixels[:, ::-1]))
    mirrored = [face for face in mirrored if face.confidence >= FACE_CONFIDENCE]
    assert len(faces) == len(mirrored) == (path.parts[0] == "portrait")
    for face, other in zip(faces, mirrored, strict=True):
        assert face.x_min == pytest.approx(width - other.x_max, abs=0.15 * face.width)


def test_only_a_face_in_doubt_is_looked_at_in_the_mirror_and_the_less_sure_look_counts() -> None:
    finder = FaceFinder()
    with tarfile.open(CORPUS.parent / "shards" / "00000.tar") as shard:
        photo = Image.open(shard.extractfile("000000009.jpg") or "").convert("RGB").resize((400, 266))
    doubtful, sure = np.asarray(photo), picture(CORPUS / "portrait" / "man.jpg")
    (seen,), (in_mirror,) = finder.possible(doubtful), finder.possible(np.ascontiguousarray(doubtful[:, ::-1]))
    assert FACE_CONFIDENCE < in_mirror.confidence < seen.confidence < SURE_FACE
    assert [face.confidence for face in finder.find(doubtful)] == [in_mirror.confidence]
    assert finder.find(sure) == finder.possible(sure)


def test_a_small_vehicle_is_enlarged_before_its_plate_is_looked_for(reader: TextReader, monkeypatch: Patch) -> None:
    sizes = searched(reader, monkeypatch)
    plate = np.asarray(Image.fromarray(drawn(["AB12 CDE"], size=(250, 70))).resize((64, 18)))
    view = large(plate, (1500, 1000), (1100, 640))
    texts = [line.text for line in reader.read_close_up(view, slice(560, 760), slice(1000, 1300))]
    assert [text.replace(" ", "") for text in texts] == ["AB12CDE"]
    assert sizes == [(416, 640)]
    reader.read_close_up(view, slice(600, 680), slice(1060, 1180))
    assert sizes[1] == (192, 288)  # two and a half times, not more
