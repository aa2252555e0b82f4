"""`python -m tests.scoring.columns_page` writes docs/columns.md from what the code says of the columns."""

import textwrap
from pathlib import Path

from ingest.errors import SHARD_REASONS
from ingest.images.files.pieces import UNSEEN_KINDS
from scoring.captions import CAPTION_KINDS
from scoring.table import BOX_TYPE, COLUMNS, COMPUTED, Col

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"


def columns_document() -> str:
    """Return the page."""
    lines = ["# The row per image", "", "| column | type | unit | meaning |", "|---|---|---|---|"]
    for column in COLUMNS:
        kind = "list<box>" if column.name == Col.BOXES else str(column.type).replace("<item: ", "<")
        unit = column.unit.replace("|", "\\|")
        lines.append(f"| `{column.name}` | {kind} | {unit} | {column.meaning} |")
    lines += [
        "",
        "## boxes",
        "",
        "A list of structs with these fields. Coordinates are fractions (0–1) of the picture.",
        "",
    ]
    lines += [", ".join(f"`{field.name}`" for field in BOX_TYPE) + "."]
    lines += ["", "## Rows that are no image", ""]
    lines += [f"Reasons: {', '.join(f'`{reason}`' for reason in sorted(SHARD_REASONS))}."]
    lines += [
        "",
        "Such a row is about a part of a damaged shard, or all of it: an unknown number of images that were not seen. "
        "The views of `sql`, the functions of the Python package and all counts of images leave it out; the view "
        "`damaged` and the score files hold it.",
    ]
    lines += ["", "## Kinds of unseen content", "", "| `unseen` | meaning |", "|---|---|"]
    lines += [f"| `{kind}` | {meaning} |" for kind, meaning in UNSEEN_KINDS.items()]
    lines += ["", "## Kinds of evidence in captions", ""]
    lines += [", ".join(f"`{kind}`" for kind in CAPTION_KINDS) + "."]
    lines += [
        "",
        "Captions are read of WebDataset samples (member `.txt`, else the JSON field `caption`) and of Parquet rows "
        "(column `caption`, `text`, `TEXT` or `alt`), the first 4 KB. The rules are those that the engine `detectors` "
        "applies to text in pictures; "
        "what they find in captions was not measured, and a name can be that of a place or of somebody famous.",
    ]
    lines += ["", "## Columns that are not stored", "", "| column | type | meaning |", "|---|---|---|"]
    lines += [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in COMPUTED]
    lines += [
        "",
        "Policies, `report` and the view `images` of `sql` have these, too: they follow from the row and the engine of "
        "the run. `level` and the scores count an attribute that was not judged as absent.",
    ]
    return "\n".join(line if line.startswith("|") else textwrap.fill(line, 120) for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(columns_document())
