"""Text -> evidence. Each rule looks for one thing and returns the kind of its evidence; the text stays here.

Papers of identity, health and money are known by titles and words of a kind, together with data that is filled in.

Contact details (mail, phone, address) are 1 if they are a person's, 0.5 if they are a business's.
"""

import re
from collections.abc import Callable, Iterator

from scoring.engines.detectors import people
from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.ocr import TextLine
from scoring.engines.detectors.page import Page, evidence_in
from scoring.text_rules import patterns, vocabulary
from scoring.text_rules.vocabulary import terms, words

_NUMBERED_FIELD = re.compile(
    r"[12][.\s]{1,3}[^\W\d_a-z]{2,}|(?:3|4[ab])[.\s]{0,3}\d\d?[./-]\d\d?[./-]\d\d|(?:5|4d)[.\s]{1,3}\w{6,}"
)
"""Fields 1-5 of driving licences (AAMVA, Directive 2006/126/EC) that hold a name, a date or a number."""


def identity_document(page: Page) -> Iterator[Finding]:
    titled = [line for line in page.short if terms("identity", line.text)]
    filled = list(_filled_identity_fields(page))
    filled += [line for line in page.short if titled and _NUMBERED_FIELD.match(line.text)]
    if len(filled) >= (2 if titled else 4):
        yield evidence_in("gov_ids", 1.0, "identity document with its data", (titled or filled)[0])
    elif titled and (filled or (page.num_chars < 80 and _is_title(titled[0]))):
        yield evidence_in("gov_ids", 0.5, "identity document, data not read", titled[0])


def _is_title(line: TextLine) -> bool:
    """Return whether the name of the document makes up most of the line."""
    longest = max(len(wording) for wording in terms("identity", line.text))
    return longest > 0.6 * len(line.text)


def _filled_identity_fields(page: Page) -> Iterator[TextLine]:
    """Yield one line per kind of field of identity documents that holds a value."""
    fits: dict[str, Callable[[str], object]] = {
        "birth_date": patterns.has_date,
        "expiry": patterns.has_date,
        "issue": patterns.has_date,
        "id_number": patterns.is_long_number,
        "sex": lambda text: len(text) <= 8,
        "nationality": lambda text: len(text) >= 3,
        "birth_place": lambda text: len(text) >= 3,
        "last_name": vocabulary.value_shape,
        "name": vocabulary.value_shape,
        "body": lambda text: len(text) <= 12,
    }
    for kind, test in fits.items():
        yield from (line for _, line in list(page.valued(kind, test))[:1])


def social_security(page: Page) -> Iterator[Finding]:
    for _, line in page.valued("ssn", lambda text: re.search(r"\d{3}[-\s]?\d{2}[-\s]?\d{4}", text)):
        yield evidence_in("gov_ids", 1.0, "social security number", line)
    for line in page.readable:
        if patterns.SSN.search(line.text):
            yield evidence_in("gov_ids", 1.0 if page.terms("financial") else 0.5, "number formed like an SSN", line)


def medical_record(page: Page) -> Iterator[Finding]:
    strong, all_terms = page.terms("medical_strong"), page.terms("medical")
    lines = [line for line in page.short if terms("medical", line.text)]
    if not lines:
        return
    if page.terms("insurance") and len(page.terms("insurance")) >= 3 and not strong:
        yield evidence_in("medical_data", 0.5, "health insurance card", lines[0])
    elif len(strong) >= 2 or len(all_terms) >= 5 or (strong and (len(all_terms) >= 3 or page.tells_birth)):
        yield evidence_in("medical_data", 1.0, "medical record or prescription", lines[0])
    elif strong or len(all_terms) >= 3:
        yield evidence_in("medical_data", 0.5, "medical words", lines[0])


def numbers_of_money(page: Page) -> Iterator[Finding]:
    for line in page.readable:
        if patterns.has_iban(line.text):
            yield evidence_in("financial_data", 1.0, "IBAN, check digits valid", line)
        elif patterns.has_cheque_line(" ".join(o.text for o in page.row(line))) and page.terms("financial"):
            yield evidence_in("financial_data", 1.0, "bank routing number, check digit valid", line)
        elif (form := patterns.card_number(line.text)) == "valid":
            yield evidence_in("financial_data", 1.0, "card number, check digit valid", line)
        elif form and page.terms("card"):
            yield evidence_in("financial_data", 1.0, "card number", line)


