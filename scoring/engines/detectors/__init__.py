"""Small models on the CPU, and rules: findings are kept by their kind of evidence, never with their content.

    models.py      model files and their hashes       findings.py      evidence -> a value per attribute
    faces.py       CenterFace: faces                  scene.py         bystanders, activities, property, plates
    objects.py     NanoDet: people and things         nudity.py        open_nsfw
    without_model.py                                  fingerprints, fundus photographs, radiographs, barcodes
    ocr.py         PP-OCR: lines and their positions  page.py          the kind of page, its fields and their values
    other_scripts.py                                  Tesseract: lines that PP-OCR cannot read
    people.py, rules.py                               rules: text -> evidence, by `scoring.text_rules`
    engine.py      all steps, view by view        glance.py        a picture's features for the screen
    covering.py    what to cover of a picture, and whether a second look still finds it

To add a kind of evidence: write a file that turns pixels into `Finding`s, call it in `engine.py`.
Each model runs on one CPU thread; nothing is downloaded or written.

May import: `ingest`, `scoring.engines`, `scoring.text_rules`.
"""

from typing import TYPE_CHECKING

from ingest.errors import EngineError
from ingest.machine import install_command
from scoring import openvino, tesseract
from scoring.assessment import EngineDescription, EngineOptions
from scoring.engine_facts import Preview, Requirements, package_versions
from scoring.engines.detectors.findings import ABSENT_UNLESS_FOUND, ASSESSED
from scoring.engines.detectors.models import PACKAGES, SHA256, checked_path, model_files
from scoring.engines.picture import seen_as_decoded
from scoring.taxonomy import KEYS

if TYPE_CHECKING:
    from scoring.engines.detectors.engine import DetectorsEngine

PROTOCOL = "detectors-7"
"""Changes with any rule, word list or threshold: values of two protocols are not to be compared."""

MAX_SIDE_PX = 1600
"""Longest side of a view. Print of a scanned A4 page is still 15 px high at this size."""


def refuse_wrong(options: EngineOptions) -> None:
    options.refuse_all_but("detectors", ())


def describe(options: EngineOptions) -> EngineDescription:
    refuse_wrong(options)
    tesseract.refuse_wrong_program()
    if missing := sorted(set(ASSESSED) - set(KEYS)):
        raise EngineError(
            f"the detectors judge the published taxonomy, and the one in use has no {missing[0]}; take another --engine"
        )
    return EngineDescription(
        name="detectors",
        protocol=PROTOCOL,
        assessed=tuple(key for key in KEYS if key in ASSESSED),
        presence_only=tuple(key for key in KEYS if key in ASSESSED and key not in ABSENT_UNLESS_FOUND),
        weights={name: SHA256[name] for name in model_files() if checked_path(name)},
        versions=package_versions("detectors", PACKAGES)
        | {tesseract.PROGRAM: tesseract.version() or "none", openvino.PACKAGE: openvino.in_use() or "none"},
        max_side_px=MAX_SIDE_PX,
    )


def requirements(options: EngineOptions) -> Requirements:
    return Requirements(extra="detectors")


def preview(options: EngineOptions) -> Preview:
    return Preview(seen_as_decoded)


def load(options: EngineOptions) -> "DetectorsEngine":
    """Start the models, about 1 s; EngineError if a package or model file is missing or wrong."""
    package_versions("detectors", PACKAGES)
    for name in model_files():
        checked_path(name)
    try:
        from scoring.engines.detectors.engine import DetectorsEngine
    except ImportError as error:
        raise EngineError(
            f"the detectors engine needs the package {error.name}: {install_command('detectors')}"
        ) from error
    return DetectorsEngine()
