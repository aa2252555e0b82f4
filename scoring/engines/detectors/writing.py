"""Text -> evidence. Each rule looks at one attribute; what it found is told by kind, the text stays here."""

import re
from collections.abc import Callable, Iterator

from scoring.engines.detectors import names, patterns
from scoring.engines.detectors.fields import Field
from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.page import Page, greeting, has_social_words
from scoring.engines.detectors.text import Line
from scoring.engines.detectors.vocabulary import plain, terms

TEXT_ATTRIBUTES = (
    "contact_details", "full_legal_name", "non_unique_id", "medical_data", "financial_data", "gov_ids",
)  # fmt: skip
"""What is null, not absent, where there is text that cannot be read."""

Rule = Callable[[Page], Iterator[Finding]]


def text_findings(page: Page) -> list[Finding]:
    return [finding for rule in _RULES for finding in rule(page)]


def _found(attribute: str, value: float, kind: str, line: Line) -> Finding:
    return Finding(attribute, value, kind, line.area, line.confidence)


def _valued(page: Page, kind: str, fits: Callable[[str], object]) -> Iterator[tuple[str, Line]]:
    """The fields of a kind with a value that fits, each with its line."""
    for field in page.fields:
        if field.kind == kind:
            yield from list(_fitting(field, fits))[:1]


def _fitting(field: Field, fits: Callable[[str], object]) -> Iterator[tuple[str, Line]]:
    return ((text, line) for text, line in field.values if fits(text))


# ---- who ----------------------------------------------------------------------------------------------------------


def _machine_readable_zone(page: Page) -> Iterator[Finding]:
    for line in page.lines:
        if kind := patterns.mrz_kind(line.text):
            for attribute in ("gov_ids", "full_legal_name", "non_unique_id", "age", "gender"):
                yield _found(attribute, 1.0, f"machine-readable zone ({kind})", line)


def _named_fields(page: Page) -> Iterator[Finding]:
    parts = {kind: list(_valued(page, kind, names.value_shape)) for kind in ("name", "first_name", "last_name")}
    for text, line in parts["name"]:
        if names.value_shape(text) == "full":
            yield from _named(line, "name in a name field")
        elif names.given_only(text):
            yield _found("non_unique_id", 1.0, "name in a name field", line)
    for _, line in parts["first_name"] + parts["last_name"]:
        yield _found("non_unique_id", 1.0, "name in a name field", line)
    if parts["first_name"] and (parts["last_name"] or parts["name"]):
        yield from _named(parts["first_name"][0][1], "first and last name in name fields")
    for _, line in _valued(page, "addressee", lambda text: names.known_name(text.split("<")[0])):
        yield from _named(line, "name of sender or addressee")


def _named(line: Line, kind: str) -> Iterator[Finding]:
    yield _found("full_legal_name", 1.0, kind, line)
    yield _found("non_unique_id", 1.0, kind, line)


def _numbered_names(page: Page) -> Iterator[Finding]:
    """Fields 1 and 2 of driving licences (AAMVA, Directive 2006/126/EC): family name, given names."""
    if not page.terms("identity"):
        return
    for line in page.readable:
        if re.match(r"[12][.\s]{0,2}[^\W\d_a-z]{2,}", line.text) and names.value_shape(line.text[1:].strip(" .")):
            yield from _named(line, "name on an identity document")


def _people(page: Page) -> Iterator[Finding]:
    for line in page.readable:
        if names.names_person(line.text):
            yield from _named(line, "first and last name")
        elif names.given_only(greeting(line.text) or ""):
            yield _found("non_unique_id", 1.0, "first name in a greeting", line)
        elif names.titled(line.text) and not patterns.has_street_address(line.text):
            yield _found("non_unique_id", 1.0, "title with a name", line)
    for _, line in _valued(page, "staff", lambda text: names.given_only(text) or names.known_name(text)):
        yield _found("non_unique_id", 1.0, "first name of staff", line)


_PERSONAL_FIELDS = ("birth_date", "membership", "id_number", "ssn", "account")


def _unlabelled_names(page: Page) -> Iterator[Finding]:
    """A name without a label where a paper is about somebody: above an address, on a card, beside a user name."""
    about_somebody = page.terms("medical_strong") or page.terms("card") or page.terms("identity")
    about_somebody = about_somebody or any(field.kind in _PERSONAL_FIELDS and field.values for field in page.fields)
    accounts = _account_words(page)
    for line in page.short:
        if names.value_shape(line.text) != "full":
            continue
        if names.known_name(line.text) and (about_somebody or _stands_over_address(page, line)):
            yield from _named(line, "name on a personal paper")
        elif any(plain(word) in accounts for word in line.text.split() if len(word) >= 5):
            yield from _named(line, "name beside a matching user name or mailbox")


