"""Papers of identity, health and money: titles and words of a kind, together with data that is filled in."""

import re
from collections.abc import Callable, Iterator

from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.ocr import TextLine
from scoring.engines.detectors.page import Page, evidence_in
from scoring.text_rules import names, patterns
from scoring.text_rules.vocabulary import terms


def identity_document(page: Page) -> Iterator[Finding]:
    titled = [line for line in page.short if terms("identity", line.text)]
    filled = list(_filled_identity_fields(page))
    filled += _numbered_fields(page) if titled else []
    if len(filled) >= (2 if titled else 4):
        yield evidence_in("gov_ids", 1.0, "identity document with its data", (titled or filled)[0])
    elif titled and (filled or (page.num_chars < 80 and _is_title(titled[0]))):
        yield evidence_in("gov_ids", 0.5, "identity document, data not read", titled[0])


def _is_title(line: TextLine) -> bool:
    """Return whether the name of the document makes up most of the line."""
    longest = max(len(wording) for wording in terms("identity", line.text))
    return longest > 0.6 * len(line.text)


def _numbered_fields(page: Page) -> list[TextLine]:
    """Return fields 1-5 of driving licences (AAMVA, Directive 2006/126/EC) that hold a name, a date or a number."""
    filled = re.compile(
        r"[12][.\s]{1,3}[^\W\d_a-z]{2,}|(?:3|4[ab])[.\s]{0,3}\d\d?[./-]\d\d?[./-]\d\d|(?:5|4d)[.\s]{1,3}\w{6,}"
    )
    return [line for line in page.short if filled.match(line.text)]


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
        "last_name": names.value_shape,
        "name": names.value_shape,
        "body": lambda text: len(text) <= 12,
    }
    for kind, test in fits.items():
        yield from (line for _, line in list(page.valued(kind, test))[:1])


def social_security(page: Page) -> Iterator[Finding]:
    for _, line in page.valued("ssn", lambda text: re.search(r"\d{3}[-\s]?\d{2}[-\s]?\d{4}", text)):
        yield evidence_in("gov_ids", 1.0, "social security number", line)
    for line in page.readable:
        if patterns.has_ssn(line.text):
            yield evidence_in("gov_ids", 1.0 if page.terms("financial") else 0.5, "number formed like an SSN", line)


def medical_record(page: Page) -> Iterator[Finding]:
    strong, all_terms = page.terms("medical_strong"), page.terms("medical")
    lines = [line for line in page.short if terms("medical", line.text)]
    if not lines:
        return
    if page.terms("insurance") and len(page.terms("insurance")) >= 3 and not strong:
        yield evidence_in("medical_data", 0.5, "health insurance card", lines[0])
    elif len(strong) >= 2 or len(all_terms) >= 5 or (strong and (len(all_terms) >= 3 or _tells_birth(page))):
        yield evidence_in("medical_data", 1.0, "medical record or prescription", lines[0])
    elif strong or len(all_terms) >= 3:
        yield evidence_in("medical_data", 0.5, "medical words", lines[0])


def _tells_birth(page: Page) -> bool:
    has_birth_line = any(patterns.tells_birth(line.text) for line in page.readable)
    return has_birth_line or bool(page.valued("birth_date", patterns.has_date))


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
    if lines and _is_account_paper(page):
        yield evidence_in("financial_data", 1.0, "bill, pay slip, tax form or bank statement", lines[0])
    elif lines and page.num_amounts >= 1:
        yield evidence_in("financial_data", 0.5, "words of a bill", lines[0])
    priced = [line for line in page.readable if patterns.has_price(line.text)]
    if page.is_shop_paper or len(priced) >= 3:
        yield evidence_in("financial_data", 0.5, "prices", (priced or list(page.readable))[0])


def _is_account_paper(page: Page) -> bool:
    """Return whether it has many words of a kind, or some together with amounts or an account's number."""
    num_terms = len(page.terms("financial"))
    numbered = page.num_amounts >= 2 or bool(page.valued("account", patterns.is_long_number))
    titled = bool(page.terms("financial_strong")) and page.num_amounts >= 2
    return titled or num_terms >= 4 or (num_terms >= 2 and numbered)
