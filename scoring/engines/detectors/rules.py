"""Text -> evidence. Each rule looks for one thing and returns the kind of its evidence; the text stays here."""

from collections.abc import Callable, Iterator

from scoring.engines.detectors import contacts, papers, people
from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.page import Page, evidence_in
from scoring.text_rules import patterns
from scoring.text_rules.vocabulary import terms

TEXT_ATTRIBUTES = (
    "contact_details",
    "full_legal_name",
    "non_unique_id",
    "medical_data",
    "financial_data",
    "gov_ids",
    "documents",
    "metadata",
)
"""Attributes that are null, not absent, if there is text that cannot be read."""


def text_findings(page: Page) -> list[Finding]:
    return [finding for rule in _RULES for finding in rule(page)]


def paper(page: Page) -> Iterator[Finding]:
    """Judge the amount of text. A few words on a wall are a sign, not a document."""
    if page.is_document:
        kind = "chat or screen" if page.is_chat else "page of text"
        yield evidence_in("documents", 1.0, kind, max(page.readable, key=lambda line: len(line.text)))
    elif page.num_chars >= 25 and len(page.readable) >= 2:
        yield evidence_in("documents", 0.5, "some writing", max(page.readable, key=lambda line: len(line.text)))
    elif len(page.unread) >= 6:
        yield Finding("documents", 0.5, "writing that is not read")


def dates(page: Page) -> Iterator[Finding]:
    births = {id(line) for _, line in page.valued("birth_date", patterns.has_date)}
    clocks = [line for line in page.readable if patterns.has_clock_time(line.text)]
    for line in page.readable:
        if patterns.has_date(line.text) and id(line) not in births:
            yield evidence_in("metadata", 1.0, "date", line)
        elif patterns.has_years(line.text):
            yield evidence_in("metadata", 1.0, "span of years", line)
        elif patterns.is_year(line.text):
            yield evidence_in("metadata", 0.5, "year", line)
        elif terms("watermark", line.text) or "©" in line.text:
            yield evidence_in("metadata", 1.0, "watermark or copyright note", line)
    for _, line in page.valued("expiry", patterns.has_card_expiry):
        yield evidence_in("metadata", 1.0, "expiry date", line)
    if len(clocks) >= 3:
        yield evidence_in("metadata", 1.0, "times", clocks[0])


_RULES: tuple[Callable[[Page], Iterator[Finding]], ...] = (
    people.machine_readable_zone,
    people.named_fields,
    people.numbered_names,
    people.people,
    people.unlabelled_names,
    people.stacked_names,
    people.chat_partner,
    people.birth_date,
    people.sex,
    people.memberships,
    people.bookings,
    people.handles,
    people.beliefs,
    papers.identity_document,
    papers.social_security,
    papers.medical_record,
    papers.numbers_of_money,
    papers.bills,
    contacts.contacts,
    contacts.places,
    paper,
    dates,
)
