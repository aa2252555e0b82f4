"""The engine: models look at each view, rules turn that into evidence, the decision turns evidence into values."""

from collections.abc import Sequence

from scoring.assessment import ENGINE_ERROR, Assessment, Outcome, Unscored, View
from scoring.engines.detectors.faces import FaceFinder, face_findings
from scoring.engines.detectors.findings import decide, embedded_findings, embedded_unread
from scoring.engines.detectors.nudity import NudityClassifier, nudity_findings
from scoring.engines.detectors.objects import ObjectFinder
from scoring.engines.detectors.ocr import TextReader
from scoring.engines.detectors.other_scripts import with_other_scripts
from scoring.engines.detectors.page import Page
from scoring.engines.detectors.rules import TEXT_ATTRIBUTES, text_findings
from scoring.engines.detectors.scene import (
    human_faces,
    plate_findings,
    plates_in_close_up,
    scene_findings,
    vehicles_to_read,
)
from scoring.engines.detectors.without_model import barcode_findings, read_barcodes, ridge_findings, scan_findings


class DetectorsEngine:
    def __init__(self) -> None:
        self.faces = FaceFinder()
        self.objects = ObjectFinder()
        self.text = TextReader()
        self.nudity = NudityClassifier()

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        try:
            for before, view in zip([None, *views], views, strict=False):
                if before is not None and before.sha256 != view.sha256:
                    self.text.forget()
                try:
                    outcomes.append(self._assessment(view))
                except Exception as error:  # the edge: what the models raise may hold content, so only its type is kept
                    outcomes.append(Unscored(ENGINE_ERROR, f"a detector failed ({type(error).__name__})"))
        finally:
            self.text.forget()
        return outcomes

    def _assessment(self, view: View) -> Assessment:
        pixels = view.pixels
        height, width = pixels.shape[:2]
        page = with_other_scripts(Page(tuple(self.text.read(pixels)), width, height), pixels)
        things = [] if page.is_document else self.objects.find(pixels)
        faces, size = human_faces(self.faces.find(pixels), things), (width, height)
        plates = plate_findings(page, things)
        for rows, columns in vehicles_to_read(things, pixels, plates):
            plates += plates_in_close_up(self.text.read_close_up(pixels, rows, columns))
        findings = [
            *face_findings(faces, size),
            *scene_findings(things, faces, size),
            *plates,
            *(ridge_findings(pixels) if page.num_chars < 30 else []),
            *scan_findings(pixels, page),
            *text_findings(page),
            *barcode_findings(read_barcodes(pixels)),
            *nudity_findings(self.nudity.score(pixels)),
            *embedded_findings(view.metadata),
        ]
        text_unread = TEXT_ATTRIBUTES if page.is_partly_unread else ()
        return decide(findings, (*text_unread, *embedded_unread(view.metadata)))
