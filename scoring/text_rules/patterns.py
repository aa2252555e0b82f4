"""Values that are recognised by their form alone in one line of text: dates, numbers with check digits, addresses.

Check digits set a number of a known kind apart from any other row of digits.
"""

import re
from functools import cache

from scoring.text_rules.vocabulary import wordings, words

_READ_AS_DIGIT = str.maketrans("OQDIZSBG", "00012586")
"""Letters that text recognition puts where only digits can be."""


def luhn(number: str) -> bool:
    """Check the digits of a payment card or an IMEI (ISO/IEC 7812-1); other characters are ignored.

    >>> luhn("4111 1111 1111 1111"), luhn("4111 1111 1111 1112")
    (True, False)
    """
    digits = [int(c) for c in number if c.isdigit()]
    doubled = [sum(divmod(2 * d, 10)) for d in digits[-2::-2]]
    return bool(digits) and (sum(digits[::-2]) + sum(doubled)) % 10 == 0


def iban(number: str) -> bool:
    """Check an IBAN (ISO 13616): country, two check digits, up to 30 characters; mod 97 is 1.

    >>> iban("GB82 WEST 1234 5698 7654 32")
    True
    """
    compact = re.sub(r"\s", "", number).upper()
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", compact):
        return False
    rotated = compact[4:] + compact[:4]
    return int("".join(str(int(c, 36)) for c in rotated)) % 97 == 1


def aba_routing(number: str) -> bool:
    """Check the nine digits of a bank on US cheques: weights 3, 7, 1.

    >>> aba_routing("011000015")
    True
    """
    digits = [int(c) for c in number if c.isdigit()]
    return len(digits) == 9 and any(digits) and sum(d * (3, 7, 1)[i % 3] for i, d in enumerate(digits)) % 10 == 0


def mrz_digit(field: str) -> int:
    """Compute a check digit by ICAO Doc 9303 part 3: weights 7, 3, 1 over digits, letters (A = 10) and fillers (0)."""
    values = [0 if c == "<" else int(c, 36) for c in field]
    return sum(value * (7, 3, 1)[i % 3] for i, value in enumerate(values)) % 10


def mrz_dates_hold(line: str) -> bool:
    """Return whether birth and expiry dates of an MRZ line carry right check digits (TD3/TD2 line 2 or TD1 line 2).

    The line is compact: no spaces. Both dates must hold, so chance is 1 in 100.
    """
    for birth, expiry in ((13, 21), (0, 8)):
        spans = [line[start : start + 7].translate(_READ_AS_DIGIT) for start in (birth, expiry)]
        if all(re.fullmatch(r"\d{7}", span) and mrz_digit(span[:6]) == int(span[6]) for span in spans):
            return True
    return False


