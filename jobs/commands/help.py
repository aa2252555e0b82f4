"""The verb `help`: the pages of the documentation, which are in the package."""

import re
from importlib import resources
from importlib.resources.abc import Traversable

import click

from ingest.errors import QueryError, did_you_mean
from jobs.console.terminal import write_line, write_lines

_ENTRY = re.compile(r"^- \[[^\]]+\]\(([\w/]+)\.md\): (.*(?:\n  .*)*)", re.MULTILINE)
"""A line of docs/index.md: topic, and what the page is about. Commands and words without a page of their own are in
backticks in that text."""


@click.command()
@click.argument("topic", required=False)
def help(topic: str | None) -> None:
    """Show a page of the documentation, or list the pages.

    TOPIC is the name of a page, of a command, or a word such as policies, gdpr or heic. Options of a command: privsieve
    COMMAND --help.
    """
    topic = topic and topic.removesuffix(".md")
    pages = resources.files("jobs") / "docs"
    about, page_of = dict[str, str](), dict[str, str]()
    for entry in _ENTRY.finditer(_text(pages, "index")):
        about.setdefault(entry[1], " ".join(entry[2].split()))
        page_of |= dict.fromkeys([*re.findall(r"`([a-z-]+)`", entry[2]), entry[1]], entry[1])
    if topic is None:
        width = max(map(len, about))
        for name, words in about.items():
            write_line(f"{name:{width}}  {words}")
        write_line("next: privsieve help TOPIC")
    elif topic.lower() in page_of:
        write_lines(_text(pages, page_of[topic.lower()]))
    else:
        raise QueryError(
            f'no page is about "{topic}"{did_you_mean(topic, page_of)}; privsieve help lists the pages, and privsieve '
            "COMMAND --help has the options of a command"
        )


def _text(pages: Traversable, topic: str) -> str:
    return pages.joinpath(f"{topic}.md").read_text(encoding="utf-8")
