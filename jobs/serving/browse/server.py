"""The addresses of the page, the decisions of policies that it shows, and its exports: CSV and COCO."""

import json
import posixpath
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest import __version__
from ingest.errors import PolicyError, QueryError
from ingest.sample import printable
from jobs.releases.decider import decisions_of_run
from jobs.serving.handling import number_below, page_app, picture_answer, posted
from jobs.serving.shown import Screen
from reports.report.browsed_rows import MAX_ROWS, SHOWN, VALUES, BrowsedRows, Filter
from reports.report.explaining import explanation, facts_in_words
from reports.report.opened import OpenRun
from reports.words import SIDES, first_frame_boxes
from scoring.labels.label_files import as_csv
from scoring.policies.policy import Policy
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES, KEYS, LEVELS

Format = Literal["csv", "coco"]

MEDIA_TYPES: Mapping[Format, str] = {"csv": "text/csv", "coco": "application/json"}


PAGE_ROWS = 60
MAX_BODY_BYTES = 2**17


def exported(rows: pa.Table, format: Format, source_format: str) -> bytes:
    """Return the file's content. rows: of `BrowsedRows.table`. source_format: of the corpus, such as "tree"."""
    if format == "csv":
        return as_csv(rows.drop_columns(["number", Col.BOXES, Col.NUM_FRAMES]))
    return _coco(rows, source_format)


def _images(rows: pa.Table, source_format: str) -> Iterator[tuple[str, int, int, list[dict[str, Any]]]]:
    """Yield path, width and height in pixels, and boxes of each row whose picture has a size. Boxes without an area are
    left out."""
    columns = rows.select([Col.SHARD, Col.KEY, Col.WIDTH, Col.HEIGHT, Col.BOXES])
    for batch in columns.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            if row[Col.WIDTH] and row[Col.HEIGHT]:
                boxes = [
                    box
                    for box in first_frame_boxes(row[Col.BOXES], None)
                    if box["attribute"] and box["x_max"] > box["x_min"] and box["y_max"] > box["y_min"]
                ]
                yield _path(row[Col.SHARD], row[Col.KEY], source_format), row[Col.WIDTH], row[Col.HEIGHT], boxes


def _path(shard: str, key: str, source_format: str) -> str:
    """Return the path below the source for a folder tree, else SHARD/KEY: a row lacks the extension inside a tar."""
    path = posixpath.join(shard, key)
    return printable(posixpath.normpath(path) if source_format == "tree" else path)


def _coco(rows: pa.Table, source_format: str) -> bytes:
    ids = {key: number for number, key in enumerate(KEYS, 1)}
    images, annotations = list[dict[str, Any]](), list[dict[str, Any]]()
    for path, width, height, boxes in _images(rows, source_format):
        images.append({"id": len(images) + 1, "file_name": path, "width": width, "height": height})
        for box in boxes:
            x_min, y_min, x_max, y_max = (round(box[side] * (width if side[0] == "x" else height), 2) for side in SIDES)
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


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    filter: Filter


class _PageQuery(_Query):
    page: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 1


class _ExportQuery(_Query):
    format: Format


@dataclass(frozen=True)
class Browsing:
    """What the page shows, and what it works with."""

    run: OpenRun
    rows: BrowsedRows

    thumbnails: Screen
    """Small pictures by the number of their row."""

    pictures: Screen
    """The same, larger."""

    policies: Mapping[str, Policy]
    """By the name that the user gives."""

    policy: str | None
    """The policy that is chosen at first."""

    title: str

    withheld: Mapping[str, int]
    """Why -> rows that are neither shown nor named."""

    deciding: threading.Lock = field(default_factory=threading.Lock)