_MONTH = (
    r"(?:jan|feb|fev|m[aä]r|mrz|apr|abr|avr|ma[iy]|jun|jui|jul|aug|ago|ao[uû]|sep|set|o[ck]t|out|nov|de[czs]|d[ée]c)"
    r"[a-zéûçä]{0,7}\.?"
)
# No word border after them: OCR drops spaces, as in "2019/07/1416:22".
_DATES = (
    re.compile(r"(?<!\d)(?:19|20)\d\d([./-])(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])"),
    re.compile(
        r"(?<!\d)(?:0?[1-9]|[12]\d|3[01])\s?([./-])\s?(?:0?[1-9]|[12]\d|3[01])\s?\1\s?(?:(?:19|20)\d\d|\d\d(?!\d))"
    ),
    re.compile(
        rf"(?<!\d)(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?\.?[\s/-]?(?:de )?{_MONTH}(?:\s?/\s?{_MONTH})?"
        r"[\s,./-]*(?:de )?(?:(?:19|20)\d\d|'?\d\d(?!\d))",
        re.IGNORECASE,
    ),
    re.compile(rf"\b{_MONTH}\s?(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?[\s,]*(?:19|20)\d\d", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s(?:19|20)\d\d(?!\d)", re.IGNORECASE),
    re.compile(r"(?<!\d)(?:0?[1-9]|[12]\d|3[01])\s(?:0?[1-9]|1[0-2])\s(?:19|20)\d\d(?!\d)"),
)
YEARS = re.compile(r"(?<!\d)(?:1[89]|20)\d\d\s?[-\u2013\u2014]\s?(?:(?:1[89]|20)\d\d(?!\d)|present|heute)")
"""A span of years: of a life, a job, a school."""
CARD_EXPIRY = re.compile(r"(?<!\d)(?:0[1-9]|1[0-2])\s?/\s?\d\d(?!\d)")
"""A month and year as on payment cards."""
CLOCK = re.compile(r"(?<![\d:.,])(?:[01]?\d|2[0-3])[:h][0-5]\d(?::[0-5]\d)?(?![\d:])")
_EMAIL = re.compile(r"(?<![\w.+%-])([\w.+%-]+)\s?@\s?((?:[\w-]+\.)+[a-z]{2,})", re.IGNORECASE)
_HANDLE = re.compile(r"(?<![\w.])@(?=[\w.]*[a-z])[\w.]{3,30}", re.IGNORECASE)
_ACCOUNT = r"(?:^\s*(?:\(\S{1,30}\)\s?)?|[\[(])([^\W\d_][\w.-]{1,30})@[\w-]{1,60}"
"""At the start of a line, behind the name of an environment, or behind a bracket."""
_SHELL = re.compile(
    rf"{_ACCOUNT}(?:\.[\w-]{{1,60}}){{0,4}}"
    r"(?::\s?[~/](?!\d)|\s[~/](?!\d)[^\s@$#%]{0,60}\s?[$#%](?:\s|$)|[:\s]\s?(?!\d)[^\s@$#%\]]{1,60}\]\s?[$#%](?:\s|$))"
)
_SHELL_IN_FOLDER = re.compile(rf"{_ACCOUNT}\s[^\W\d][\w.-]{{0,60}}\s[$#%](?:\s|$)")
"""With the bare name of a folder, as zsh shows it: prices and shares can look so, too."""
_CHANNEL = re.compile(r"\(~([^\W\d_][\w.-]{1,30})@")
"""Who joins a channel of Internet Relay Chat: an account that the server has not verified, and a host."""
_PHONES = (
    re.compile(r"\+\s?\d[\d\s().\u2013-]{6,20}\d"),
    re.compile(r"(?<![\d-])(?:1[-. ]?)?\(?[2-9]\d\d\)?[-. \u2013]?\s?\d{3}[-. \u2013]\d{4}(?!\d)"),
    re.compile(r"(?<!\d)(?<!\d\s)(?!000)0\d{2,4}[\s/-]\s?\d{3,4}[\s-]?\d{2,5}(?!\d)"),
    re.compile(r"(?<!\d)0[1-9](?:[\s.]\d\d){4}(?!\d)"),
)
SHORT_PHONE = re.compile(r"(?<![\d-])\d{3}-\d{4}(?![\d-])")
"""Seven digits, as used inside one area; too weak without a word for a number next to them."""
TOLL_FREE = re.compile(r"(?<!\d)(?:\+?1[-. ]?)?\(?8(?:00|33|44|55|66|77|88)\)?[-. ]|(?<!\d)0800|\+1[\s-]?200[\s-]")
_ADDRESS_NUMBER = re.compile(r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])")
SSN = re.compile(r"(?<![\d-])(?!000|666|9[6-9]\d)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\d-])")
_CARD = re.compile(r"(?<!\d)(?:[2-6]\d{3}[\s-]?\d{4}[\s-]?\d{4}[\s-]?\d{4}|3[47]\d\d[\s-]?\d{6}[\s-]?\d{5})(?!\d)")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){2,7}(?:\s?[A-Z0-9]{1,4})?")
_CHEQUE = re.compile(r"(?<!\d)(\d{9})(?!\d)")
_CURRENCY = r"(?:[$€£¥₹₽]|USD|EUR|GBP|CHF|Rs\.?|INR|CAD|AUD|R\$|kr\.?|zł)"
PRICE = re.compile(
    rf"{_CURRENCY}\s?[-+]?\d[\d.,\s']*\d|{_CURRENCY}\s?\d"
    rf"|(?<![\d./:])\d{{1,3}}(?:[.,' ]\d{{3}})*[.,]\d\d\s?{_CURRENCY}",
    re.IGNORECASE,
)
_BARE_AMOUNT = re.compile(r"(?<![\d.,/:])(?:\d{1,3}(?:[.,']\d{3})+|\d{1,6})[.,]\d\d\s?[-*A-Z]?\Z")
_MRZ = re.compile(r"[A-Z0-9<]{28,46}")
_MRZ_NAMES = re.compile(r"\A[PIACV][A-Z<][A-Z0<]{3}[A-Z0<]*<<[A-Z0]+")
# From the start of a row of letters, so that a long row is looked through once.
_CITY = re.compile(r"(?<![A-Za-z.])[a-z.]*[A-Z][A-Za-z.]+(?:\s[A-Z][A-Za-z.]+)*,?\s?\b[A-Z]{2},?\s?\d{5}(?:-\d{4})?\b")
_POSTCODE = re.compile(r"\b[A-Z]{1,2}\d[A-Z\d]?\s?\d[A-BD-HJLNP-UW-Z]{2}\b")
_BOX = re.compile(r"\b(?:p\.?\s?o\.?\s?box|postfach|apartado|bo[iî]te postale)\s?\d+", re.IGNORECASE)
_COMPOUND_STREET = re.compile(
    r"\b[A-ZÄÖÜ][\wäöüß.-]{2,}(?:stra(?:ß|ss)e|str\.|weg|gasse|platz|allee|laan|straat|gatan|vej)\s?\d{1,4}\s?[a-z]?\b"
)


