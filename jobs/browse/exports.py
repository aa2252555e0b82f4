"""Rows for other programs: CSV, COCO, FiftyOne and CVAT. Never found text, and no rationale.

Sources: COCO, "Data format", object detection; FiftyOne, "Loading datasets from disk", FiftyOneImageDetectionDataset;
CVAT, "XML annotation format", version 1.1 for images.
"""

import json
import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal
from xml.etree import ElementTree

import pyarrow as pa

from ingest import __version__
from ingest.sample import printable
from reports.report.evidence import SIDES, first_frame_boxes
from scoring.labels.csv_cells import as_csv
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES, KEYS

Format = Literal["csv", "coco", "fiftyone", "cvat"]

MEDIA_TYPES: Mapping[Format, str] = {
    "csv": "text/csv",
    "coco": "application/json",
    "fiftyone": "application/json",
    "cvat": "application/xml",
}


def exported(rows: pa.Table, format: Format, source_format: str) -> bytes:
    """Return the file's content. rows: of `BrowsedRows.table`. source_format: of the corpus, such as "tree"."""
    made: Mapping[Format, Callable[[pa.Table, str], bytes]] = {
        "csv": lambda rows, source_format: as_csv(rows.drop_columns(["number", Col.BOXES, Col.NUM_FRAMES])),
        "coco": _coco,
        "fiftyone": _fiftyone,
        "cvat": _cvat,
    }
    return made[format](rows, source_format)


def _images(rows: pa.Table, source_format: str) -> Iterator[tuple[str, int, int, list[dict[str, Any]]]]:
    """Yield path, width and height in pixels, and boxes of each row whose picture has a size. Boxes without an area are
    left out."""
    columns = rows.select([Col.SHARD, Col.KEY, Col.WIDTH, Col.HEIGHT, Col.BOXES])
    for batch in columns.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            if row[Col.WIDTH] and row[Col.HEIGHT]:
                boxes = [box for box in first_frame_boxes(row[Col.BOXES], None) if box["attribute"] and _has_area(box)]
                yield _path(row[Col.SHARD], row[Col.KEY], source_format), row[Col.WIDTH], row[Col.HEIGHT], boxes


def _has_area(box: Mapping[str, Any]) -> bool:
    return bool(box["x_max"] > box["x_min"] and box["y_max"] > box["y_min"])


def _path(shard: str, key: str, source_format: str) -> str:
    """Return the path below the source for a folder tree, else SHARD/KEY: a row lacks the extension inside a tar."""
    path = posixpath.join(shard, key)
    return printable(posixpath.normpath(path) if source_format == "tree" else path)


def _in_pixels(box: Mapping[str, Any], width: int, height: int) -> list[float]:
    """Return x_min, y_min, x_max, y_max."""
    return [round(box[side] * (width if side[0] == "x" else height), 2) for side in SIDES]


def _coco(rows: pa.Table, source_format: str) -> bytes:
    ids = {key: number for number, key in enumerate(KEYS, 1)}
    images, annotations = list[dict[str, Any]](), list[dict[str, Any]]()
    for path, width, height, boxes in _images(rows, source_format):
        images.append({"id": len(images) + 1, "file_name": path, "width": width, "height": height})
        for box in boxes:
            x_min, y_min, x_max, y_max = _in_pixels(box, width, height)
            sides = [x_min, y_min, round(x_max - x_min, 2), round(y_max - y_min, 2)]
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": len(images),
                    "category_id": ids[box["attribute"]],
                    "bbox": sides,
                    "area": round(sides[2] * sides[3], 2),
                    "iscrowd": 0,
                }
            )
    categories = [{"id": ids[a.key], "name": a.key, "supercategory": f"level {a.level}"} for a in ATTRIBUTES]
    content = {
        "info": {"description": f"privsieve {__version__}"},
        "images": images,
        "annotations": annotations,
        "categories": categories,
    }
    return json.dumps(content).encode()


def _fiftyone(rows: pa.Table, source_format: str) -> bytes:
    """Return labels by picture. FiftyOne finds a picture by its path below the source, without extension."""
    labels = {}
    for path, _, _, boxes in _images(rows, source_format):
        name = posixpath.splitext(path)[0] if source_format == "tree" else path
        labels[name] = [
            {
                "label": KEYS.index(box["attribute"]),
                "bounding_box": [
                    box["x_min"],
                    box["y_min"],
                    round(box["x_max"] - box["x_min"], 4),
                    round(box["y_max"] - box["y_min"], 4),
                ],
            }
            for box in boxes
        ]
    return json.dumps({"classes": KEYS, "labels": labels}).encode()


def _cvat(rows: pa.Table, source_format: str) -> bytes:
    root = ElementTree.Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    meta = ElementTree.SubElement(ElementTree.SubElement(root, "meta"), "task")
    labels = ElementTree.SubElement(meta, "labels")
    for attribute in ATTRIBUTES:
        label = ElementTree.SubElement(labels, "label")
        ElementTree.SubElement(label, "name").text = attribute.key
        ElementTree.SubElement(label, "type").text = "rectangle"
    for number, (path, width, height, boxes) in enumerate(_images(rows, source_format)):
        sizes = {"id": str(number), "name": path, "width": str(width), "height": str(height)}
        image = ElementTree.SubElement(root, "image", sizes)
        for box in boxes:
            sides = zip(("xtl", "ytl", "xbr", "ybr"), _in_pixels(box, width, height), strict=True)
            more = {name: f"{value:.2f}" for name, value in sides}
            ElementTree.SubElement(
                image, "box", {"label": box["attribute"], "source": "auto", "occluded": "0", **more, "z_order": "0"}
            )
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content
