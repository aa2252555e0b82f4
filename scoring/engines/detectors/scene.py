"""Evidence in people and things of a photograph: bystanders, activities, property, a person without a visible face, and
licence plates.

But for plates nothing here is used on pages of text: the detector also finds people in portraits on documents, and
computers in forms. A plate is a number of a plate's form on a vehicle, or alone in a picture with little else to read.
Alone it is ambiguous, since many other things have this form, unless the name of a state that issues plates is there or
letters and digits alternate.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from ingest.images.pixels import Area, Pixels
from scoring.engines.detectors.faces import FACE_CONFIDENCE, HEAD_CONFIDENCE, Face
from scoring.engines.detectors.findings import Finding, holds_middle
from scoring.engines.detectors.objects import PERSON, Thing
from scoring.engines.detectors.ocr import READABLE, TextLine
from scoring.engines.detectors.page import Page
from scoring.text_rules.vocabulary import rows, squashed, words

VEHICLES = frozenset([2, 3, 5, 7])
"""Car, motorcycle, bus, truck: vehicles with a licence plate."""

PRIVATE_VEHICLES = frozenset([1, 2, 3, 7])
"""Bicycle, car, motorcycle, truck."""

BOAT = 8

RIDDEN = frozenset([1, 3, 17])
"""Bicycle, motorcycle, horse."""

ANIMALS = frozenset(range(14, 24))
"""Birds, pets, farm and wild animals: some have faces that look human to the finder of faces."""

SPORTS_GEAR = frozenset(range(29, 39))
"""Frisbee, skis, snowboard, ball, kite, bat, glove, skateboard, surfboard, racket."""

TABLE_THINGS = frozenset(range(39, 56))
"""Bottles, glasses, cutlery, bowls and food."""

SUITCASE = 28
COMPUTER = 63

PERSON_CONFIDENCE = 0.45
THING_CONFIDENCE = 0.5
"""Both tuned on the demo pictures: no person is detected in a picture without one."""
VEHICLE_CONFIDENCE = 0.4

SMALLER = 0.6
"""A person below this share of the tallest person's height, or of the largest face's width, is farther away."""
MIN_HEAD_PX = 8
MANY_HEADS = 6
POSED_FACE = 0.06
"""Share of the view's width from which faces of similar size are a posing group."""
CROWD = 4
DENSE_CROWD = 5
"""Number of people that are a crowd even if the model is sure of none of them."""
POSING = 0.45
"""Share of the view's height from which people of similar height pose for the picture."""
MAX_POSING = 8
SMALL_PERSON = 0.3
"""Share of the view's height below which a person next to a vehicle is not the subject."""
FAR_PERSON = 0.2
"""Share of the view's height below which people, however few, are bystanders."""
CLEAR_PERSON = 0.15
"""Share of the view's height from which a person without a visible face still shows age and gender, roughly."""
SURE_PERSON = 0.5
VEHICLE_AREA = 0.005
"""Share of the view: a parked car counts, as in the labels; smaller ones say nothing of their owners."""
PROPERTY_AREA = 0.06
"""Share of the view that a boat or computer must fill; smaller ones are often false detections."""

Size = tuple[int, int]


def scene_findings(things: Sequence[Thing], faces: Sequence[Face], size: Size) -> list[Finding]:
    """Return evidence of a scene. size: (width, height) of the view in pixels."""
    people = [thing for thing in things if thing.kind == PERSON and not _is_drawn(thing, faces)]
    persons = [person for person in people if person.confidence >= PERSON_CONFIDENCE]
    crowd = persons or (people if len(people) >= DENSE_CROWD else [])
    return [
        *([] if _is_group(crowd, faces, size) else [*_small_faces(faces, size), *_bystanders(crowd, things, size)]),
        *_faceless(persons, faces, size),
        *_activities(persons, things, size),
        *_property(things, size),
    ]


def human_faces(faces: Sequence[Face], things: Sequence[Thing]) -> list[Face]:
    """Remove faces that are in an animal and in no person."""
    animals = [thing for thing in things if thing.kind in ANIMALS and thing.confidence >= THING_CONFIDENCE]
    persons = [thing for thing in things if thing.kind == PERSON]
    return [face for face in faces if not _is_in(face, animals) or _is_in(face, persons)]


