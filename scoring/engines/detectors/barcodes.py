"""Barcodes with ZXing: the content is recognised by its form (a contact card, a licence) and then dropped."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ingest.images.pixels import Pixels
from scoring.engines.detectors.findings import Area, Finding, fractions

_LICENCE = re.compile(r"\A@\s*(\x1e\s*)?(ANSI |AAMVA)")
"""Start of a North American licence's PDF417 (AAMVA DL/ID Card Design Standard)."""
_CONTACT = re.compile(r"\A(BEGIN:VCARD|MECARD:|BIZCARD:|MAILTO:|TEL:|SMSTO:|MATMSG:)", re.IGNORECASE)
_BOARDING_PASS = re.compile(r"\AM[1-4][A-Z/ ]{20}[E ]")
"""Start of an IATA bar coded boarding pass: passenger's name in 20 characters."""
_WIFI = re.compile(r"\AWIFI:", re.IGNORECASE)
_PAYMENT = re.compile(r"\A(BCD\r?\n|SPC\r?\n|bitcoin:|upi:)", re.IGNORECASE)


@dataclass(frozen=True)
class Barcode:
    """One code in the picture."""

    content: str
    """Encoded text; must not leave this package."""

    area: Area


class BarcodeReader:
    def __init__(self) -> None:
        import zxingcpp

        self._read = zxingcpp.read_barcodes

    def read(self, pixels: Pixels) -> list[Barcode]:
        height, width = pixels.shape[:2]
        if min(height, width) < 8:
            return []
        codes = self._read(np.ascontiguousarray(pixels[:, :, 1]))
        return [Barcode(code.text, _area(code.position, width, height)) for code in codes]


def _area(position: object, width: int, height: int) -> Area:
    names = ("top_left", "top_right", "bottom_left", "bottom_right")
    corners = [getattr(position, name) for name in names]
    xs, ys = [corner.x for corner in corners], [corner.y for corner in corners]
    return fractions(min(xs), min(ys), max(xs), max(ys), width, height)


def barcode_findings(barcodes: Sequence[Barcode]) -> list[Finding]:
    return [finding for barcode in barcodes for finding in _findings_in(barcode)]


def _findings_in(barcode: Barcode) -> list[Finding]:
    kinds: list[tuple[str, float, str]] = [("documents", 0.5, "barcode")]
    if _LICENCE.match(barcode.content):
        held = ("gov_ids", "full_legal_name", "non_unique_id", "contact_details", "age", "gender")
        kinds = [(attribute, 1.0, "driving licence barcode") for attribute in held]
    elif _CONTACT.match(barcode.content):
        kinds = [
            ("contact_details", 1.0, "contact card barcode"),
            ("non_unique_id", 1.0, "contact card barcode"),
        ]
    elif _BOARDING_PASS.match(barcode.content):
        kinds = [(key, 1.0, "boarding pass barcode") for key in ("full_legal_name", "non_unique_id", "documents")]
    elif _PAYMENT.match(barcode.content):
        kinds = [("financial_data", 1.0, "payment barcode")]
    elif _WIFI.match(barcode.content):
        kinds = [("non_unique_id", 0.5, "network access barcode")]
    return [Finding(attribute, value, kind, barcode.area) for attribute, value, kind in kinds]
