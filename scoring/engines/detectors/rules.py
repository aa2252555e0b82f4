"""Text -> evidence. Each rule looks for one thing and returns the kind of its evidence; the text stays here.

Contact details (mail, phone, address) are 1 if they are a person's, 0.5 if they are a business's.
"""

import re
from collections.abc import Callable, Iterator

from scoring.engines.detectors import papers, people
from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.ocr import TextLine
from scoring.engines.detectors.page import Page, evidence_in
from scoring.text_rules import names, patterns
from scoring.text_rules.vocabulary import terms, words


def _is_personal(page: Page) -> bool:
    """Return whether the page is about one named person, so that its contacts are theirs and not a business's."""
    if page.is_chat:
        return True
    if page.prose_share > 0.5:
        return False
    rules = [people.named_fields, people.numbered_names, people.unlabelled_names, people.stacked_names]
    rules += [] if page.is_shop_paper else [people.people]
    return any(finding.attribute == "full_legal_name" for rule in rules for finding in rule(page))


def _is_business(page: Page, line: TextLine, with_line: bool) -> bool:
    """Return whether a contact is a business's: by words in its row or letterhead, or a toll-free number.

    with_line: whether words in the line itself count too; streets are called after markets and hospitals.
    """
    same_row = [other for other in page.row(line) if with_line or other is not line]
    head = [other for other in page.readable[:3] if 0 < line.y - other.y < 2.5 * other.height]
    return patterns.is_toll_free(line.text) or any(terms("business", other.text) for other in same_row + head)


_FREE_MAIL = re.compile(
    r"(gmail|googlemail|yahoo|hotmail|outlook|live|icloud|aol|gmx|web|proton|protonmail|mail|t-online|orange|free)\."
)


def _email_value(line: TextLine, personal: bool) -> float:
    local, domain = patterns.email_parts(line.text) or ("", "")
    if local in words("shared_mailboxes.txt"):
        return 0.5
    named = any(names.is_given(part) for part in re.split(r"[._\d-]+", local) if len(part) > 2)
    return 1.0 if personal or named or _FREE_MAIL.match(domain) else 0.5


_NUMBER_FIELDS = ("id_number", "membership", "account", "ssn")


def contacts(page: Page) -> Iterator[Finding]:
    personal = _is_personal(page)
    labelled = {id(line) for _, line in page.valued("phone", _is_dialled)}
    others = {id(line) for kind in _NUMBER_FIELDS for _, line in page.valued(kind, patterns.is_long_number)}
    for line in page.readable:
        value = 1.0 if personal and not _is_business(page, line, with_line=True) else 0.5
        if patterns.email_parts(line.text):
            yield evidence_in("contact_details", _email_value(line, personal), "e-mail address", line)
        if id(line) in labelled or (patterns.has_phone(line.text) and id(line) not in others):
            yield evidence_in("contact_details", value, "phone number", line)
        elif patterns.has_short_phone(line.text) and page.is_chat:
            yield evidence_in("contact_details", 1.0, "phone number", line)
        if patterns.has_street_address(line.text):
            theirs = personal and not _is_business(page, line, with_line=False)
            yield evidence_in("contact_details", 1.0 if theirs else 0.5, "street address", line)
        if patterns.has_network_address(line.text):
            yield evidence_in("contact_details", 0.5, "network address", line)
    for _, line in page.valued("address", lambda text: re.search(r"\d", text) and len(text) > 8):
        yield evidence_in("contact_details", 1.0 if personal else 0.5, "address in a form field", line)


def _is_dialled(text: str) -> bool:
    return bool(re.search(r"\d(?:[\s().+/-]*\d){5,}", patterns.without_dates(text)))


def places(page: Page) -> Iterator[Finding]:
    cities = [line for line in page.readable if patterns.has_city_line(line.text)]
    for line in page.readable:
        if patterns.has_street_address(line.text):
            yield evidence_in("location", 1.0 if cities else 0.5, "street address", line)
    for line in cities:
        yield evidence_in("location", 0.5, "city with postcode", line)


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
    contacts,
    places,
    paper,
    dates,
)
