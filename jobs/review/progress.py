"""What the page says of the review itself."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError
from jobs.review.asking import Asking
from jobs.review.tally import tally_of
from reports.audit.review_progress import Estimate, agreement_of, answers_by_person, enough_labels
from scoring.labels.attention import CHECKS, without_inattentive
from scoring.labels.judgements import judgements
from scoring.labels.reviews import SKIP, standing
from scoring.labels.table import LABELS_SCHEMA
from scoring.runs.audit_sample import AuditSample


def progress(
    asking: Asking,
    reviewer: str,
    owner: str | None,
    audit: tuple[AuditSample, Estimate] | None,
    checks: pa.Table | None,
    next_of: Callable[[], Sequence[str]] = tuple,
) -> dict[str, Any]:
    """JSON types. owner: who may see everybody's share of right answers. checks: known answers, as labels.
    next_of: gives the commands that use the answers.

    audit: the drawn sample, and its estimate.
    """
    asking.answers.refresh()
    answers = standing(asking.answers.table())
    answers = answers.filter(pc.is_in(answers["sha256"], pa.array(asking.hashes, pa.string())))
    labels = answers.select(LABELS_SCHEMA.names)
    tally = tally_of(asking, reviewer)
    says = {
        "num_left": tally.num_left,
        "num_answered": tally.num_answered,
        "num_unclear": tally.num_unclear,
        "num_skipped": tally.num_skipped,
        "in_words": tally.in_words,
        "next": list(next_of()),
        "not_shown": not_shown(asking),
        "people": answers_by_person(labels.filter(pc.not_equal(answers["answer"], SKIP))),
        "agreement": [
            {"of": row.name, "pictures": row.num_items, "same": row.percent, "kappa": row.cohen}
            for row in agreement_of(labels)
        ],
        "enough": None,
        "known": None,
    }
    if audit is not None:
        enough = enough_labels(audit[0], labels, audit[1])
        says["enough"] = {
            "answered": enough.num_answered,
            "drawn": enough.num_drawn,
            "interval": enough.interval,
            "second_look": enough.num_for_second_look,
            "twice": enough.num_judged_twice,
        }
    if checks is not None and (reviewer == owner or not tally.num_left):
        right = right_answers(labels, checks)
        says["known"] = {n: both for n, both in right.items() if reviewer in (owner, n)}
    return says


def not_shown(asking: Asking) -> dict[str, int]:
    """Why -> pictures that were found not to be shown."""
    return dict(Counter(state for state in asking.screen.states().values() if state != "shown"))


def right_answers(labels: pa.Table, checks: pa.Table) -> dict[str, tuple[int, int]]:
    """Person -> right answers, and answers, to what is known."""
    asked = labels.filter(pc.is_in(labels["sha256"], checks["sha256"].combine_chunks()))
    names = set(asked["annotator"].to_pylist())
    if not names:
        return {}
    judged = judgements([("reviews", asked), (CHECKS, checks)])
    try:
        _, counted = without_inattentive(judged, 0.0)
    except LabelsError:  # all of them were skipped
        return {}
    return {name: (counted.num_right[name], counted.num_asked[name]) for name in sorted(names)}