def app(browsing: Browsing) -> Starlette:
    """Return the app, which `jobs.serving.handling.Guard` must protect."""
    rows = browsing.rows

    def state(request: Request) -> Response:
        return JSONResponse(
            {
                "title": browsing.title,
                "num_rows": rows.num_rows,
                "withheld": dict(browsing.withheld),
                "policies": list(browsing.policies),
                "policy": browsing.policy,
                "attributes": [{"key": a.key, "title": a.title, "level": a.level} for a in ATTRIBUTES],
                "values": VALUES,
                "levels": LEVELS,
                "page_rows": PAGE_ROWS,
                "formats": list(MEDIA_TYPES),
            }
        )

    async def page(request: Request) -> Response:
        query = await posted(request, _PageQuery, MAX_BODY_BYTES)
        return JSONResponse(await run_in_threadpool(_page, browsing, query))

    async def counts(request: Request) -> Response:
        query = await posted(request, _Query, MAX_BODY_BYTES)
        await run_in_threadpool(_decide, browsing, query.filter)
        return JSONResponse(await run_in_threadpool(rows.counts, query.filter))

    async def export(request: Request) -> Response:
        query = await posted(request, _ExportQuery, MAX_BODY_BYTES)
        await run_in_threadpool(_decide, browsing, query.filter)
        table = await run_in_threadpool(rows.table, query.filter)
        content = await run_in_threadpool(exported, table, query.format, browsing.run.record.source_format)
        return Response(content, media_type=MEDIA_TYPES[query.format])

    def picture(request: Request) -> Response:
        number = _number(request, rows)
        screen = browsing.thumbnails if request.url.path.startswith("/api/thumbnail/") else browsing.pictures
        return picture_answer(screen.picture(number))

    def details(request: Request) -> Response:
        return JSONResponse(_details(browsing, _number(request, rows)))

    return page_app(
        "jobs.serving.browse",
        names=("browse.css", "browse.js"),
        shared=("review.css", "api.js", "boxes.js", "panel.js"),
        routes=[
            Route("/api/state", state),
            Route("/api/page", page, methods=["POST"]),
            Route("/api/counts", counts, methods=["POST"]),
            Route("/api/export", export, methods=["POST"]),
            Route("/api/thumbnail/{number}", picture),
            Route("/api/picture/{number}", picture),
            Route("/api/details/{number}", details),
        ],
    )


def _number(request: Request, rows: BrowsedRows) -> int:
    number = number_below(request.path_params["number"], rows.num_rows)
    if number is None:
        raise QueryError("there is no such row")
    return number


def _decide(browsing: Browsing, wanted: Filter) -> None:
    """Decide by the policy that the filter names, the first time that it is named."""
    name = wanted.policy
    if name is None or name not in browsing.policies:
        return
    with browsing.deciding:
        if not browsing.rows.has_decisions(name):
            browsing.rows.add_decisions(name, decisions_of_run(browsing.run, browsing.policies[name]))


def _page(browsing: Browsing, query: _PageQuery) -> dict[str, Any]:
    """Return a page of rows. A filter that cannot be applied is an answer, not an error: people mistype conditions."""
    try:
        _decide(browsing, query.filter)
        num_rows, rows = browsing.rows.page(query.filter, (query.page - 1) * PAGE_ROWS, PAGE_ROWS)
    except (QueryError, PolicyError) as error:
        return {"error": str(error)}
    return {"num_rows": num_rows, "rows": [_shown(row) for row in rows]}


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as the page shows it."""
    return {
        "number": row["number"],
        **{name: row[name] for name in SHOWN},
        "has_picture": row[Col.SHA256] is not None,
        "present": [key for key in KEYS if row[key] == 1],
        "boxes": first_frame_boxes(row[Col.BOXES]),
    }


def _details(browsing: Browsing, number: int) -> dict[str, Any]:
    row = browsing.rows.row_at(number)
    explained = explanation(browsing.run, row, list(browsing.policies.values()))
    return {
        "facts": facts_in_words(explained),
        "decisions": [
            {
                "policy": decision.policy,
                "action": decision.action,
                "rule": decision.rule,
                "reason": decision.reason,
                "condition": decision.condition_in_words,
            }
            for decision in explained.decisions
        ],
        "boxes": first_frame_boxes(row[Col.BOXES][0].as_py()),
    }
