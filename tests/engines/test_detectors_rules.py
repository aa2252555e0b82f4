"""What the detectors make of text, faces and codes, without a model. Names and numbers are fictitious."""

import time

import numpy as np
import pytest

from scoring.assessment import Assessment
from scoring.captions import CAPTION_KINDS
from scoring.engines.detectors.findings import decide
from scoring.engines.detectors.ocr import TextLine
from scoring.engines.detectors.page import Page, split_label
from scoring.engines.detectors.rules import TEXT_ATTRIBUTES, text_findings
from scoring.text_rules import patterns, vocabulary
from tests.engines.pages import HEIGHT, WIDTH, line, page, value


def assessed(found: Page) -> Assessment:
    return decide(text_findings(found), TEXT_ATTRIBUTES if found.is_partly_unread else ())


def test_a_card_number_is_known_by_its_check_digit() -> None:
    assert patterns.luhn("4111 1111 1111 1111")
    assert not patterns.luhn("4111 1111 1111 1112")
    card = assessed(page("NORTHERN BANK", "4111 1111 1111 1111", "VALID THRU 09/31", "PETRA NOVAK"))
    assert value(card, "financial_data") == 1
    assert "card number, check digit valid" in card.evidence


def test_an_iban_needs_its_country_length_and_mod_97() -> None:
    assert patterns.has_iban("IBAN: DE89 3704 0044 0532 0130 00 BIC COBADEFF")
    assert not patterns.has_iban("DE89 3704 0044 0532 0130 01")
    assert not patterns.has_iban("REF AB12 CDEF 3456 7890 1234")


def test_a_passport_zone_with_o_read_for_0_is_still_a_passport() -> None:
    zone = page("P<UT0ERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<", "L898902C36UTO7408122F12O4159ZE184226B<<<<<10")
    answer = assessed(zone)
    assert value(answer, "gov_ids") == value(answer, "full_legal_name") == 1
    assert patterns.mrz_dates_hold("L898902C36UTO7408122F1204159ZE184226B<<<<<10")
    assert not patterns.mrz_dates_hold("L898902C36UTO7408123F1204158ZE184226B<<<<<10")


@pytest.mark.parametrize(
    "text",
    ["2019/07/1416:22", "31 MAY 1988", "07.22.1943", "March 3, 2024", "12. Februar 2024", "16 APR/AVR 07", "3/4/2021"],
)
def test_dates_are_read_in_the_ways_people_write_them(text: str) -> None:
    assert patterns.has_date(text)


@pytest.mark.parametrize("text", ["version 1.2.3", "192.168.10.1", "555-0142", "4111 1111", "3/4 cup", "1.890,55"])
def test_other_numbers_are_no_dates(text: str) -> None:
    assert not patterns.has_date(text)


@pytest.mark.parametrize(
    ("text", "kind", "rest"),
    [
        ("DOB:07.22.1943", "birth_date", "07.22.1943"),
        ("3 DOB 01/06/1958", "birth_date", "01/06/1958"),
        ("DateofBirth", "birth_date", ""),
        ("Vorname / Given names", "first_name", ""),
        ("Full Name: Jane Doe", "name", "Jane Doe"),
        ("First name: Ada Last name: Byron", "first_name", "Ada"),
        ("Account no. 12345678", "account", "12345678"),
        ("Surname / Nom (1)", "last_name", ""),
        ("Given names (2)", "first_name", ""),
        ("Sex / Sexe (5)", "sex", ""),
        ("Date of birth (e.g. 31/12/1980)", "birth_date", ""),
        ("Member no. (8 digits)", "membership", ""),
        ("Phone (24h)", "phone", ""),
    ],
)
def test_labels_are_read_as_ocr_gives_them(text: str, kind: str, rest: str) -> None:
    assert split_label(text) == (kind, rest)


def test_sentences_are_no_labels() -> None:
    assert split_label("Name the three rivers of the region.") is None
    assert split_label("Please address the envelope clearly") is None


