"""Faces with CenterFace (Xu et al. 2019), and whether size, sharpness and texture let them be recognised."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels
from scoring.engines.detectors.findings import Detection, Finding
from scoring.engines.detectors.models import Network, open_network

LONGER_SIDE_PX = 800
"""Size of the network's input; faces of 1/50 of the picture are still found, in about 40 ms."""

FACE_CONFIDENCE = 0.45
"""No false face on 42 pictures without faces; lower values fire on logos and patterns."""
HEAD_CONFIDENCE = 0.2
"""Enough to count heads where a face was found already."""
SURE_FACE = 0.8
"""Nothing so sure was ever refuted by the mirror image: of 81 photographs and 52 demo pictures nothing from 0.65 on."""
GLANCE_SIDE_PX = 480
"""Longer side at which a picture is seen turned first, for about a third of the time. At 400 two faces more were missed
of 96."""
MIN_FACE_PX = 24
"""Width below which a face is no evidence. With a narrower head a picture is not looked at again, turned: of 163
pictures without a face, 9 had a wider one."""
STRIDE = 4
OVERLAP = 0.3
"""Intersection over union above which two boxes are one face."""


@dataclass(frozen=True)
class Face(Detection):
    sharpness: float
    """Variance of the Laplacian of the crop at 112x112, in grey levels²."""

    flatness: float
    """Share of pixels without texture in 3x3; high in drawings."""

    @property
    def is_drawn(self) -> bool:
        """Whether it is drawn in flat fills: photographs stay below 0.35, flat drawings are above 0.7."""
        return self.flatness > 0.5

    @property
    def is_blurred(self) -> bool:
        """Whether it is anonymised or far out of focus, so that only a blob of skin is left."""
        return self.sharpness < 6

    @property
    def is_recognisable(self) -> bool:
        """Whether it is wide and sharp enough; a smaller face, enlarged to 112x112, has to be sharper."""
        is_large = self.width >= 40 and self.sharpness >= 30
        return is_large or (self.width >= 32 and self.sharpness >= 45)


class FaceFinder:
    def __init__(self, opened: Callable[[str], Network] = open_network) -> None:
        self._network = opened("centerface.onnx")

    def find(self, pixels: Pixels) -> list[Face]:
        """Return faces and, below `FACE_CONFIDENCE`, possible heads; the most confident first.

        With possible heads only, the picture may be turned: then it is seen the three other ways up, at a small size,
        and the way up with the surest face is taken. Most large faces are found in any way up.
        """
        faces = self._in_both_mirrors(pixels)
        if not any(face.width >= MIN_FACE_PX for face in faces) or faces[0].confidence >= FACE_CONFIDENCE:
            return faces
        for quarters in (1, 2, 3):
            turned = np.ascontiguousarray(np.rot90(pixels, quarters))
            if self.possible(turned, FACE_CONFIDENCE, GLANCE_SIDE_PX):
                seen = self._in_both_mirrors(turned)
                if seen and seen[0].confidence >= max(FACE_CONFIDENCE, faces[0].confidence):
                    faces = [_turned_back(face, quarters, pixels.shape[:2]) for face in seen]
        return faces

    def _in_both_mirrors(self, pixels: Pixels) -> list[Face]:
        """Return faces and possible heads of a picture as it stands, the most confident first.

        The mirror image has to show a doubtful face, too: feet, masks and parts of machines often look like faces to
        the network in only one of the two. It is not looked at if all that may be a face surely is one.
        """
        faces = self.possible(pixels)
        if not any(face.confidence >= FACE_CONFIDENCE for face in faces) or faces[-1].confidence >= SURE_FACE:
            return faces
        in_mirror = self._in_mirror(pixels, HEAD_CONFIDENCE)
        agreed = [replace(face, confidence=min(face.confidence, _agreement(face, in_mirror))) for face in faces]
        return sorted(agreed, key=lambda face: -face.confidence)

    def _in_mirror(self, pixels: Pixels, least: float) -> list[Face]:
        """Return all that may be a face in the mirror image, where it is in the picture."""
        width, faces = pixels.shape[1], self.possible(np.ascontiguousarray(pixels[:, ::-1]), least)
        return [replace(face, x_min=width - face.x_max, x_max=width - face.x_min) for face in faces]

    def possible_turned(self, pixels: Pixels, quarters: int, least: float) -> list[Face]:
        """Return all that may be a face: as the picture stands, or in its mirror image; turned counterclockwise, in
        both, since a turned picture shows more that only looks like a face.

        quarters: of a turn, 0–3. least: confidence, 0–1. Coordinates are of the picture as it was.
        """
        if not quarters:
            return [*self.possible(pixels, least), *self._in_mirror(pixels, least)]
        faces = self._in_both_mirrors(np.ascontiguousarray(np.rot90(pixels, quarters)))
        return [_turned_back(face, quarters, pixels.shape[:2]) for face in faces if face.confidence >= least]

    def possible(
        self, pixels: Pixels, least: float = HEAD_CONFIDENCE, longer_side_px: int = LONGER_SIDE_PX
    ) -> list[Face]:
        """Return all that may be a face, seen in this picture alone. least: confidence, 0–1."""
        height, width = pixels.shape[:2]
        scale = min(1.0, longer_side_px / max(height, width))
        size = [max(32, round(side * scale / 32) * 32) for side in (width, height)]
        inputs = cv2.resize(pixels, size).astype(np.float32).transpose(2, 0, 1)[None]
        heat, scales, offsets, _ = self._network(inputs)
        boxes, confidences = _decoded(heat[0, 0], scales[0], offsets[0], least)
        boxes *= np.array([width / size[0], height / size[1]] * 2)
        corners = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
        kept = cv2.dnn.NMSBoxes(corners.tolist(), confidences.tolist(), least, OVERLAP)
        return [_measured(pixels, boxes[i], confidences[i]) for i in np.asarray(kept).ravel()]