def _stands_over_address(page: Page, line: Line) -> bool:
    return any(
        0 < other.y - line.y < 2.5 * line.height
        and abs(other.left - line.left) < 2 * line.height
        and patterns.has_street_address(other.text)
        for other in page.readable
    )


def _account_words(page: Page) -> frozenset[str]:
    """What user names and mailboxes on the page are made of, split at signs and digits."""
    handles = [line.text for line in page.readable if patterns.has_handle(line.text)]
    boxes = [parts[0] for line in page.readable if (parts := patterns.email_parts(line.text))]
    return frozenset(word for text in handles + boxes for word in re.split(r"[\W\d_]+", plain(text)))


def _chat_partner(page: Page) -> Iterator[Finding]:
    """The head of a chat: a name alone in the upper sixth."""
    if not page.is_chat:
        return
    for line in page.short:
        if line.area[3] < 0.17 and names.value_shape(line.text) == "full" and not terms("social", line.text):
            yield from _named(line, "name at the head of a chat")


def _birth_date(page: Page) -> Iterator[Finding]:
    for _, line in _valued(page, "birth_date", patterns.has_date):
        yield _found("non_unique_id", 1.0, "date of birth", line)
        yield _found("age", 1.0, "date of birth", line)


def _sex(page: Page) -> Iterator[Finding]:
    def fits(text: str) -> bool:
        return bool(re.match(r"(?i)(m|f|x|w|male|female|mann?|frau|mannlich|weiblich|homme|femme|[mf]\s?/\s?[mfvh])\b", plain(text)))

    for _, line in _valued(page, "sex", fits):
        yield _found("gender", 1.0, "sex in a form field", line)
    for line in page.short:
        if re.search(r"[\[(][MF][\])]", line.text):
            yield _found("gender", 1.0, "sex beside a name", line)


def _memberships(page: Page) -> Iterator[Finding]:
    for _, line in _valued(page, "membership", _is_identifier):
        yield _found("non_unique_id", 1.0, "membership or staff number", line)


def _is_identifier(text: str) -> bool:
    compact = re.sub(r"[\s.-]", "", text)
    return 4 <= len(compact) <= 24 and sum(c.isdigit() for c in compact) >= 2 and compact.isalnum()


def _handles(page: Page) -> Iterator[Finding]:
    social = page.is_chat or has_social_words(page.readable)
    for line in page.readable:
        if patterns.has_handle(line.text):
            yield _found("non_unique_id", 1.0 if social else 0.5, "user name", line)


def _beliefs(page: Page) -> Iterator[Finding]:
    for kind, told in (("party", "party affiliation"), ("religion", "religion")):
        for _, line in _valued(page, kind, lambda text: re.match(r"[A-Z][a-zA-Z]{2,}", text)):
            yield _found("beliefs", 1.0, f"{told} in a form field", line)


# ---- documents of identity, health and money ----------------------------------------------------------------------


def _identity_document(page: Page) -> Iterator[Finding]:
    titled = [line for line in page.short if terms("identity", line.text)]
    filled = list(_filled_identity_fields(page))
    filled += _numbered_fields(page) if titled else []
    if len(filled) >= (2 if titled else 4):
        yield _found("gov_ids", 1.0, "identity document with its data", (titled or filled)[0])
    elif titled and (filled or (page.num_chars < 80 and _is_title(titled[0]))):
        yield _found("gov_ids", 0.5, "identity document, data not read", titled[0])


def _is_title(line: Line) -> bool:
    """The name of the document makes most of the line."""
    longest = max(len(wording) for wording in terms("identity", line.text))
    return longest > 0.6 * len(line.text)


def _numbered_fields(page: Page) -> list[Line]:
    """Fields 1–5 of driving licences (AAMVA, Directive 2006/126/EC) that hold a name, a date or a number."""
    filled = re.compile(r"[12][.\s]{1,3}[^\W\d_a-z]{2,}|(?:3|4[ab])[.\s]{0,3}\d\d?[./-]\d\d?[./-]\d\d|(?:5|4d)[.\s]{1,3}\w{6,}")
    return [line for line in page.short if filled.match(line.text)]


def _filled_identity_fields(page: Page) -> Iterator[Line]:
    """One line per kind of field that identity documents have and that holds a value."""
    fits: dict[str, Callable[[str], object]] = {
        "birth_date": patterns.has_date,
        "expiry": patterns.has_date,
        "issue": patterns.has_date,
        "id_number": _is_long_number,
        "sex": lambda text: len(text) <= 8,
        "nationality": lambda text: len(text) >= 3,
        "birth_place": lambda text: len(text) >= 3,
        "last_name": names.value_shape,
        "name": names.value_shape,
        "body": lambda text: len(text) <= 12,
    }
    for kind, test in fits.items():
        yield from (line for _, line in list(_valued(page, kind, test))[:1])