def _is_in(face: Face, things: Sequence[Thing]) -> bool:
    x, y = (face.x_min + face.x_max) / 2, (face.y_min + face.y_max) / 2
    return any(thing.x_min <= x <= thing.x_max and thing.y_min <= y <= thing.y_max for thing in things)


def _is_drawn(person: Thing, faces: Sequence[Face]) -> bool:
    """Return whether its face is flat, as in paintings with flat colours, posters and cartoons."""
    faces_of_person = _faces_of(person, faces)
    return bool(faces_of_person) and all(face.is_drawn for face in faces_of_person)


def _faces_of(person: Thing, faces: Sequence[Face]) -> list[Face]:
    """Return faces whose centre is in the upper half of the person."""
    middle = (person.y_min + person.y_max) / 2
    return [
        face
        for face in faces
        if person.x_min <= (face.x_min + face.x_max) / 2 <= person.x_max
        and person.y_min - face.width <= (face.y_min + face.y_max) / 2 <= middle
    ]


def _clear(faces: Sequence[Face]) -> list[Face]:
    return [face for face in faces if face.confidence >= FACE_CONFIDENCE and not face.is_drawn]


def _heads(faces: Sequence[Face]) -> list[Face]:
    return [face for face in faces if not face.is_drawn and face.width >= MIN_HEAD_PX]


def _is_group(persons: Sequence[Thing], faces: Sequence[Face], size: Size) -> bool:
    """Return whether people pose together: large faces of similar size, no smaller heads, and no person without a
    face."""
    largest = max((face.width for face in _clear(faces)), default=0)
    if len(_clear(faces)) < 2 or largest < POSED_FACE * size[0]:
        return False
    sure = [head for head in _heads(faces) if head.confidence > HEAD_CONFIDENCE]  # in the mirror image, too
    is_similar = all(head.width >= SMALLER * largest for head in sure)
    return is_similar and all(_faces_of(person, _clear(faces)) for person in persons)


def _small_faces(faces: Sequence[Face], size: Size) -> list[Finding]:
    """Find a crowd, or a person much smaller than the subject, by faces and heads."""
    people = _clear(faces)
    if not people:
        return []
    heads = _heads(faces)
    largest = max(face.width for face in people)
    smaller = [face for face in heads if face.width < SMALLER * largest]
    is_posed = not smaller and largest >= POSED_FACE * size[0]
    if (len(heads) >= MANY_HEADS and not is_posed) or (smaller and len(heads) >= 3):
        return [Finding("background_people", 1.0, "several people, some of them in the background")]
    return [Finding("background_people", 0.5, "a second, smaller face")] if smaller else []


def _bystanders(persons: Sequence[Thing], things: Sequence[Thing], size: Size) -> list[Finding]:
    """Find a crowd, a person much smaller than the largest, or people in traffic."""
    if not persons:
        return []
    tallest = max(person.height for person in persons)
    smaller = [person for person in persons if person.height < SMALLER * tallest]
    is_posed = not smaller and tallest >= POSING * size[1] and len(persons) <= MAX_POSING
    in_traffic = any(thing.kind in VEHICLES for thing in things) and tallest < SMALLER * size[1]
    is_passer_by = in_traffic and (len(persons) >= 2 or tallest < SMALL_PERSON * size[1])
    if smaller or is_passer_by or (len(persons) >= CROWD and not is_posed):
        return [
            _evidence("background_people", 1.0, "several people, some of them in the background", persons[-1], size)
        ]
    if in_traffic:
        return [_evidence("background_people", 0.5, "a person in traffic", persons[-1], size)]
    if tallest < FAR_PERSON * size[1]:
        return [_evidence("background_people", 0.5, "a person far away", persons[-1], size)]
    return []


def _faceless(persons: Sequence[Thing], faces: Sequence[Face], size: Size) -> list[Finding]:
    for person in persons:
        is_clear = person.confidence >= SURE_PERSON and person.height >= CLEAR_PERSON * size[1]
        if is_clear and not any(face.confidence >= FACE_CONFIDENCE for face in _faces_of(person, faces)):
            kind = "a person without a visible face"
            return [_evidence(attribute, 0.5, kind, person, size) for attribute in ("age", "gender")]
    return []


