"""The Compositional Privacy Risk Taxonomy as data: 22 attributes in 4 levels.

Source: Tsaprazlis et al., "Rethinking Visual Privacy: A Compositional Privacy Risk Framework for Severity
Assessment with VLMs", the attribute list and the level definitions; wordings are our own. The order of
`ATTRIBUTES` is the canonical order everywhere: columns, vectors, plots.
"""

from dataclasses import dataclass

TAXONOMY_VERSION = "cprt-1"

LEVELS: dict[int, str] = {
    0: "none",
    1: "unique identifiers",
    2: "linkage-based",
    3: "aggregation-based",
    4: "benign context",
}
"""Level number to its name; 0 means that no attribute is present."""


@dataclass(frozen=True)
class Attribute:
    """One thing that an image can show about a person."""

    key: str
    """Column name."""

    level: int
    """1 (identifies on its own) to 4 (harmless context)."""

    title: str
    """For reports."""

    shows: str
    """What the image must show for a 1."""

    ambiguous: str | None = None
    """When 0.5 is right: there is a cue, and it is unclear; with no cue at all it is 0. None if the taxonomy names no
    such case."""


ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute(
        "biometrics", 1, "Biometrics", "a clearly identifiable face, iris or fingerprint", "partly visible or doubtful"
    ),
    Attribute(
        "gov_ids",
        1,
        "Government IDs",
        "a passport, national ID, SSN or licence with its data legible",
        "the document without its data, such as a closed passport",
    ),
    Attribute(
        "unique_body_markings", 1, "Unique body markings", "a distinctive tattoo, scar or birthmark", "partly visible"
    ),
    Attribute(
        "contact_details",
        2,
        "Contact details",
        "a personal phone number, email, home or IP address",
        "a commercial or public number or address",
    ),
    Attribute("full_legal_name", 2, "Full legal name", "a person's full legal name"),
    Attribute(
        "non_unique_id",
        2,
        "Non-unique identifiers",
        "a first name, user name, date of birth, licence plate or workplace id",
    ),
    Attribute("medical_data", 2, "Medical data", "records, diagnoses, prescriptions, medication or a condition"),
    Attribute(
        "financial_data",
        2,
        "Financial data",
        "a card, bank statement, pay stub, bill or cash changing hands",
        "prices of items",
    ),
    Attribute("beliefs", 2, "Beliefs", "religion, politics or sexual orientation", "unclear symbols or slogans"),
    Attribute("nudity", 2, "Nudity", "nudity or sexual content, partial or covered included"),
    Attribute("disability", 2, "Disability", "a condition of mobility, vision or cognition, or an assistive device"),
    Attribute("emotion_mental_health", 2, "Emotion and mental health", "distress, sadness, anger or stress"),
    Attribute("race_ethnicity", 2, "Race and ethnicity", "a person's race or ethnicity", "a cue to it is unclear"),
    Attribute("age", 3, "Age", "a person's age within a narrow range", "a cue to it fits several ranges"),
    Attribute("gender", 3, "Gender", "a person's gender", "a cue to it is unclear"),
    Attribute(
        "location",
        3,
        "Location",
        "a sign, landmark or coordinate that names a specific place",
        "one of several similar places",
    ),
    Attribute("activities", 3, "Activities", "a sport, routine, hobby or event linked to an individual"),
    Attribute("lifestyle", 3, "Lifestyle", "smoking, alcohol, criminal activity or law enforcement"),
    Attribute("property_assets", 4, "Property and assets", "a vehicle, home or expensive equipment of an individual"),
    Attribute(
        "documents",
        4,
        "Documents",
        "mail, packages, books, papers or screens with readable content",
        "the content is not readable",
    ),
    Attribute("metadata", 4, "Metadata", "dates, watermarks, event or file names, EXIF data"),
    Attribute("background_people", 4, "Background people", "bystanders or a crowd who are not the subject"),
)

KEYS: tuple[str, ...] = tuple(attribute.key for attribute in ATTRIBUTES)
LEVEL_SIZES: tuple[int, int, int, int] = (3, 10, 5, 4)
"""Number of attributes in levels 1 to 4."""
