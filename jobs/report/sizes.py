"""`--category-sizes`: how many images each category has in the source, from a CSV file of the user."""

from collections.abc import Mapping

from ingest.errors import LabelsError, QueryError
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from reports.report.compute import MAX_GROUPS
from scoring.labels.csv_cells import text_columns, unescaped

COLUMNS = ("category", "images")
MAX_BYTES = 20 * 2**20
MAX_DIGITS = 16
"""Limit of digits of a number below 2**53; Python converts none of more than 4,300."""


def category_sizes(url: str) -> Mapping[str, int]:
    """Category -> images. QueryError in one line that repeats no cell, or StorageError."""
    content = given_content(place(url), f"--category-sizes {url}", MAX_BYTES)
    try:
        table = text_columns(content, url, COLUMNS)
    except LabelsError as error:
        raise QueryError(str(error)) from None
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise QueryError(f'{url} has no column "{missing[0]}"; it wants the columns {" and ".join(COLUMNS)}')
    if table.num_rows > MAX_GROUPS:
        raise QueryError(f"{url} has more than {MAX_GROUPS:,} categories")
    sizes: dict[str, int] = {}
    for line, (name, text) in enumerate(zip(*(table[column].to_pylist() for column in COLUMNS), strict=True), 2):
        is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
        if name is None or not is_number or not 0 < int(text) < 2**53:
            raise QueryError(f"{url}, line {line}: wants a category and a whole number of images above 0")
        if unescaped(name) in sizes:
            raise QueryError(f"{url}, line {line}: the category was named before; give each category one line")
        sizes[unescaped(name)] = int(text)
    return sizes