def test_a_value_stands_beside_or_below_its_label() -> None:
    beside = Page(
        (line("SURNAME", 50, 100), line("GIVEN NAMES", 50, 160), line("OKAFOR", 400, 102), line("JO", 400, 162)),
        WIDTH,
        HEIGHT,
    )
    below = Page(
        (line("Surname", 50, 100), line("OKAFOR", 50, 130), line("Given names", 400, 100), line("JO", 400, 130)),
        WIDTH,
        HEIGHT,
    )
    for form in (beside, below):
        assert value(assessed(form), "full_legal_name") == 1


def test_a_blank_form_names_nobody() -> None:
    form = assessed(page("Membership Application", "Full name: ________", "Date of birth: ______", "Address: _______"))
    for key in ("full_legal_name", "non_unique_id", "contact_details", "gov_ids"):
        assert value(form, key) == 0, key
    assert value(form, "documents") == 1


@pytest.mark.parametrize(
    "text", ["This project was begun by David Johnson and friends", "Dr. Avery Smith", "Anna Maria Eriksson"]
)
def test_people_are_named(text: str) -> None:
    assert vocabulary.names_person(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Martin Luther Street", "CONTOSO LTD.", "Will You Come", "Paris Hotel", "Rose Garden"),
        *("Total Fat 13g", "KATE_MAIN"),
    ],
)
def test_places_firms_and_words_are_no_people(text: str) -> None:
    assert not vocabulary.names_person(text)


def test_the_numbers_of_fields_are_no_values() -> None:
    fields = {"Surname (1)": "NOVAK", "Given names (2)": "PETRA", "Date of birth (4)": "01 FEB 1980", "Sex (5)": "F"}
    passport = assessed(page("PASSPORT", *(text for field in fields.items() for text in field)))
    for key in ("gov_ids", "full_legal_name", "non_unique_id", "age", "gender"):
        assert value(passport, key) == 1
    empty = assessed(page("Date of birth (e.g. 31/12/1980)", "Place", "Signature"))
    assert value(empty, "non_unique_id") == 0


@pytest.mark.parametrize("name", ["NOVAK / PETRA", "KRZEMINSKA / ALDONA MRS", "NOVAK/PETRA", "Petra Novak"])
def test_a_ticket_names_the_passenger(name: str) -> None:
    assert value(assessed(page("BOARDING PASS", "Passenger", name, "Gate", "B22")), "full_legal_name") == 1


@pytest.mark.parametrize(
    "booking",
    [
        ("Booking ref. Q7RT2L",),
        ("Booking ref. QKRTLM",),
        ("PNR: ABCDEF",),
        ("Reservation number", "774 2408819356"),
        ("Record locator", "Q7RTLM"),
    ],
)
def test_a_booking_number_identifies_somebody(booking: tuple[str, ...]) -> None:
    ticket = assessed(page("BOARDING PASS", *booking))
    assert (value(ticket, "non_unique_id"), value(ticket, "full_legal_name")) == (1, 0)


@pytest.mark.parametrize(
    "texts",
    [
        ("CITY PARKING", "Ticket no. 004711", "Paid 2.50"),
        ("RECEIPT", "Customer no. 00012345", "APRIL / MAY", "Total 12.00"),
        ("BOARDING PASS", "Booking reference", "FLIGHT", "Gate"),
        ("Name: USB / HDMI",),
        ("Name", "ON / OFF", "Input AC / DC"),
        ("Name", "Local Folders", "Size"),
        ("root@mill:/etc# exit", "Ubuntu (~ubuntu@10.0.0.7) has joined this channel"),
        ("info@mill.example 20 % off", "sales@company 50 % off", "info@firma: 20% Rabatt"),
        ("apples@market 20 $ each", "Tickets@door: 10 $", "pears@market ~10 $", "[pears@market 20]$"),
        ("Follow us@Instagram: 50% off", "battery@home 80%", "cpu@idle 3 % of time"),
        ("npm i lodash@latest $", "lodash@latest $", "react@next % build", "git clone ana@web1:/srv/app"),
        ("deploy@web1:/srv/app", "deploy@web1:~$ ls", "steam@deck:~$", "[ci@web1 ~]$", "npm@web1 src % ls"),
    ],
)
def test_slips_and_panels_identify_nobody(texts: tuple[str, ...]) -> None:
    slip = assessed(page(*texts))
    assert (value(slip, "non_unique_id"), value(slip, "full_legal_name")) == (0, 0)