def _is_long_number(text: str) -> bool:
    return sum(c.isdigit() for c in text) >= 4 and "*" not in text


def _social_security(page: Page) -> Iterator[Finding]:
    for _, line in _valued(page, "ssn", lambda text: re.search(r"\d{3}[-\s]?\d{2}[-\s]?\d{4}", text)):
        yield _found("gov_ids", 1.0, "social security number", line)
    for line in page.readable:
        if patterns.has_ssn(line.text):
            yield _found("gov_ids", 1.0 if page.terms("financial") else 0.5, "number formed like an SSN", line)


def _medical_record(page: Page) -> Iterator[Finding]:
    strong, all_terms = page.terms("medical_strong"), page.terms("medical")
    lines = [line for line in page.short if terms("medical", line.text)]
    if not lines:
        return
    if page.terms("insurance") and len(page.terms("insurance")) >= 3 and not strong:
        yield _found("medical_data", 0.5, "health insurance card", lines[0])
    elif len(strong) >= 2 or (strong and len(all_terms) >= 3) or len(all_terms) >= 5:
        yield _found("medical_data", 1.0, "medical record or prescription", lines[0])
    elif strong or len(all_terms) >= 3:
        yield _found("medical_data", 0.5, "medical words", lines[0])


def _numbers_of_money(page: Page) -> Iterator[Finding]:
    for line in page.readable:
        if patterns.has_iban(line.text):
            yield _found("financial_data", 1.0, "IBAN, check digits valid", line)
        elif patterns.has_cheque_line(line.text) and page.terms("financial"):
            yield _found("financial_data", 1.0, "bank routing number, check digit valid", line)
        elif (form := patterns.card_number(line.text)) == "valid":
            yield _found("financial_data", 1.0, "card number, check digit valid", line)
        elif form and page.terms("card"):
            yield _found("financial_data", 1.0, "card number", line)


def _bills(page: Page) -> Iterator[Finding]:
    told = page.terms("financial")
    lines = [line for line in page.short if terms("financial", line.text)]
    accounts = list(_valued(page, "account", _is_long_number))
    if lines and (len(told) >= 4 or (len(told) >= 2 and (page.num_amounts >= 2 or accounts))):
        yield _found("financial_data", 1.0, "bill, pay slip, tax form or bank statement", lines[0])
    elif lines and len(told) >= 1 and page.num_amounts >= 1:
        yield _found("financial_data", 0.5, "words of a bill", lines[0])
    priced = [line for line in page.readable if patterns.has_price(line.text)]
    if page.is_shop_paper or len(priced) >= 3:
        yield _found("financial_data", 0.5, "prices", (priced or list(page.readable))[0])


# ---- how to reach somebody ----------------------------------------------------------------------------------------


def _is_personal(page: Page) -> bool:
    """Whether the page is about one named person, so that its contacts are theirs and not a business's."""
    if page.is_chat:
        return True
    if page.prose_share > 0.5:
        return False
    rules = [_named_fields, _numbered_names, _unlabelled_names]
    rules += [] if page.is_shop_paper else [_people]
    return any(found.attribute == "full_legal_name" for rule in rules for found in rule(page))


def _is_business(page: Page, line: Line) -> bool:
    """Words of a business beside a contact, or a free number."""
    beside = page.row(line)
    return patterns.is_toll_free(line.text) or any(terms("business", other.text) for other in beside)


_SHARED_MAILBOXES = frozenset(
    "info contact support sales hello office admin service help noreply no-reply press jobs marketing team mail "
    "kontakt enquiries inquiries booking bookings reservations orders customer customerservice care feedback news "
    "newsletter privacy legal billing hr careers webmaster post opencode security abuse".split()
)
_FREE_MAIL = re.compile(r"(gmail|googlemail|yahoo|hotmail|outlook|live|icloud|aol|gmx|web|proton|protonmail|mail|t-online|orange|free)\.")


def _email_value(line: Line, personal: bool) -> float:
    local, domain = patterns.email_parts(line.text) or ("", "")
    if local in _SHARED_MAILBOXES:
        return 0.5
    named = any(names.is_given(part) for part in re.split(r"[._\d-]+", local) if len(part) > 2)
    return 1.0 if personal or named or _FREE_MAIL.match(domain) else 0.5


_NUMBER_FIELDS = ("id_number", "membership", "account", "ssn")


