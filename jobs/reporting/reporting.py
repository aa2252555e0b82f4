"""`report`: a run in figures and, if wanted, as a page.

With `--digest-endpoint` a language model puts the counts of evidence into words, one group at a time. It gets the names
of the kinds of evidence and their counts, nothing else: no picture, no key, no name of a group. What it writes is shown
as its own words. With `--digest-sample` it gets the kinds of a random sample of images, each with all that it shows.
No run stores sentences of a model, since they can repeat what a picture shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from typing import Any

from ingest.errors import LabelsError, QueryError, StorageError
from ingest.sample import printable
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from jobs.reporting.request import ReportRequest
from jobs.runtime.hash_list import NOTHING, HashList, hash_list_of
from jobs.runtime.progress import SILENT, Feedback
from reports.pages import write_page
from reports.report.compute import MAX_GROUPS
from reports.report.opened import OpenRun, open_run
from reports.report.page import Digest, render
from reports.report.results import Report
from reports.report.words import audit_cautions, findings, headline_of
from reports.run.design import SourceSizes
from reports.run.figures import EvidenceCount
from scoring.endpoint import Endpoint, NoAnswerError, RefusedError, checked_url
from scoring.labels.label_files import text_columns, unescaped
from scoring.sql.limits import limits_of_command
from scoring.sql.names import literal
from scoring.table import Col
from scoring.taxonomy import KEYS

COLUMNS = ("category", "images")
MAX_BYTES = 20 * 2**20
MAX_DIGITS = 16
"""Limit of digits of a number below 2**53; Python converts none of more than 4,300."""

OPTION = "--digest-endpoint"
MAX_CHARACTERS = 600
"""Limit of the words about a group that the page shows."""

MAX_TOKENS = 150

_TASK = (
    "You summarise statistics for a privacy officer. Write two plain sentences about why images of one category were "
    "found private. Use only the kinds of evidence and the counts that you are given. Name no person and no place."
)


def run_report(request: ReportRequest, feedback: Feedback = SILENT) -> Report:
    """Return everything that a report says of a run, and write its page if one is asked for.

    RunError, StorageError, QueryError, LabelsError; with a digest EngineError. Nothing is written then.
    """
    hash_list = hash_list_of(request.hash_list)
    sizes: Mapping[str, int] = category_sizes(request.category_sizes) if request.category_sizes else {}
    with open_run(request.run, limits_of_command(request.timeout)) as opened:
        report = opened.summary(request.by, request.private, request.top, SourceSizes(request.source_size, sizes))
        _refuse_sizes(report, request)
        if hash_list is not NOTHING:
            report = _without_listed(opened, report, hash_list, feedback)
        if request.html is None:
            return report
        digest = _digest(opened, report, request)

    write_page(render(report, digest, date.today()), request.html)
    return report


def report_facts(report: Report) -> dict[str, Any]:
    """Return everything that a report says, as JSON types."""
    facts = asdict(report)
    facts["audited"]["gaps"] = report.audited.gaps.model_dump()
    words = {"findings": findings(report), "audit_cautions": audit_cautions(report)}
    facts["coverage"]["num_without_row"] = report.coverage.num_without_row
    counted = {"num_images": report.num_images, "is_whole": report.is_whole}
    return words | counted | {"headline": asdict(headline_of(report))} | facts


def _refuse_sizes(report: Report, request: ReportRequest) -> None:
    num_images, size = report.num_images, request.source_size
    if size is not None and report.is_whole and size != num_images:
        raise QueryError(f"--source-size {size:,}: the run has all {num_images:,} images of its source; leave it out")
    if size is not None and size < num_images:
        raise QueryError(
            f"--source-size {size:,}: the run has {num_images:,} images, and a source has no fewer; give the number of "
            "images of the whole source"
        )
    if not request.category_sizes:
        return
    if report.by != "category":
        raise QueryError("--category-sizes are of categories; leave out --by")
    audited = report.audited.category_sizes
    if audited and dict(audited) != dict(category_sizes(request.category_sizes)):
        raise QueryError(
            f"--category-sizes {request.category_sizes}: corrected rates of this run are weighted with other sizes; "
            "run audit apply --category-sizes with these first"
        )


def _without_listed(opened: OpenRun, report: Report, hash_list: HashList, feedback: Feedback) -> Report:
    """Leave out images on the list. SourceError if pictures that it must be compared with cannot be read."""
    from jobs.runtime.pictures import COLUMNS, clear_of  # load the decoders, which no other report needs

    listed = ", ".join(literal(image.sha256) for image in report.severest) or "NULL"
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    rows = opened.sql(f"SELECT {columns} FROM scored WHERE sha256 IN ({listed})")
    places = {sha256: place for place, sha256 in enumerate(rows[Col.SHA256].to_pylist())}  # of any copy
    rows = rows.take([places[image.sha256] for image in report.severest])
    is_clear, note = clear_of(opened, rows, hash_list, "image", feedback)
    named = tuple(image for image, may_name in zip(report.severest, is_clear, strict=True) if may_name)
    return replace(report, severest=named, severest_note=note)


def _digest(opened: OpenRun, report: Report, request: ReportRequest) -> Digest | None:
    if request.digest_endpoint is None:
        return None
    num, groups = request.digest_sample, list(dict.fromkeys(item.group for item in report.evidence))
    lines, given = evidence_lines(report.evidence), "the counts above"
    if num is not None:
        drawn = opened.explanations(groups, num, request.by, request.private) if groups else {}
        lines = {group: explanation_lines(drawn[group]) for group in groups if group in drawn}
        given = f"the kinds of evidence of up to {num:,} random private images of each"
    return digest_of(lines, request.digest_endpoint, request.digest_model or "", given)


def category_sizes(url: str) -> Mapping[str, int]:
    """Return category -> images. QueryError in one line that repeats no cell, or StorageError."""
    content = given_content(place(url), f"--category-sizes {url}", MAX_BYTES)
    try:
        table = text_columns(content, url)
    except LabelsError as error:
        raise QueryError(str(error)) from None
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise QueryError(f'{url} has no column "{missing[0]}"; it wants the columns {" and ".join(COLUMNS)}')
    if table.num_rows > MAX_GROUPS:
        raise QueryError(f"{url} has more than {MAX_GROUPS:,} categories")
    sizes: dict[str, int] = {}
    for line, (name, text) in enumerate(zip(*(table[column].to_pylist() for column in COLUMNS), strict=True), 2):
        is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
        if name is None or not is_number or not 0 < int(text) < 2**53:
            raise QueryError(f"{url}, line {line}: wants a category and a whole number of images above 0")
        if unescaped(name) in sizes:
            raise QueryError(f"{url}, line {line}: the category was named before; give each category one line")
        sizes[unescaped(name)] = int(text)
    return sizes


def evidence_lines(evidence: Sequence[EvidenceCount]) -> dict[str, list[str]]:
    """Return group -> a line per kind of evidence, with its count."""
    groups = dict[str, list[str]]()
    for item in evidence:
        line = f"{_in_words(item.kind)}: {item.num_images} of {item.num_private} private images"
        groups.setdefault(item.group, []).append(line)
    return groups


def explanation_lines(explanations: Mapping[str, int]) -> list[str]:
    """Return a line per combination of kinds, the most frequent first. explanations: as in `OpenRun.explanations`."""
    num_all = sum(explanations.values())
    ordered = sorted(explanations.items(), key=lambda item: (-item[1], item[0]))
    return [
        f"{', '.join(map(_in_words, kinds.split('; ')))}: {num} of {num_all} private images drawn at random"
        for kinds, num in ordered
    ]


def _in_words(kind: str) -> str:
    return kind.replace("_", " ") if kind in KEYS else kind


def digest_of(lines: Mapping[str, Sequence[str]], endpoint: str, model: str, given: str) -> Digest | None:
    """Ask about each group; None if there is none. EngineError or StorageError if the endpoint does not answer. lines:
    by group, what the model is given. given: the same in words, for readers."""
    if not lines:
        return None
    server = Endpoint(checked_url(endpoint, OPTION), model, num_connections=1, option=OPTION)
    answers = tuple((group, _asked(of_group, server, model)) for group, of_group in lines.items())
    return Digest(model, answers, given)


def _asked(lines: Sequence[str], server: Endpoint, model: str) -> str:
    messages = [{"role": "system", "content": _TASK}, {"role": "user", "content": "\n".join(lines)}]
    body = {"model": model, "temperature": 0, "max_tokens": MAX_TOKENS, "messages": messages}
    try:
        answer: Any = server.chat(body)
    except (NoAnswerError, RefusedError) as error:
        raise StorageError(f"{OPTION}: {server.url}: {error}") from None
    try:
        text = answer["choices"][0]["message"]["content"]
    except (LookupError, TypeError):
        text = None
    if not isinstance(text, str) or not text.strip():
        raise StorageError(f"{OPTION}: what the server sent is no chat completion")
    return printable(" ".join(text.split()))[:MAX_CHARACTERS]
