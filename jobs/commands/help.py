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

_SUBCOMMAND = re.compile(r"^## privsieve (\w+) (\w+)$", re.MULTILINE)  # headings of docs/commands.md


@click.command()
@click.argument("topic", nargs=-1)
def help(topic: tuple[str, ...]) -> None:
    """Show a page of the documentation, or list the pages.

    TOPIC is the name of a page, of a command such as audit sample, or a word such as policies, gdpr or heic. Options of
    a command: privsieve COMMAND --help.
    """
    asked = " ".join(topic).removesuffix(".md")
    pages = resources.files("jobs") / "docs"
    about, page_of, verbs_of = dict[str, str](), dict[str, str](), dict[str, list[str]]()
    for entry in _ENTRY.finditer(_text(pages, "index")):
        about.setdefault(entry[1], " ".join(entry[2].split()))
        page_of |= dict.fromkeys([*re.findall(r"`([a-z-]+)`", entry[2]), entry[1]], entry[1])
    for verb, word in _SUBCOMMAND.findall(_text(pages, "commands")):
        page_of[f"{verb} {word}"] = page_of[verb]
        verbs_of.setdefault(word, []).append(verb)
    page_of = {word: page_of[verbs[0]] for word, verbs in verbs_of.items() if len(verbs) == 1} | page_of
    if not topic:
        width = max(map(len, about))
        for name, words in about.items():
            write_line(f"{name:{width}}  {words}")
        write_line("next: privsieve help TOPIC")
    elif asked.lower() in page_of:
        write_lines(_text(pages, page_of[asked.lower()]))
    elif verbs := verbs_of.get(asked.lower()):
        names = ", ".join(f"{verb} {asked}" for verb in verbs)
        raise QueryError(f'"{asked}" is of several commands; name one of them: {names}')
    else:
        raise QueryError(
            f'no page is about "{asked}"{did_you_mean(asked, page_of)}; privsieve help lists the pages, and privsieve '
            "COMMAND --help has the options of a command"
        )


def _text(pages: Traversable, topic: str) -> str:
    return pages.joinpath(f"{topic}.md").read_text(encoding="utf-8")