def bills(page: Page) -> Iterator[Finding]:
    lines = [line for line in page.short if terms("financial", line.text)]
    num_terms, has_amounts = len(page.terms("financial")), page.num_amounts >= 2
    is_numbered = has_amounts or bool(page.valued("account", patterns.is_long_number))
    is_titled = has_amounts and bool(page.terms("financial_strong"))
    if lines and (is_titled or num_terms >= 4 or (num_terms >= 2 and is_numbered)):
        yield evidence_in("financial_data", 1.0, "bill, pay slip, tax form or bank statement", lines[0])
    elif lines and page.num_amounts >= 1:
        yield evidence_in("financial_data", 0.5, "words of a bill", lines[0])
    priced = [line for line in page.readable if patterns.PRICE.search(line.text)]
    if page.is_shop_paper or len(priced) >= 3:
        yield evidence_in("financial_data", 0.5, "prices", (priced or list(page.readable))[0])


def _is_personal(page: Page) -> bool:
    """Return whether the page is about one named person, so that its contacts are theirs and not a business's."""
    if page.is_chat:
        return True
    if len(page.short) < 0.5 * len(page.readable):  # running text
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
    return bool(patterns.TOLL_FREE.search(line.text)) or any(terms("business", o.text) for o in same_row + head)


_FREE_MAIL = re.compile(
    r"(gmail|googlemail|yahoo|hotmail|outlook|live|icloud|aol|gmx|web|proton|protonmail|mail|t-online|orange|free)\."
)


def _email_value(line: TextLine, personal: bool) -> float:
    local, domain = patterns.email_parts(line.text) or ("", "")
    if local in words("shared_mailboxes.txt"):
        return 0.5
    named = any(vocabulary.is_given(part) for part in re.split(r"[._\d-]+", local) if len(part) > 2)
    return 1.0 if personal or named or _FREE_MAIL.match(domain) else 0.5


_DIALLED = re.compile(r"\d(?:[\s().+/-]*\d){5,}")
_NUMBER_FIELDS = ("id_number", "membership", "account", "ssn")


def contacts(page: Page) -> Iterator[Finding]:
    personal = _is_personal(page)
    dialled = page.valued("phone", lambda text: _DIALLED.search(patterns.without_dates(text)))
    labelled = {id(line) for _, line in dialled}
    others = {id(line) for kind in _NUMBER_FIELDS for _, line in page.valued(kind, patterns.is_long_number)}
    for line in page.readable:
        value = 1.0 if personal and not _is_business(page, line, with_line=True) else 0.5
        if patterns.email_parts(line.text):
            yield evidence_in("contact_details", _email_value(line, personal), "e-mail address", line)
        if id(line) in labelled or (patterns.has_phone(line.text) and id(line) not in others):
            yield evidence_in("contact_details", value, "phone number", line)
        elif patterns.SHORT_PHONE.search(line.text) and page.is_chat:
            yield evidence_in("contact_details", 1.0, "phone number", line)
        if patterns.has_street_address(line.text):
            theirs = personal and not _is_business(page, line, with_line=False)
            yield evidence_in("contact_details", 1.0 if theirs else 0.5, "street address", line)
        if patterns.has_network_address(line.text):
            yield evidence_in("contact_details", 0.5, "network address", line)
    for _, line in page.valued("address", lambda text: re.search(r"\d", text) and len(text) > 8):
        yield evidence_in("contact_details", 1.0 if personal else 0.5, "address in a form field", line)


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
    clocks = [line for line in page.readable if patterns.CLOCK.search(line.text)]
    for line in page.readable:
        if patterns.has_date(line.text) and id(line) not in births:
            yield evidence_in("metadata", 1.0, "date", line)
        elif patterns.YEARS.search(line.text):
            yield evidence_in("metadata", 1.0, "span of years", line)
        elif re.fullmatch(r"\s*(?:19|20)\d\d\s*", line.text):
            yield evidence_in("metadata", 0.5, "year", line)
        elif terms("watermark", line.text) or "©" in line.text:
            yield evidence_in("metadata", 1.0, "watermark or copyright note", line)
    for _, line in page.valued("expiry", patterns.CARD_EXPIRY.search):
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
    people.accounts,
    people.beliefs,
    identity_document,
    social_security,
    medical_record,
    numbers_of_money,
    bills,
    contacts,
    places,
    paper,
    dates,
)