def _activities(persons: Sequence[Thing], things: Sequence[Thing], size: Size) -> list[Finding]:
    findings = []
    for person in persons:
        touched = [thing for thing in things if _touches(person, thing)]
        ridden = [thing for thing in touched if thing.kind in RIDDEN and _rides(person, thing)]
        near = [thing for thing in touched if thing.confidence >= THING_CONFIDENCE]
        gear = [thing for thing in near if thing.kind in SPORTS_GEAR]
        table = [thing for thing in near if thing.kind in TABLE_THINGS]
        if gear:
            findings.append(_evidence("activities", 1.0, "a person with sports gear", person, size))
        elif ridden:
            findings.append(_evidence("activities", 1.0, "a person who rides", person, size))
        elif table:
            value = 1.0 if len(table) >= 2 else 0.5
            findings.append(_evidence("activities", value, "a person with food or drinks", person, size))
        elif any(thing.kind == SUITCASE for thing in near):
            findings.append(_evidence("activities", 0.5, "a person with a suitcase", person, size))
    return findings


def _touches(person: Thing, thing: Thing) -> bool:
    """Return whether the boxes meet if the person's is extended by a tenth of its height."""
    reach = person.height / 10
    overlaps_sideways = thing.x_min <= person.x_max + reach and thing.x_max >= person.x_min - reach
    return overlaps_sideways and thing.y_min <= person.y_max + reach and thing.y_max >= person.y_min - reach


def _rides(person: Thing, thing: Thing) -> bool:
    """Return whether the person is above the thing, not next to it."""
    centre = (person.x_min + person.x_max) / 2
    return thing.x_min <= centre <= thing.x_max and person.y_min < thing.y_min and person.y_max <= thing.y_max


def _property(things: Sequence[Thing], size: Size) -> list[Finding]:
    view_area = size[0] * size[1]
    vehicles = [
        thing for thing in things if thing.kind in PRIVATE_VEHICLES and thing.num_pixels >= VEHICLE_AREA * view_area
    ]
    large = [thing for thing in things if thing.num_pixels >= PROPERTY_AREA * view_area]
    boats = [thing for thing in large if thing.kind == BOAT]
    computers = [thing for thing in large if thing.kind == COMPUTER and thing.confidence >= THING_CONFIDENCE]
    owned = [("a vehicle", thing) for thing in vehicles + boats if thing.confidence >= VEHICLE_CONFIDENCE]
    owned += [("a computer", thing) for thing in computers]
    return [_evidence("property_assets", 1.0, kind, thing, size) for kind, thing in owned]


def _evidence(attribute: str, value: float, kind: str, thing: Thing, size: Size) -> Finding:
    return Finding(attribute, value, kind, thing.box_in(size), thing.confidence)


MIN_DISTINCT = 7
"""Signs of a number such as "AB12CDE", whose letters are before and after digits or the reverse: few other
things have this form. "RTX4090" is a product, "CFA7360" a plate."""
_GROUPS = re.compile(r"\d+|[^\W\d_]+")
MIN_SIGNS, MAX_SIGNS = 5, 10
MAX_SIGNS_BESIDE = 90
"""Limit of signs on a picture: with more text a number of this form is something else."""
CLOSE_UP = 0.05
"""Share of the view's height from which a plate fills the picture without a vehicle around it."""
MIN_SHAPE, MAX_SHAPE = 2.0, 11.0
"""Width to height of a plate in one line."""
MIN_VEHICLE_PX = 80
"""Width of a vehicle; the plate takes about a fifth of it."""
MAX_VEHICLES = 3
MARGIN = 0.5
"""Margin in heights of the line, at both ends: the last sign must be inside the box."""

_LETTERS = re.compile(r"[^\W\d_]+")
"""Four letters in a row are a word: plates with as many letters have a gap between them."""
_YEAR = re.compile(r"\w{1,3}[ .'-]{1,2}(19|20)\d\d")
"""An event or a date: "CES 2024"."""


def plate_findings(page: Page, things: Sequence[Thing]) -> list[Finding]:
    """Return evidence of plates. things: detections in the view, in its pixels."""
    vehicles = [thing.box_in((page.width, page.height)) for thing in things if thing.kind in VEHICLES]
    on_vehicles = [line for line in page.readable if any(holds_middle(vehicle, line.area) for vehicle in vehicles)]
    has_little_text = page.num_chars <= MAX_SIGNS_BESIDE and not any(field.values for field in page.fields)
    alone = [line for line in page.readable if has_little_text and line.height >= CLOSE_UP * page.height]
    by_area: dict[Area, Finding] = {}
    names_region = any(squashed(line.text) in _regions() for line in page.readable)
    for lines, is_sure in ((on_vehicles, True), (alone, names_region)):
        for finding in _plates(lines, is_sure):
            if finding.area is not None:
                by_area.setdefault(finding.area, finding)
    return list(by_area.values())


