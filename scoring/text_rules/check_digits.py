"""Check digits, which set a number of a known kind apart from any other row of digits."""

import re

_MRZ_LETTERS = {letter: value for value, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ", start=10)}
_READ_AS_DIGIT = str.maketrans("OQDIZSBG", "00012586")
"""Letters that text recognition puts where only digits can be."""


def luhn(number: str) -> bool:
    """Payment cards, IMEI (ISO/IEC 7812-1). Other characters than digits are ignored.

    >>> luhn("4111 1111 1111 1111"), luhn("4111 1111 1111 1112")
    (True, False)
    """
    digits = [int(c) for c in number if c.isdigit()]
    doubled = [sum(divmod(2 * d, 10)) for d in digits[-2::-2]]
    return bool(digits) and (sum(digits[::-2]) + sum(doubled)) % 10 == 0


def iban(number: str) -> bool:
    """ISO 13616: country, two check digits, up to 30 characters; mod 97 is 1.

    >>> iban("GB82 WEST 1234 5698 7654 32")
    True
    """
    compact = re.sub(r"\s", "", number).upper()
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", compact):
        return False
    moved = compact[4:] + compact[:4]
    return int("".join(str(int(c, 36)) for c in moved)) % 97 == 1


def aba_routing(number: str) -> bool:
    """The nine digits of a bank on US cheques: weights 3, 7, 1.

    >>> aba_routing("011000015")
    True
    """
    digits = [int(c) for c in number if c.isdigit()]
    return len(digits) == 9 and any(digits) and sum(d * (3, 7, 1)[i % 3] for i, d in enumerate(digits)) % 10 == 0


def mrz_digit(field: str) -> int:
    """ICAO Doc 9303 part 3: weights 7, 3, 1 over digits, letters (A = 10) and fillers (0)."""
    values = [int(c) if c.isdigit() else _MRZ_LETTERS.get(c, 0) for c in field]
    return sum(value * (7, 3, 1)[i % 3] for i, value in enumerate(values)) % 10


def mrz_dates_hold(line: str) -> bool:
    """Whether birth and expiry dates of an MRZ line carry right check digits (TD3/TD2 line 2 or TD1 line 2).

    The line is compact: no spaces. Both dates must hold, so chance is 1 in 100.
    """
    for birth, expiry in ((13, 21), (0, 8)):
        spans = [line[start : start + 7].translate(_READ_AS_DIGIT) for start in (birth, expiry)]
        if all(re.fullmatch(r"\d{7}", span) and mrz_digit(span[:6]) == int(span[6]) for span in spans):
            return True
    return False
