"""The addresses of the page, and the decisions of policies that it shows."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest.errors import PolicyError, PrivsieveError, QueryError
from jobs.browse.exports import MEDIA_TYPES, Format, exported
from jobs.filter.decisions import DECISIONS_SCHEMA, decisions_of
from jobs.review.handling import error_answer, no_icon, number_below, page_route, picture_answer, posted
from jobs.review.screen import Screen
from jobs.runtime.listed import row_chunks
from reports.report.browsed_rows import MAX_ROWS, SHOWN, VALUES, BrowsedRows, Filter
from reports.report.evidence import first_frame_boxes
from reports.report.explaining import explanation, facts_in_words
from reports.report.opened import OpenRun
from scoring.policies.policy import Policy
from scoring.table import SCHEMA, Col
from scoring.taxonomy import ATTRIBUTES, KEYS, LEVELS

PAGE_ROWS = 60
MAX_BODY_BYTES = 2**17


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    filter: Filter


class _AskedPage(_Asked):
    page: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 1


class _AskedExport(_Asked):
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
    """Title of the run."""

    withheld: Mapping[str, int]
    """Why -> rows that are neither shown nor named."""

    deciding: threading.Lock = field(default_factory=threading.Lock)


def app(browsing: Browsing) -> Starlette:
    """Return the app. It has no protection of its own: `jobs.review.handling.Guard` must come before it."""
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
        asked = await posted(request, _AskedPage, MAX_BODY_BYTES)
        return JSONResponse(await run_in_threadpool(_page, browsing, asked))

    async def counts(request: Request) -> Response:
        asked = await posted(request, _Asked, MAX_BODY_BYTES)
        await run_in_threadpool(_decide, browsing, asked.filter)
        return JSONResponse(await run_in_threadpool(rows.counts, asked.filter))

    async def export(request: Request) -> Response:
        asked = await posted(request, _AskedExport, MAX_BODY_BYTES)
        await run_in_threadpool(_decide, browsing, asked.filter)
        table = await run_in_threadpool(rows.table, asked.filter)
        content = await run_in_threadpool(exported, table, asked.format, browsing.run.record.format)
        return Response(content, media_type=MEDIA_TYPES[asked.format])

    def picture(request: Request) -> Response:
        number = _number(request, rows)
        screen = browsing.thumbnails if request.url.path.startswith("/api/thumbnail/") else browsing.pictures
        return picture_answer(screen.picture(number))

    def details(request: Request) -> Response:
        return JSONResponse(_details(browsing, _number(request, rows)))

    own = {"/": "index.html", "/browse.css": "browse.css", "/browse.js": "browse.js"}
    shared = ("review.css", "api.js", "boxes.js", "panel.js")
    return Starlette(
        routes=[
            *(page_route(path, "jobs.browse", name) for path, name in own.items()),
            *(page_route(f"/{name}", "jobs.review", name) for name in shared),
            no_icon(),
            Route("/api/state", state),
            Route("/api/page", page, methods=["POST"]),
            Route("/api/counts", counts, methods=["POST"]),
            Route("/api/export", export, methods=["POST"]),
            Route("/api/thumbnail/{number}", picture),
            Route("/api/picture/{number}", picture),
            Route("/api/details/{number}", details),
        ],
        exception_handlers={PrivsieveError: error_answer},
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
            browsing.rows.add_decisions(name, decisions(browsing.run, browsing.policies[name]))


def _page(browsing: Browsing, asked: _AskedPage) -> dict[str, Any]:
    """Return a page of rows. A filter that cannot be applied is an answer, not an error: people mistype conditions."""
    try:
        _decide(browsing, asked.filter)
        num_rows, rows = browsing.rows.page(asked.filter, (asked.page - 1) * PAGE_ROWS, PAGE_ROWS)
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


def decisions(run: OpenRun, policy: Policy) -> pa.Table:
    """Return rows of `DECISIONS_SCHEMA`, one for each image. PolicyError if a rule fails on a row."""
    policy = policy.for_engine(run.record.engine)
    parts = [decisions_of(rows, policy) for rows in row_chunks(run, SCHEMA.names)]
    return pa.concat_tables([DECISIONS_SCHEMA.empty_table(), *parts])
