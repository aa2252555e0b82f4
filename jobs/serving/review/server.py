"""The addresses of the page."""

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from jobs.serving.handling import name_route, number_below, page_app, picture_answer, posted, reviewer_of, session_of
from jobs.serving.review.asking import CLASSES, MAX_BODY_BYTES, PostedAnswer
from jobs.serving.review.progress import ReviewPage
from scoring.labels.label_files import SHOWN_TO
from scoring.privacy import PRIVATE_CLASSES, PRIVATE_LEVELS
from scoring.taxonomy import ATTRIBUTES, LEVELS


def app(review: ReviewPage) -> Starlette:
    """Return the app, which `handling.Guard` must protect."""
    asking = review.asking

    def state(request: Request) -> Response:
        session = session_of(request)
        attributes = [
            {"key": a.key, "title": a.title, "level": a.level, "shows": a.shows, "ambiguous": a.ambiguous}
            for a in ATTRIBUTES
        ]
        said = [(a.level, [a.title, f"{a.shows} (GDPR: {a.laws.gdpr or 'not mapped'})"]) for a in ATTRIBUTES]
        rules = {"attributes": [each for _, each in said]}
        rules["private"] = [each for level, each in said if level in PRIVATE_LEVELS]
        rules["classes"] = [[name, f"{rule} (GDPR: {law})"] for name, (rule, law) in PRIVATE_CLASSES.items()]
        return JSONResponse(
            {
                "reviewer": session.reviewer,
                "owner": review.owner,
                "title": review.title,
                "judged": asking.judged,
                "is_blind": asking.is_blind,
                "choices": {"votes": SHOWN_TO, "classes": CLASSES}.get(asking.judged, {}),
                "private_means": review.private_means,
                "question": review.question,
                "rules": [] if review.has_other_meaning else rules.get(asking.judged, []),
                "attributes": attributes,
                "levels": LEVELS,
                "total": len(asking.hashes if session.reviewer is None else asking.of_person(session.reviewer)),
            }
        )

    def next_pictures(request: Request) -> Response:
        reviewer = reviewer_of(request)
        return JSONResponse({"numbers": asking.next(reviewer), "num_left": len(asking.left(reviewer))})

    def skipped(request: Request) -> Response:
        asking.ask_skipped(reviewer_of(request))
        return next_pictures(request)

    def picture(request: Request) -> Response:
        reviewer = reviewer_of(request)
        number = number_below(request.path_params["number"], len(asking.hashes))
        if number is None:
            return JSONResponse({"error": "there is no such picture"}, 404)
        return picture_answer(asking.picture(reviewer, number))

    def says(request: Request) -> Response:
        return JSONResponse(review.progress(reviewer_of(request)))

    async def answer(request: Request) -> Response:
        body = await posted(request, PostedAnswer, MAX_BODY_BYTES)
        return JSONResponse({"model": await run_in_threadpool(asking.save, reviewer_of(request), body)})

    return page_app(
        "jobs.serving.review",
        names=("review.css", "api.js", "boxes.js", "panel.js", "review.js"),
        routes=[
            Route("/api/state", state),
            Route("/api/next", next_pictures),
            Route("/api/picture/{number}", picture),
            Route("/api/progress", says),
            Route("/api/skipped", skipped, methods=["POST"]),
            name_route(asking.refuse_stranger),
            Route("/api/answer", answer, methods=["POST"]),
        ],
    )
