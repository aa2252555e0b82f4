"""The verb `help`: the pages of the documentation, which are in the package."""

import re
from importlib import resources
from importlib.resources.abc import Traversable

import click

from ingest.errors import QueryError, did_you_mean
from jobs.console.terminal import write_line, write_lines

_ENTRY = re.compile(r"^- \[[^\]]+\]\(([\w/]+)\.md\): (.*(?:\n  .*)*)", re.MULTILINE)
"""A line of docs/index.md: topic, and what the page is about. A command without a page of its own
is in backticks in that text."""


@click.command()
@click.argument("topic", required=False)
def help(topic: str | None) -> None:
    """Show a page of the documentation, or list the pages.

    TOPIC is the name of a page, such as labels or glossary. Options of a command: privsieve COMMAND --help.
    """
    topic = topic and topic.removesuffix(".md")
    pages = resources.files("jobs") / "docs"
    about, page_of = dict[str, str](), dict[str, str]()
    for entry in _ENTRY.finditer(_text(pages, "index")):
        about.setdefault(entry[1], " ".join(entry[2].split()))
        page_of |= dict.fromkeys(re.findall(r"`([a-z-]+)`", entry[2]), entry[1])
    if topic is None:
        width = max(map(len, about))
        for name, words in about.items():
            write_line(f"{name:{width}}  {words}")
        write_line("next: privsieve help TOPIC")
    elif topic in about:
        write_lines(_text(pages, topic))
    elif topic in page_of:
        raise QueryError(
            f'no page is about "{topic}" alone; privsieve help {page_of[topic]} describes it, and privsieve {topic} '
            "--help has its options"
        )
    else:
        raise QueryError(
            f'no page is about "{topic}"{did_you_mean(topic, about)}; privsieve help lists the pages, and privsieve '
            "COMMAND --help has the options of a command"
        )


def _text(pages: Traversable, topic: str) -> str:
    return pages.joinpath(f"{topic}.md").read_text(encoding="utf-8")