def _contacts(page: Page) -> Iterator[Finding]:
    personal = _is_personal(page)
    labelled = {id(line) for _, line in _valued(page, "phone", _is_dialled)}
    others = {id(line) for kind in _NUMBER_FIELDS for _, line in _valued(page, kind, _is_long_number)}
    for line in page.readable:
        value = 1.0 if personal and not _is_business(page, line) else 0.5
        if patterns.email_parts(line.text):
            yield _found("contact_details", _email_value(line, personal), "e-mail address", line)
        if id(line) in labelled or (patterns.has_phone(line.text) and id(line) not in others):
            yield _found("contact_details", value, "phone number", line)
        elif patterns.has_short_phone(line.text) and page.is_chat:
            yield _found("contact_details", 1.0, "phone number", line)
        if patterns.has_street_address(line.text):
            yield _found("contact_details", value, "street address", line)
        if patterns.has_network_address(line.text):
            yield _found("contact_details", 0.5, "network address", line)
    for _, line in _valued(page, "address", lambda text: re.search(r"\d", text) and len(text) > 8):
        yield _found("contact_details", 1.0 if personal else 0.5, "address in a form field", line)


def _is_dialled(text: str) -> bool:
    return bool(re.search(r"\d(?:[\s().+/-]*\d){5,}", patterns.without_dates(text)))


def _places(page: Page) -> Iterator[Finding]:
    cities = [line for line in page.readable if patterns.has_city_line(line.text)]
    for line in page.readable:
        if patterns.has_street_address(line.text):
            yield _found("location", 1.0 if cities else 0.5, "street address", line)
    for line in cities:
        yield _found("location", 0.5, "city with postcode", line)


# ---- plates and paper ---------------------------------------------------------------------------------------------

_PLATES = (
    re.compile(r"[A-Z]{1,3}\d{3,4}"), re.compile(r"\d{3,4}[A-Z]{2,3}"), re.compile(r"\d[A-Z]{3}\d{3}"),
    re.compile(r"\d[A-Z]{2}\d{4}"), re.compile(r"[A-Z]{2}\d{2}[A-Z]{3}"), re.compile(r"[A-Z]{2}\d{3}[A-Z]{2}"),
    re.compile(r"[A-Z]{2}\d{2}[A-Z]{1,2}\d{4}"), re.compile(r"[A-Z]{1,3}-?[A-Z]{1,2}\d{2,4}"),
)  # fmt: skip
"""North America; United Kingdom and Ireland; France, Italy, Spain; India; Germany. Compact, capital letters."""


def _licence_plate(page: Page) -> Iterator[Finding]:
    """A number of a plate's form, alone in its line, in a picture with little else to read."""
    if page.num_chars > 90 or any(field.values for field in page.fields):
        return
    for line in page.readable:
        compact = re.sub(r"[\s.·•:*-]", "", line.text)
        shaped = 5 <= len(compact) <= 10 and any(pattern.fullmatch(compact) for pattern in _PLATES)
        if shaped and 2.0 <= line.width / max(line.height, 1.0) <= 9:
            yield _found("non_unique_id", 1.0, "licence plate", line)


def _paper(page: Page) -> Iterator[Finding]:
    """How much there is to read. A few words on a wall are a sign, not a document."""
    if page.num_chars >= 60 and len(page.readable) >= 4:
        kind = "chat or screen" if page.is_chat else "page of text"
        yield _found("documents", 1.0, kind, max(page.readable, key=lambda line: len(line.text)))
    elif page.num_chars >= 25 and len(page.readable) >= 2:
        yield _found("documents", 0.5, "some writing", max(page.readable, key=lambda line: len(line.text)))
    elif len(page.lines) >= 6 and page.foreign:
        yield Finding("documents", 0.5, "writing that is not read")


def _dates(page: Page) -> Iterator[Finding]:
    births = {id(line) for _, line in _valued(page, "birth_date", patterns.has_date)}
    clocks = [line for line in page.readable if patterns.has_clock_time(line.text)]
    for line in page.readable:
        if patterns.has_date(line.text) and id(line) not in births:
            yield _found("metadata", 1.0, "date", line)
        elif patterns.has_year(line.text):
            yield _found("metadata", 0.5, "year", line)
        elif terms("watermark", line.text) or "©" in line.text:
            yield _found("metadata", 1.0, "watermark or copyright note", line)
    for _, line in _valued(page, "expiry", patterns.has_card_expiry):
        yield _found("metadata", 1.0, "expiry date", line)
    if len(clocks) >= 3:
        yield _found("metadata", 1.0, "times", clocks[0])


_RULES: tuple[Rule, ...] = (
    _machine_readable_zone, _named_fields, _numbered_names, _people, _unlabelled_names, _chat_partner, _birth_date, _sex, _memberships,
    _handles, _beliefs, _identity_document, _social_security, _medical_record, _numbers_of_money, _bills, _contacts,
    _places, _licence_plate, _paper, _dates,
)  # fmt: skip
