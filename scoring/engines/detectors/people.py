"""Who is named or described: names, birth dates, staff numbers, user names, and personal data in forms."""

import re
from collections.abc import Iterator

from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.ocr import TextLine
from scoring.engines.detectors.page import Page, evidence_in, greeting
from scoring.text_rules import patterns, vocabulary
from scoring.text_rules.vocabulary import plain, terms, words


def machine_readable_zone(page: Page) -> Iterator[Finding]:
    for line in page.lines:
        if kind := patterns.mrz_kind(line.text):
            for attribute in ("gov_ids", "full_legal_name", "non_unique_id", "age", "gender"):
                yield evidence_in(attribute, 1.0, f"machine-readable zone ({kind})", line)


def named_fields(page: Page) -> Iterator[Finding]:
    parts = {kind: list(page.valued(kind, vocabulary.value_shape)) for kind in ("name", "first_name", "last_name")}
    # Files have names, too: a person's comes with other fields, or with one that says whose it is.
    whose = [field for field in page.fields if field.kind == "name" and not re.match(r"(?i)name\b", field.label.text)]
    is_of_people = bool(whose) or len({field.kind for field in page.fields} - {"name"}) >= 2
    for text, line in parts["name"]:
        if vocabulary.value_shape(text) == "full" and (vocabulary.known_name(text) or is_of_people):
            yield from _named(line, "name in a name field")
        elif vocabulary.given_only(text):
            yield evidence_in("non_unique_id", 1.0, "name in a name field", line)
    for _, line in parts["first_name"] + parts["last_name"]:
        yield evidence_in("non_unique_id", 1.0, "name in a name field", line)
    if parts["first_name"] and (parts["last_name"] or parts["name"]):
        yield from _named(parts["first_name"][0][1], "first and last name in name fields")
    for _, line in page.valued("addressee", lambda text: vocabulary.known_name(text.split("<")[0])):
        yield from _named(line, "name of sender or addressee")


def _named(line: TextLine, kind: str) -> Iterator[Finding]:
    yield evidence_in("full_legal_name", 1.0, kind, line)
    yield evidence_in("non_unique_id", 1.0, kind, line)


def numbered_names(page: Page) -> Iterator[Finding]:
    """Find fields 1 and 2 of driving licences (AAMVA, Directive 2006/126/EC): family name, given names."""
    if not page.terms("identity"):
        return
    for line in page.readable:
        if re.match(r"[12][.\s]{0,2}[^\W\d_a-z]{2,}", line.text) and vocabulary.value_shape(line.text[1:].strip(" .")):
            yield from _named(line, "name on an identity document")


def people(page: Page) -> Iterator[Finding]:
    for line in page.readable:
        if vocabulary.names_person(line.text):
            yield from _named(line, "first and last name")
        elif vocabulary.given_only(greeting(line.text) or ""):
            yield evidence_in("non_unique_id", 1.0, "first name in a greeting", line)
        elif vocabulary.titled(line.text) and not patterns.has_street_address(line.text):
            yield evidence_in("non_unique_id", 1.0, "title with a name", line)
    for _, line in page.valued("staff", lambda text: vocabulary.given_only(text) or vocabulary.known_name(text)):
        yield evidence_in("non_unique_id", 1.0, "first name of staff", line)


_PERSONAL_FIELDS = ("birth_date", "membership", "id_number", "ssn", "account")


def unlabelled_names(page: Page) -> Iterator[Finding]:
    """Find a name without a label on a personal paper: above an address, on a card, next to a user name."""
    about_somebody = any(page.terms(kind) for kind in ("medical_strong", "card", "identity"))
    about_somebody |= any(patterns.YEARS.search(line.text) for line in page.short)
    about_somebody |= any(field.kind in _PERSONAL_FIELDS and field.values for field in page.fields)
    mailboxes = [parts[0] for line in page.readable if (parts := patterns.email_parts(line.text))]
    user_names = [line.text for line in page.readable if patterns.has_handle(line.text)]
    account_words = {word for text in user_names + mailboxes for word in re.split(r"[\W\d_]+", plain(text))}
    for line in page.short:
        if vocabulary.value_shape(line.text) != "full":
            continue
        if vocabulary.known_name(line.text) and (about_somebody or _stands_over_address(page, line)):
            yield from _named(line, "name on a personal paper")
        elif any(plain(word) in account_words for word in line.text.split() if len(word) >= 5):
            yield from _named(line, "name beside a matching user name or mailbox")


