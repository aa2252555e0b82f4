"""A model behind an endpoint whose answers depend on the picture and on the question, and labelled pictures."""

import hashlib
from pathlib import Path

from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.engines.openai.engine import jpeg_of
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.jobs.made import jpeg


def corpus(folder: Path, num: int, first: int = 0) -> str:
    """A folder of pictures 0.jpg …"""
    folder.mkdir(parents=True)
    for number in range(first, first + num):
        (folder / f"{number}.jpg").write_bytes(jpeg(number))
    return str(folder)


def labels(file: Path, private: list[int]) -> str:
    """A labels file of such a folder: number of the picture -> private or not."""
    keys = [f"{number}.jpg" for number in range(len(private))]
    columns: dict[str, list[object]] = {
        "key": [*keys],
        "private": [*private],
        "annotator": ["drawn"] * len(keys),
        "sha256": [hashlib.sha256(jpeg(number)).hexdigest() for number in range(len(keys))],
    }
    write_labels(to_labels(columns, len(keys)), str(file), LabelsOrigin("test"))
    return str(file)


def sent(number: int) -> str:
    """The hash by which the server knows a picture."""
    image = decode(jpeg(number), ImageLimits(max_side_px=1024))
    assert isinstance(image, DecodedImage)
    return hashlib.sha256(jpeg_of(image.views[0], DEFAULT_MAX_PIXELS)).hexdigest()