def vehicles_to_read(things: Sequence[Thing], pixels: Pixels, plates: Sequence[Finding]) -> list[tuple[slice, slice]]:
    """Return rows and columns of the largest vehicles without a plate so far, for a closer look."""
    height, width = pixels.shape[:2]
    large = [thing for thing in things if thing.kind in VEHICLES and thing.width >= MIN_VEHICLE_PX]
    large.sort(key=lambda thing: -thing.num_pixels)
    read = [plate.area for plate in plates if plate.area is not None]
    unread = [thing for thing in large if not any(holds_middle(thing.box_in((width, height)), area) for area in read)]
    return [
        (slice(int(thing.y_min), int(thing.y_max) + 1), slice(int(thing.x_min), int(thing.x_max) + 1))
        for thing in unread[:MAX_VEHICLES]
    ]


def plates_in_close_up(lines: Sequence[TextLine]) -> list[Finding]:
    """Return evidence of plates. lines: text on a vehicle."""
    return list(_plates([line for line in lines if line.confidence >= READABLE], is_sure=True))


def _plates(lines: Sequence[TextLine], is_sure: bool) -> Iterator[Finding]:
    for line in lines:
        if MIN_SHAPE <= line.width / max(line.height, 1.0) <= MAX_SHAPE and is_plate(line.text):
            yield _finding([line], is_sure)
    parts = [line for line in lines if not is_plate(line.text)]
    for upper in parts:
        for lower in parts:
            if _is_stacked(upper, lower) and is_plate(upper.text + lower.text):
                yield _finding([upper, lower], is_sure)


def is_plate(text: str) -> bool:
    """Return whether a text has the form of a licence plate of a known country.

    >>> is_plate("AB12 CDE"), is_plate("TAXI"), is_plate("256 GB"), is_plate("CES 2024")
    (True, False, False, False)
    """
    groups = _LETTERS.findall(text.lower())
    if any(len(group) > 3 or group in words("not_plates.txt") for group in groups) or _YEAR.fullmatch(text.strip()):
        return False
    compact = _compact(text)
    is_mixed = bool(re.search(r"\d", compact) and re.search(r"[^\W\d_]", compact))
    return is_mixed and MIN_SIGNS <= len(compact) <= MAX_SIGNS and any(form.fullmatch(compact) for form in _forms())


def _compact(text: str) -> str:
    """Remove gaps and the sign of a Chinese province."""
    return re.sub(r"^[\u4e00-\u9fff]", "", re.sub(r"[\s.·•:*-]", "", text))


@cache
def _regions() -> frozenset[str]:
    return frozenset(squashed(name) for row in rows("plate_regions.txt") for name in row.split("|"))


@cache
def _forms() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row.split("\t")[1]) for row in rows("plate_patterns.txt"))


def _is_stacked(upper: TextLine, lower: TextLine) -> bool:
    """Return whether one line is below the other at about the same height, as on plates of motorcycles."""
    common = min(upper.right, lower.right) - max(upper.left, lower.left)
    distance = lower.y - upper.y
    is_near = 0.7 * upper.height <= distance <= 2.0 * max(upper.height, lower.height)
    is_same_height = 0.5 <= upper.height / max(lower.height, 1.0) <= 2.0
    return is_near and is_same_height and common >= 0.5 * min(upper.width, lower.width)


def _finding(lines: Sequence[TextLine], is_sure: bool) -> Finding:
    text = _compact("".join(line.text for line in lines))
    is_distinct = len(text) >= MIN_DISTINCT and len(_GROUPS.findall(text)) >= 3
    value = 1.0 if is_sure or is_distinct else 0.5
    lefts, tops, rights, bottoms = zip(*(line.area for line in lines), strict=True)
    margin = MARGIN * max(line.area[3] - line.area[1] for line in lines)
    area = (max(0.0, min(lefts) - margin), min(tops), min(1.0, max(rights) + margin), max(bottoms))
    kind = "licence plate" if value == 1 else "what may be a licence plate"
    return Finding("non_unique_id", value, kind, area, min(line.confidence for line in lines))