def stacked_names(page: Page) -> Iterator[Finding]:
    """Find a name over two lines of a badge, or below a title on its own line."""
    badge = len(page.readable) <= 8 and bool(page.terms("job"))
    for line in page.short:
        under = [other for other in page.short if 0 < other.y - line.y < 2.2 * line.height]
        aligned = [o for o in under if min(abs(o.left - line.left), abs(o.x - line.x)) < 1.5 * line.height]
        below = min(aligned, key=lambda other: other.y, default=None)
        if badge and vocabulary.given_only(line.text):
            yield evidence_in("non_unique_id", 1.0, "first name on a badge", line)
            if below and vocabulary.value_shape(below.text) == "single" and 0.7 < below.height / line.height < 1.4:
                yield from _named(line, "name on a badge")
        elif below and vocabulary.only_title(line.text) and vocabulary.value_shape(below.text) == "full":
            yield from _named(below, "name below a title")


def _stands_over_address(page: Page, line: TextLine) -> bool:
    return any(
        0 < other.y - line.y < 2.5 * line.height
        and abs(other.left - line.left) < 2 * line.height
        and patterns.has_street_address(other.text)
        for other in page.readable
    )


def chat_partner(page: Page) -> Iterator[Finding]:
    """Find the head of a chat: a name alone in the upper sixth."""
    if not page.is_chat:
        return
    for line in page.short:
        if line.area[3] < 0.17 and vocabulary.value_shape(line.text) == "full":
            yield from _named(line, "name at the head of a chat")
        elif line.area[3] < 0.17 and vocabulary.given_only(line.text):
            yield evidence_in("non_unique_id", 1.0, "name at the head of a chat", line)


def birth_date(page: Page) -> Iterator[Finding]:
    birth_lines = [line for line in page.readable if patterns.tells_birth(line.text)]
    for line in birth_lines + [line for _, line in page.valued("birth_date", patterns.has_date)]:
        yield evidence_in("non_unique_id", 1.0, "date of birth", line)
        yield evidence_in("age", 1.0, "date of birth", line)


def sex(page: Page) -> Iterator[Finding]:
    said = r"(?i)(m|f|x|w|male|female|mann?|frau|mannlich|weiblich|homme|femme|[mf]\s?/\s?[mfvh])\b"
    for _, line in page.valued("sex", lambda text: re.match(said, plain(text))):
        yield evidence_in("gender", 1.0, "sex in a form field", line)
    for line in page.short:
        if re.search(r"[\[(][MF][\])]", line.text):
            yield evidence_in("gender", 1.0, "sex beside a name", line)


def memberships(page: Page) -> Iterator[Finding]:
    for _, line in page.valued("membership", _is_identifier):
        yield evidence_in("non_unique_id", 1.0, "membership or staff number", line)


def _is_identifier(text: str) -> bool:
    compact = re.sub(r"[\s.-]", "", text)
    return 4 <= len(compact) <= 24 and sum(c.isdigit() for c in compact) >= 2 and compact.isalnum()


def bookings(page: Page) -> Iterator[Finding]:
    """Find booking codes. Airlines' have six signs, sometimes all letters, which below a label may be another word."""
    for field in page.fields:
        for text, line in field.values if field.kind == "booking" else ():
            code = text.strip()
            is_code = re.fullmatch(r"[A-Z0-9]{5,8}", code) and any(map(str.isdigit, code))
            is_letters = re.fullmatch(r"[A-Z]{6}", code) and line is field.label
            if is_code or is_letters or re.fullmatch(r"\d[\d -]{5,20}\d", code):
                yield evidence_in("non_unique_id", 1.0, "booking number", line)


def handles(page: Page) -> Iterator[Finding]:
    is_social = page.is_chat or len({word for line in page.readable for word in terms("social", line.text)}) >= 2
    for line in page.readable:
        if patterns.has_handle(line.text):
            yield evidence_in("non_unique_id", 1.0 if is_social else 0.5, "user name", line)


def accounts(page: Page) -> Iterator[Finding]:
    for line in page.readable:
        account, is_sure = patterns.account(line.text) or ("", False)
        if account and plain(account) not in words("shared_accounts.txt"):
            yield evidence_in("non_unique_id", 1.0 if is_sure else 0.5, "account name", line)


def beliefs(page: Page) -> Iterator[Finding]:
    for kind, evidence in (("party", "party affiliation"), ("religion", "religion")):
        for _, line in page.valued(kind, lambda text: re.match(r"[A-Z][a-zA-Z]{2,}", text)):
            yield evidence_in("beliefs", 1.0, f"{evidence} in a form field", line)
