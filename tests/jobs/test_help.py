"""`privsieve help`: a wheel has the documentation, and messages name pages that are there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from jobs.cli import VERBS
from tests.jobs.commands_page import PAGE, page
from tests.jobs.made import privsieve
from tests.making import Capture

ROOT = Path(__file__).parent.parent.parent
TOPICS = sorted(page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in (ROOT / "docs").rglob("*.md"))


def test_every_page_can_be_shown_and_the_list_says_what_it_is_about(capsys: Capture) -> None:
    assert privsieve("help") == 0
    *pages, last = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in pages) == [topic for topic in TOPICS if topic != "index"]
    assert last == "next: privsieve help TOPIC"
    assert "glossary             what each word means." in pages
    for topic in TOPICS:
        if topic != "index":
            assert privsieve("help", topic) == 0
            assert capsys.readouterr().out == (ROOT / "docs" / f"{topic}.md").read_text()


def test_the_help_of_a_command_is_on_a_page_and_shown_from_there_without_importing_it() -> None:
    assert PAGE.read_text() == page(), "python -m tests.jobs.commands_page"
    code = "import sys; from jobs.__main__ import main; main(); print(sorted(sys.modules))"
    command = [sys.executable, "-c", code, "labels", "import", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONUTF8": "1"}, check=True)
    shown, _, modules = done.stdout.rpartition("\n[")
    assert f"\n{shown}\n" in PAGE.read_text()
    assert shown.startswith("Usage: privsieve labels import [OPTIONS]")
    assert not [name for name in ("click", "pydantic", "numpy", "pyarrow", "duckdb", "ray") if f"'{name}'" in modules]


def test_a_page_may_be_named_by_its_file_as_other_pages_name_it(capsys: Capture) -> None:
    assert privsieve("help", "measured/gpu.md") == 0
    assert capsys.readouterr().out == (ROOT / "docs/measured/gpu.md").read_text()


def test_commands_and_words_without_a_page_of_their_name_show_the_one_that_describes_them(capsys: Capture) -> None:
    for word in sorted({*VERBS, "policies", "GDPR", "heic", "duplicates", "release"} - {*TOPICS, "help"}):
        assert privsieve("help", word) == 0
        shown = capsys.readouterr().out
        assert shown in [(ROOT / "docs" / f"{topic}.md").read_text() for topic in TOPICS]
        assert re.search(word, shown, re.IGNORECASE)


def test_each_command_and_the_last_word_of_it_show_the_page_of_the_first(capsys: Capture) -> None:
    names = re.findall(r"^## privsieve (\w+) (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert {("audit", "sample"), ("release", "takedown")} <= {*names}
    for verb, word in names:
        assert privsieve("help", verb) == 0
        page_of_verb = capsys.readouterr().out
        assert privsieve("help", verb, word) == 0
        assert capsys.readouterr().out == page_of_verb
        if word not in (*TOPICS, "apply", "fit", "verify"):
            assert privsieve("help", word) == 0
            assert capsys.readouterr().out == page_of_verb
    assert privsieve("help", "verify") == 2
    expected = '"verify" is of several commands; name one of them: release verify, models verify'
    assert capsys.readouterr().err == f"privsieve: {expected}\n"


def test_what_the_code_says_names_pages_that_are_there() -> None:
    named = {
        topic
        for room in ("ingest", "scoring", "reports", "jobs")
        for file in (ROOT / room).rglob("*.py")
        if file.name not in ("cli.py", "help.py")
        for topic in re.findall(r"privsieve help ([a-z/]+)", file.read_text())
    }
    assert {"labels", "tuning", "protocols"} <= named <= set(TOPICS)
