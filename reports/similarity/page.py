"""Fills the page of a comparison of pictures. Names of corpora are hostile: Jinja escapes them, and the page may run no
script."""

from reports.page.pages import fill
from reports.similarity.results import Similarity
from reports.similarity.words import headlines, notes, tables
from reports.words import percent


def render(similarity: Similarity) -> str:
    """Return the results as one HTML page, which needs no other file and may load none. It holds no picture."""
    shares = [
        (of_set.name, of_set.num_nearest / of_set.num_nearest_of) for of_set in similarity.sets if of_set.num_nearest_of
    ]
    return fill(
        "similarity",
        {"percent": percent},
        headlines=list(headlines(similarity)),
        notes=list(notes(similarity)),
        tables=list(tables(similarity)),
        shares=shares,
        version=similarity.version,
    )