@pytest.mark.parametrize(
    "text",
    [
        *("ana@mill:~/src$ make", "ana@mill:~$ ls", "ana@mill: ~/src2 $ ls", "(venv) ana@mill:~/x$"),
        *("[ana@mill src2]$ make", "[ana@mill ~]$", "ana@mill ~ % make"),
        "[18:31] --> Ana (~ana@10.0.0.7) has joined this channel.",
    ],
)
def test_the_accounts_of_shells_and_channels_identify_people(text: str) -> None:
    screen = assessed(page(text))
    assert value(screen, "non_unique_id") == 1
    assert screen.evidence[0] == "account name"


def test_a_driving_licence_tells_name_birth_and_address_by_field_numbers() -> None:
    licence = assessed(
        page(
            "OREGON DRIVER LICENSE",
            "4d DLN A1234567",
            "3 DOB 01/06/1958",
            "1 QUARTERMAINE",
            "2 LIAM R.",
            "8 12 HILL STREET",
            "15 SEX M",
        )
    )
    for key in ("gov_ids", "full_legal_name", "non_unique_id", "contact_details", "age", "gender"):
        assert value(licence, key) == 1, key


_ARTICLE = ("You will have to show your passport at the border", "and it has to be valid for at least six months more")


@pytest.mark.parametrize(
    ("texts", "key", "expected"),
    [
        (("ana@mill src % make",), "non_unique_id", 0.5),  # before the bare name of a folder
        (("UTOPIA", "PASSPORT"), "gov_ids", 0.5),  # closed
        (_ARTICLE, "gov_ids", 0),
        (("Social Security Number: 219-09-9999",), "gov_ids", 1),
        (("Student TIN", "***-**-****"), "gov_ids", 0),
        (("Spotless Cleaning Services", "Call 020 7946 0018"), "contact_details", 0.5),
        (("Help line 1-800-555-0199",), "contact_details", 0.5),
        (("Full name: Harriet Okafor", "Mobile: (555) 010-4471"), "contact_details", 1),
        (("write to harriet.okafor@example.org",), "contact_details", 1),
        (("write to support@example.org",), "contact_details", 0.5),  # a shared mailbox
    ],
)
def test_one_line_tells_whose_number_or_paper_it_is(texts: tuple[str, ...], key: str, expected: float) -> None:
    assert value(assessed(page(*texts)), key) == expected


def test_a_receipt_has_prices_and_perhaps_a_first_name() -> None:
    receipt = assessed(
        page(
            "CORNER SHOP", "Cashier: Brenda", "Milk $1.20", "Bread $2.40", "Subtotal $3.60", "Tax $0.20", "Total $3.80"
        )
    )
    assert value(receipt, "financial_data") == 0.5
    assert value(receipt, "non_unique_id") == 1
    assert value(receipt, "full_legal_name") == 0


def test_a_pay_slip_and_a_prescription_are_known_by_their_words() -> None:
    slip = assessed(page("Earnings Statement", "Gross Pay 2,150.00", "Net Pay 1,784.80", "Employee Name: Olu Adeyemi"))
    assert value(slip, "financial_data") == 1
    label = assessed(page("LAKESIDE PHARMACY", "RX 604418", "HARRIET OKAFOR", "TAKE 1 TABLET BY MOUTH", "REFILLS 2"))
    assert value(label, "medical_data") == value(label, "full_legal_name") == 1


def test_a_nutrition_label_is_no_medical_record() -> None:
    label = assessed(
        page("Nutrition Facts", "Serving size: 1 bar (40g)", "Cholesterol 0mg", "Sodium 20mg", "Vitamin A 50%")
    )
    assert np.isnan(value(label, "medical_data"))


def test_a_chat_is_known_by_its_times_and_names_the_partner() -> None:
    chat = assessed(
        page(
            "Mina Castellane",
            "did you get home all right?",
            "21:12",
            "yes just now, thanks",
            "21:14",
            "my number is 555-0142",
            "21:15",
        )
    )
    for key in ("full_legal_name", "contact_details", "documents", "metadata"):
        assert value(chat, key) == 1, key


