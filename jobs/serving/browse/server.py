"""The addresses of the page, the decisions of policies that it shows, and its export as CSV."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest.errors import PolicyError, QueryError
from jobs.releases.decider import decisions_of_run
from jobs.serving.handling import number_below, page_app, picture_answer, posted
from jobs.serving.shown import Screen
from reports.report.browsed_rows import MAX_ROWS, SHOWN, VALUES, BrowsedRows, Filter
from reports.report.explaining import explanation, facts_in_words
from reports.report.opened import OpenRun
from reports.words import first_frame_boxes
from scoring.labels.label_files import as_csv
from scoring.policies.policy import Policy
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES, KEYS, LEVELS

PAGE_ROWS = 60
MAX_BODY_BYTES = 2**17


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    filter: Filter


class _PageQuery(_Query):
    page: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 1


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
        query = await posted(request, _Query, MAX_BODY_BYTES)
        await run_in_threadpool(_decide, browsing, query.filter)
        table = await run_in_threadpool(rows.table, query.filter)
        table = table.drop_columns(["number", Col.BOXES, Col.NUM_FRAMES])
        return Response(await run_in_threadpool(as_csv, table), media_type="text/csv")

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