def has_date(text: str) -> bool:
    return any(pattern.search(text) for pattern in _DATES)


def without_dates(text: str) -> str:
    """Return the text without its dates, so that they are not taken for other numbers."""
    for pattern in _DATES:
        text = pattern.sub(" ", text)
    return text


_BORN = re.compile(
    r"\b(?:n[ée]\(?e?\)? le|geb\.?(?: am)?|geboren am|born(?: on)?|nat[oa] il"
    r"|nacid[oa] el|nascid[oa] em|d\.?o\.?b\.?)[\s:]*",
    re.IGNORECASE,
)


def tells_birth(text: str) -> bool:
    """Find a date that follows a word for being born, anywhere in the line."""
    return any(has_date(text[match.end() : match.end() + 20]) for match in _BORN.finditer(text))


def is_clock_time(text: str) -> bool:
    """Return whether a text is nothing but a time, as under a chat message or on a status bar."""
    return bool(CLOCK.match(text.strip())) and len(text.strip()) <= 11


def email_parts(text: str) -> tuple[str, str] | None:
    """Return the first address as (the part before the @, the part after it)."""
    match = _EMAIL.search(text)
    return (match[1].lower(), match[2].lower()) if match else None


def has_handle(text: str) -> bool:
    """Find a user name such as those of social networks."""
    return bool(_HANDLE.search(text)) and not _EMAIL.search(text)


def account(text: str) -> tuple[str, bool] | None:
    """Return the account before the prompt of a shell, or of who joins a channel, and whether it surely is one.

    >>> account("ana@mill:~/src$ ls"), account("Ana (~ana@mill.example) has joined"), account("ana@mill.example")
    (('ana', True), ('ana', True), None)
    >>> account("ana@mill src % ls")
    ('ana', False)
    """
    if match := _SHELL.search(text) or _CHANNEL.search(text):
        return match[1], True
    match = _SHELL_IN_FOLDER.search(text)
    return (match[1], False) if match else None


def has_phone(text: str) -> bool:
    cleaned = without_dates(text)
    if _IBAN.search(cleaned) or _CARD.search(cleaned):
        return False
    return any(9 <= sum(c.isdigit() for c in p[0]) <= 15 for e in _PHONES for p in e.finditer(cleaned))


def has_network_address(text: str) -> bool:
    """Find an IPv4 address that is not a version number: not all parts below 10."""
    match = _ADDRESS_NUMBER.search(text)
    return bool(match) and any(int(part) > 9 for part in match[0].split("."))  # type: ignore[index]