def blank(width: float, height: float, y: float) -> TextLine:
    """A box in which nothing was read."""
    area = (0.1, y / HEIGHT, 0.1 + width / WIDTH, (y + height) / HEIGHT)
    return TextLine("", 0.9, 100 + width / 2, y + height / 2, width, height, area)


@pytest.mark.parametrize(
    ("lines", "is_unread"),
    [
        ((blank(300, 30, 50),), True),
        ((blank(30, 300, 50),), True),  # turned by 90 degrees
        ((blank(70, 30, 50), blank(60, 60, 200)), False),  # too stubby for writing
        ((line("Patient record", 50, 50), blank(200, 24, 100)), True),
        ((line("Дата рождения", 50, 50),), True),
        ((line("中国", 50, 50),), True),
        ((*(line("All of this can be read well", 50, 40 * i) for i in range(9)), blank(70, 24, 500)), False),
        ((TextLine("12.03.1985", 0.95, 300, 50, 400, 28, (0.1, 0.0, 0.5, 0.1)),), True),  # only its last part was read
        ((line("WELCOME", 50, 50, confidence=0.65),), True),  # such as Armenian
        ((line("WELCOME", 50, 50),), False),
        ((), False),
    ],
)
def test_a_page_is_partly_unread_where_lines_hold_more_than_was_read(
    lines: tuple[TextLine, ...], is_unread: bool
) -> None:
    found = Page(lines, WIDTH, HEIGHT)
    assert found.is_partly_unread == is_unread
    answer = assessed(found)
    assert np.isnan(value(answer, "gov_ids")) == np.isnan(value(answer, "full_legal_name")) == is_unread


def test_text_in_another_script_leaves_the_text_attributes_open() -> None:
    foreign = Page((line("здравствуйте", 50, 50), line("Паспорт", 50, 100)), WIDTH, HEIGHT)
    garbled = Page((line("xk#~lql", 50, 50, 0.3), line("o0=;uu", 50, 100, 0.4)), WIDTH, HEIGHT)
    for unread in (foreign, garbled):
        answer = assessed(unread)
        assert all(np.isnan(value(answer, key)) for key in TEXT_ATTRIBUTES)
    assert value(assessed(page("GOOD MORNING")), "gov_ids") == 0


_ROWS = (
    *("0", "A", "a", "é", "中", " ", ".", "-", "'", "_", "@", "<", ":", "/", ",", "$"),
    *("A1", "1a", "1.", "O'", "a@", "1 A ", "A ", "de ", "Dr. ", "1:", "a:b ", "St", "Ab ", "rue a ", "Jan ", "DE12 "),
)


@pytest.mark.parametrize("behind", ["", " Main Street", ": Anna Smith", " NY 12345"])
def test_a_line_of_one_sign_repeated_is_judged_at_once(behind: str) -> None:
    """Bounded generously: before, 100 zeros took seconds and 200 colons longer than anyone waits."""
    rules = (*CAPTION_KINDS.values(), patterns.has_street_address, vocabulary.value_shape, patterns.count_amounts)
    start = time.process_time()
    for row in _ROWS:
        text = "1 " + (row * 1500)[:1500] + behind
        for holds in rules:
            holds(text)
        split_label(text)
    assert time.process_time() - start < 60


@pytest.mark.parametrize(
    "text",
    [
        *("12 Main Street", "12a Oak Hill Rd", "1600 Pennsylvania Ave NW", "5AElmStreet", "123456 Main St."),
        *("221B Baker Street", "7 St. John's Wood Court", "Hauptstrasse 12", "14 bis, rue de Lille", "Via Roma 5"),
    ],
)
def test_street_addresses_are_read_in_the_ways_people_write_them(text: str) -> None:
    assert patterns.has_street_address(text)


@pytest.mark.parametrize("text", ["12 Main", "Main Street", "12 Street of Dreams", "3.5 Mile Road", "12 a b Street 4"])
def test_other_lines_are_no_street_addresses(text: str) -> None:
    assert not patterns.has_street_address(text)


def test_a_name_is_found_behind_labels_and_between_initials() -> None:
    assert vocabulary.names_person("To: Cc:: Anna Smith")
    assert vocabulary.names_person("Anna J. R. R. de Smith")
    assert not vocabulary.names_person("a:" * 1000)