def _turned_back(face: Face, quarters: int, shape: tuple[int, int]) -> Face:
    """Map a face of a picture that was turned counterclockwise. shape: (height, width) of the picture as it was."""
    for turn in reversed(range(quarters)):
        width = shape[1 - turn % 2]
        x_min, x_max = width - face.y_max, width - face.y_min
        face = replace(face, x_min=x_min, x_max=x_max, y_min=face.x_min, y_max=face.x_max)
    return face


def _agreement(face: Face, others: Sequence[Face]) -> float:
    """Return the highest confidence of another face in the same place; that of a head if there is none."""
    confidence = HEAD_CONFIDENCE
    for other in others:
        common = face.num_pixels_within(other)
        if common / max(face.num_pixels + other.num_pixels - common, 1.0) > OVERLAP:
            confidence = max(confidence, other.confidence)
    return confidence


Floats = npt.NDArray[np.float64]


def _decoded(heat: Floats, scales: Floats, offsets: Floats, least: float) -> tuple[Floats, Floats]:
    """Decode CenterFace's maps (h, w), (2, h, w), y before x -> boxes (n, 4) in input pixels, confidences (n,)."""
    rows, columns = np.where(heat > least)
    centre_y = (rows + offsets[0, rows, columns] + 0.5) * STRIDE
    centre_x = (columns + offsets[1, rows, columns] + 0.5) * STRIDE
    half_y, half_x = np.exp(scales[:, rows, columns]) * STRIDE / 2
    boxes = np.stack([centre_x - half_x, centre_y - half_y, centre_x + half_x, centre_y + half_y], axis=1)
    return boxes.astype(np.float64), heat[rows, columns].astype(np.float64)


def _measured(pixels: Pixels, box: Floats, confidence: float) -> Face:
    height, width = pixels.shape[:2]
    x_min, x_max = np.clip(box[[0, 2]], 0, width)
    y_min, y_max = np.clip(box[[1, 3]], 0, height)
    crop = pixels[int(y_min) : int(np.ceil(y_max)), int(x_min) : int(np.ceil(x_max))]
    sharpness, flatness = _texture(crop) if crop.size else (0.0, 1.0)
    return Face(float(x_min), float(y_min), float(x_max), float(y_max), float(confidence), sharpness, flatness)


def _texture(crop: Pixels) -> tuple[float, float]:
    grey = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_RGB2GRAY)
    kernel = np.ones((3, 3), np.uint8)
    contrast = cv2.dilate(grey, kernel) - cv2.erode(grey, kernel)
    sharpness = cv2.Laplacian(cv2.resize(grey, (112, 112)), cv2.CV_64F).var()
    return float(sharpness), float((contrast <= 2).mean())


def face_findings(faces: Sequence[Face], size: tuple[int, int]) -> list[Finding]:
    """Return evidence of faces. size: (width, height) of the view in pixels. No person is classified: age and gender
    only mean "can be seen"."""
    findings: list[Finding] = []
    for face in faces:
        is_seen = face.confidence >= FACE_CONFIDENCE and face.width >= MIN_FACE_PX
        if not is_seen or face.is_drawn or face.is_blurred:
            continue
        value, how = (1.0, "sharp") if face.is_recognisable else (0.5, "small or not sharp")
        kind = f"face, {round(face.width, -1):.0f} px wide, {how}"
        findings += [
            Finding("biometrics", value, kind, face.box_in(size), face.confidence),
            Finding("age", value, "a person's face"),
            Finding("gender", value, "a person's face"),
        ]
    return findings