def card_number(text: str) -> str | None:
    """Return "valid" if the Luhn digit holds, "shaped" if only grouping and first digit are a card's."""
    numbers = [match[0] for match in _CARD.finditer(text)]
    if any(luhn(number) for number in numbers):
        return "valid"
    return "shaped" if any(re.search(r"[\s-]", number) for number in numbers) else None


@cache
def _iban_lengths() -> dict[str, int]:
    return {entry[:2]: int(entry[2:]) for entry in words("iban_lengths.txt")}


def has_iban(text: str) -> bool:
    """Look for an IBAN of its country's length with mod 97 right; a word may follow it without a space."""
    for match in _IBAN.finditer(text.upper()):
        compact = re.sub(r"\s", "", match[0])
        length = _iban_lengths().get(compact[:2], 99)
        if len(compact) >= length and iban(compact[:length]):
            return True
    return False


def has_cheque_line(text: str) -> bool:
    """Find a bank's nine digits with their check digit, among other numbers."""
    runs = re.findall(r"\d{3,}", text)
    return len(runs) >= 2 and any(aba_routing(number) for number in _CHEQUE.findall(text))


def is_long_number(text: str) -> bool:
    """Return whether a text has at least four digits, none of them masked."""
    return sum(c.isdigit() for c in text) >= 4 and "*" not in text


def count_amounts(text: str) -> int:
    return len(PRICE.findall(text)) or int(bool(_BARE_AMOUNT.search(text)))


def mrz_kind(text: str) -> str | None:
    """Return "names" or "dates, check digits valid" for a line of a machine-readable zone (ICAO Doc 9303)."""
    compact = re.sub(r"\s", "", text.upper()).replace("«", "<<").replace("≤", "<")
    for match in _MRZ.finditer(compact):
        if _MRZ_NAMES.match(match[0]) and match[0].count("<") >= 4:
            return "names"
        if "<" in match[0] and mrz_dates_hold(match[0]):
            return "dates, check digits valid"
    return None


_MAX_NAME_CHARACTERS = 80
"""Limit of one part of a street's name; without a limit, a long row of letters and digits takes its length squared."""


@cache
def _streets() -> tuple[re.Pattern[str], ...]:
    """Build patterns: number and street, the word for the street after or before its name; number after the name.

    The parts of a name share no character with the text between them, so that a long line is cut in one way only.
    """
    lists = wordings("street_words.txt")
    after, before = lists["after"][0].split(), lists["before"][0].split()
    endings = "|".join(form for word in after for form in (word.title(), word.upper()))
    joined = "|".join(word.title() for word in after if len(word) >= 4)
    ahead = "|".join(form for word in before for form in (word, word.title(), word.upper()))
    name = rf"[A-Z0-9ÄÖÜÉ][\w'.-]{{0,{_MAX_NAME_CHARACTERS}}}"
    names = rf"{name}(?:\s{name}){{0,3}}\s?"
    return (
        re.compile(
            rf"(?<![\d.,$€£])\d(?:\d{{0,4}}+[A-Za-z]?,?\s?(?:{names})?|{names})"
            rf"(?:\b(?:{endings})|(?<=[a-z])(?:{joined}))\b(?! of|\s?\d)"
        ),
        re.compile(rf"\d{{1,4}}\s?(?:bis|ter)?,?\s(?:{ahead})\s(?!of)\S+"),
        re.compile(rf"\b(?:{ahead})\s(?:\S+\s){{0,4}}?\S+,?\s(?:n[.°º]?\s?)?\d{{1,4}}\b"),
    )


def has_street_address(text: str) -> bool:
    """Look for a house number with a street, in the ways of several languages, or a post box."""
    cleaned = without_dates(text)
    return any(pattern.search(cleaned) for pattern in (*_streets(), _COMPOUND_STREET, _BOX))


def has_city_line(text: str) -> bool:
    """Find a city with a US ZIP code or a UK postcode."""
    return bool(_CITY.search(text) or _POSTCODE.search(text))
