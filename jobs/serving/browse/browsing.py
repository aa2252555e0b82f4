"""The verb `browse`: a page of this machine that shows the pictures of a run by filters."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ingest.errors import PolicyError, QueryError, RunError, number_of
from ingest.storage.place import place
from jobs.console.requests import HashListUrl, Name, Option, RunUrl, Url, checked_request
from jobs.releases.decider import decisions_of_run
from jobs.runtime.hash_list import NOTHING, HashList, hash_list_of
from jobs.runtime.pictures import COLUMNS, READS_AGAIN, PictureRef, Pictures, clearances, reads_pictures
from jobs.runtime.progress import SILENT, Feedback
from jobs.serving.local_server import LocalServer, local_server, refuse_missing
from jobs.serving.shown import Screen
from reports.report.browsed_rows import BrowsedRows
from reports.report.opened import OpenRun, open_run
from scoring.policies.policy_file import SHIPPED, load_policy, policy_bytes
from scoring.runs.source import source_of
from scoring.sql.expressions import boolean_expression
from scoring.sql.limits import limits_of_command
from scoring.table import IMAGE_SCHEMA, LISTED, SCHEMA, Col

if TYPE_CHECKING:
    from jobs.serving.browse.server import Browsing


@checked_request
class BrowseRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    where: Annotated[Name | None, Option(metavar="SQL")] = None
    """Only rows that fit this condition, such as "level IN (1, 2)"."""

    policy: Annotated[Url | None, Option(offers=SHIPPED, fill=", ".join(SHIPPED))] = None
    """Begin with the decisions of this policy: a YAML file, or one that is shipped ({})."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is never shown, named or exported, and only
    counted."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port of this machine. [default: a free one]"""


SECONDS_OF_A_CONDITION = 60
THUMBNAIL_SIDE_PX, KEPT_THUMBNAILS, KEPT_THUMBNAIL_BYTES = 320, 2_000, 64 * 2**20
KEPT_PICTURES = 16


@contextmanager
def prepared(request: BrowseRequest, feedback: Feedback = SILENT) -> Iterator["Browsing"]:
    """Prepare everything but the server. RunError, PolicyError, LabelsError, SourceError or QueryError in one line."""
    from jobs.serving.browse.server import Browsing

    hash_list = hash_list_of(request.hash_list)
    names = list(dict.fromkeys([*SHIPPED, *([] if request.policy is None else [request.policy])]))
    loaded = {name: load_policy(policy_bytes(name), name) for name in names}
    with open_run(request.run, limits_of_command(SECONDS_OF_A_CONDITION)) as run:
        try:
            where = None if request.where is None else boolean_expression(request.where, IMAGE_SCHEMA)
        except QueryError as error:
            raise QueryError(f"--where: {error}") from None
        hidden, withheld = _hidden(run, hash_list, feedback)
        rows = BrowsedRows(run, hidden, where)
        if not rows.num_rows:
            raise RunError(f"{request.run}: there is no row to browse{_and_withheld(withheld)}")
        refusals = {
            name: policy.refusal(run.unanswered(policy.asked), run.record.engine) for name, policy in loaded.items()
        }
        if request.policy is not None and (refusal := refusals[request.policy]) is not None:
            raise PolicyError(refusal)
        policies = {name: policy for name, policy in loaded.items() if refusals[name] is None}
        if request.policy is not None:
            rows.add_decisions(request.policy, decisions_of_run(run, policies[request.policy]))
        for line in run.cautions:
            feedback.notice(line)
        feedback.notice(f"{number_of(rows.num_rows, 'row')}{_and_withheld(withheld)}")
        places = [PictureRef(**row) for row in rows.places().to_pylist()]
        pictures = Pictures(source_of(run.record), places)
        thumbnails = Screen(
            pictures, places, run.record, {}, NOTHING, THUMBNAIL_SIDE_PX, KEPT_THUMBNAILS, KEPT_THUMBNAIL_BYTES
        )
        whole = Screen(pictures, places, run.record, {}, kept=KEPT_PICTURES)
        try:
            yield Browsing(run, rows, thumbnails, whole, policies, request.policy, place(request.run).name, withheld)
        finally:
            thumbnails.close()
            whole.close()


def _hidden(run: OpenRun, hash_list: HashList, feedback: Feedback) -> tuple[pa.Table, Mapping[str, int]]:
    """Return shard and index of withheld rows, and why -> how many, with those that the scan withheld."""
    statement = f"SELECT count(*) AS num_rows FROM images WHERE {Col.REASON} = '{LISTED}'"
    withheld = Counter(listed=run.sql(statement)["num_rows"][0].as_py())
    hidden = [SCHEMA.empty_table().select([Col.SHARD, Col.INDEX])]
    if hash_list is not NOTHING:
        if reads_pictures(run.record, hash_list):
            feedback.notice(READS_AGAIN)
        for all_rows in run.chunks((*COLUMNS, Col.REASON, *([Col.PDQ] if run.record.pdq else []))):
            rows = all_rows.filter(pc.fill_null(pc.not_equal(all_rows[Col.REASON], LISTED), True))
            listed = clearances(run, rows, hash_list)
            withheld.update("listed" if item == "listed" else "not_compared" for item in listed if item != "clear")
            is_hidden = pa.array([item != "clear" for item in listed], pa.bool_())
            hidden.append(rows.filter(is_hidden).select([Col.SHARD, Col.INDEX]))
    return pa.concat_tables(hidden), +withheld


def _and_withheld(withheld: Mapping[str, int]) -> str:
    why = {"listed": "on the hash list", "not_compared": "that cannot be compared with the hash list"}
    return "".join(f"; {number_of(withheld[w], 'more row')} {why[w]}, never shown" for w in why if w in withheld)


@contextmanager
def serving(request: BrowseRequest, feedback: Feedback = SILENT) -> Iterator[LocalServer["Browsing"]]:
    """Start the server. Errors as in `prepared`; PrivsieveError if the extra `review` or the port is not available."""
    refuse_missing("browse")
    from jobs.serving.browse.server import app

    with prepared(request, feedback) as page, local_server(app(page), page, "browse", request.port) as server:
        yield server
