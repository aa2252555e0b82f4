"""Earlier names and revisions of protocols: what began with them is asked with the same words for ever."""

import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from ingest.storage.place import place
from scoring.protocols import (
    binary,
    holistic,
    json_form,
    name_to_continue,
    protocol,
    recorded_name,
    slots,
    texts,
    two_pass,
)
from scoring.protocols.interface import Prompt, ProtocolOptions, Text
from scoring.runs.record import RunRecord, start_or_continue
from tests.records import run_record
from tests.scoring.asking import ask

RECORDED = {
    "slots": "slots-1 e10eaceabbee",
    "json": "json-1 f679a2c4ceff",
    "two-pass": "two-pass-1 4178ea5b6604",
    "severity:zero-shot": "severity:zero-shot-1 36c4a114beda",
    "severity:intuition": "severity:intuition-1 09ca916fc6bb",
    "severity:taxonomy": "severity:taxonomy-1 6912dee874fe",
    "severity:taxonomy,counterfactual": "severity:taxonomy,counterfactual-1 1238f93a7899",
    "binary:p1": "binary:p1-3 ceaab01d52af",
    "binary:p2": "binary:p2-3 6d8014898714",
    "binary:p3": "binary:p3-3 62c915dd8e67",
    "binary:p4": "binary:p4-3 7d98dd3a278c",
    "binary:p1,classes": "binary:p1,classes-3 9bc4e41d1d85",
    "binary:p1,reason": "binary:p1,reason-3 a445dfe51225",
    "binary:p1,lenient": "binary:p1,lenient-3 9baecdb200ce",
    "binary:p1,first": "binary:p1,first-3 84a1ed72c333",
    "binary:p2,classes,first": "binary:p2,classes,first-3 c818f1a731cc",
}
"""Name that a user gave before there were these revisions and names -> version that the run recorded."""

NOW = {
    "two-pass": "two-pass-2 e5f7a596132e",
    "severity:zero-shot": "severity:zero-shot-2 dc7475ea7d86",
    "severity:intuition": "severity:intuition-2 2ac210c8f802",
    "severity:taxonomy": "severity:taxonomy-2 02a7b79eca1e",
    "severity:taxonomy,counterfactual": "severity:taxonomy,counterfactual-2 6e71bf8681ec",
    "binary:ours-1,de": "binary:ours-1,de-3 9b3ad6496e2a",
    "binary:ours-1,ru": "binary:ours-1,ru-3 9568ed5a03a3",
    "binary:ours-1,zh": "binary:ours-1,zh-3 de442f38b0c7",
}
"""Name -> version that runs record today, of those that are not in `RECORDED`."""


@pytest.mark.parametrize("name", RECORDED)
def test_a_run_that_began_earlier_is_continued_by_the_same_command(name: str, tmp_path: Path) -> None:
    recorded = f"{RECORDED[name]}, 262144 pixels, stored precision"
    before = run_record({"name": "vllm", "protocol": recorded, "assessed": []})
    start_or_continue(place(str(tmp_path / "run")), before)
    again = ask(name_to_continue(name, recorded))
    assert again.version == RECORDED[name]
    now: RunRecord = before.model_copy(
        update={"engine": before.engine | {"protocol": f"{again.version}, 262144 pixels, stored precision"}}
    )
    assert start_or_continue(place(str(tmp_path / "run")), now).engine["protocol"] == recorded


@pytest.mark.parametrize(
    ("name", "recorded", "asked"),
    [
        ("binary", "binary:p1-3 ceaab01d52af", "binary:p1-3"),
        ("binary:ours-1,first", "binary:p1,first-3 84a1ed72c333", "binary:p1,first-3"),
        ("binary:ours-2", "binary:p1-3 ceaab01d52af", "binary:ours-2"),
        ("severity", "severity:taxonomy-1 6912dee874fe", "severity:taxonomy-1"),
        ("severity:taxonomy-2", "severity:taxonomy-1 6912dee874fe", "severity:taxonomy-2"),
        ("severity:intuition", "severity:taxonomy-1 6912dee874fe", "severity:intuition"),
        ("severity:taxonomy", "severity:taxonomy-7 6912dee874fe", "severity:taxonomy"),
        ("json", "slots-1 e10eaceabbee", "json"),
        ("slots", "sha256", "slots"),
    ],
)
def test_only_an_earlier_revision_of_the_same_protocol_is_continued(name: str, recorded: str, asked: str) -> None:
    assert name_to_continue(name, recorded) == asked


@pytest.mark.parametrize("name", NOW)
def test_a_run_that_begins_today_can_be_continued_later(name: str) -> None:
    """If a hash differs, the wording changed: keep the earlier one as a revision, as CONTRIBUTING.md says."""
    assert ask(name).version == NOW[name]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the texts, which the test can change."""
    folder = tmp_path / "texts"
    shutil.copytree(str(texts.FOLDER), folder)
    monkeypatch.setattr(texts, "FOLDER", folder)
    return folder


@pytest.mark.parametrize(
    ("name", "file", "module"),
    [
        ("slots", "slots", slots),
        ("json:counterfactual", "json", json_form),
        ("two-pass", "two-pass", two_pass),
        ("severity", "severity", holistic),
        ("binary:ours-2", "binary", binary),
        ("binary:ours-1,de,reason", "binary-de", binary),
    ],
)
def test_another_wording_leaves_the_one_before_it_to_runs_that_began_with_it(
    name: str, file: str, module: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ask(name)
    newest = module.REVISIONS[-1]
    shutil.copy(folder / f"{file}.yaml", folder / f"{file}-{newest}.yaml")
    (folder / f"{file}.yaml").write_text((folder / f"{file}.yaml").read_text().replace(".\n", "!\n"))
    monkeypatch.setattr(module, "REVISIONS", (*module.REVISIONS, newest + 1, newest + 2))  # the second has no texts
    again, now = ask(name_to_continue(name, before.version)), ask(name)
    assert (again.version, again.prompt) == (before.version, before.prompt)
    assert now.prompt != before.prompt
    assert now.version.startswith(f"{before.version.split()[0].removesuffix(str(newest))}{newest + 2} ")


def test_a_fifth_wording_leaves_the_hashes_of_the_others_as_they_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithFifth(binary.BinaryTexts):
        ours_5: str

    with open(folder / "binary.yaml", "a") as file:
        file.write("ours_5: Is it private?\n")
    monkeypatch.setattr(binary, "BinaryTexts", WithFifth)
    monkeypatch.setattr(binary, "WORDINGS", (*binary.WORDINGS, "ours-5"))
    monkeypatch.setattr(binary, "VARIANTS", (*binary.VARIANTS, "ours-5"))
    assert ask("binary:p1").version == RECORDED["binary:p1"]
    fifth = ask("binary:ours-5")
    assert fifth.version.startswith("binary:ours-5-3 ")
    assert said(fifth.prompt).startswith("Is it private?\n")
    other = ask("binary:ours-5", prompts=b"ours_5: Is it secret?")
    assert other.version != fifth.version, "the hash follows the words"


def test_an_earlier_name_asks_the_same_words() -> None:
    for number in (1, 2, 3, 4):
        earlier, now = ask(f"binary:p{number}"), ask(f"binary:ours-{number}")
        assert (earlier.prompt, earlier.name) == (now.prompt, now.name)
        assert earlier.version.split()[1] == now.version.split()[1], "the same words have the same hash"
    earlier_file = ProtocolOptions(b"p1: Is it private?")
    assert (
        protocol("binary", earlier_file).prompt == protocol("binary", ProtocolOptions(b"ours_1: Is it private?")).prompt
    )


def test_prompt_files_of_older_runs_keep_their_hash() -> None:
    assert ask("severity:taxonomy-1", prompts=b"score_field: risk").version == "severity:taxonomy-1 0182101124dc"
    assert ask("two-pass-1", prompts=b"first_system: x").version == "two-pass-1 9d0b3ca91f0c"
    german = b"p2: Ist etwas privat?\nanswers: {yes: [ja], no: [nein]}"
    assert ask("binary:p2", prompts=german).version == "binary:p2-3 3cec3d059d88"


def test_a_revision_that_is_gone_falls_back_on_the_name() -> None:
    assert recorded_name("binary:p1", "binary:p1-1 000000000000") == "binary:p1"
    assert recorded_name("severity:taxonomy", "severity:taxonomy-1 6912dee874fe") == "severity:taxonomy-1"


GIVES_THE_SCORE_AWAY = re.compile(
    r"outweigh|weighs? more|any number of|more details|decides? first|how many|number of|the count|within (?:it|the)"
    r"|below it|lexicographic|square root|formula|\bband|0\.[0-9]*[1-9]|\b330\b|\b30\b|very bottom",
    re.IGNORECASE,
)
"""Words that state how the true score is computed: the order of levels by counts, and the limits of its bands."""


def said(prompt: Prompt) -> str:
    return "\n".join(part.text for message in prompt.messages for part in message.parts if isinstance(part, Text))


@pytest.mark.parametrize("mode", ["zero-shot", "intuition", "taxonomy", "intuition,counterfactual"])
def test_no_severity_prompt_says_how_the_score_is_computed(mode: str) -> None:
    assert GIVES_THE_SCORE_AWAY.findall(said(ask(f"severity:{mode}").prompt)) == []


@pytest.mark.parametrize("mode", ["intuition", "taxonomy"])
def test_the_check_finds_what_revision_1_gave_away(mode: str) -> None:
    assert len(GIVES_THE_SCORE_AWAY.findall(said(ask(f"severity:{mode}-1").prompt))) >= 2


def test_intuition_names_its_points_in_order_and_no_level() -> None:
    text = said(ask("severity:intuition").prompt)
    points = [
        "Identification",
        "Sensitive",
        "Harm by itself",
        "Harm in context",
        "Expectations",
        "high",
        "moderate",
        "low",
    ]
    places = [text.index(point) for point in points]
    assert places == sorted(places)
    assert "level" not in text.lower()


def test_taxonomy_names_the_elements_of_the_papers_prompt() -> None:
    text = " ".join(said(ask("severity:taxonomy").prompt).split())
    levels = re.split(r"- Level \d", text)[1:]
    for level, elements in enumerate(
        (
            ("biometric", "government"),
            ("user names", "dates of birth", "medical", "financial", "nudity", "race", "mental health"),
            ("age", "looks", "addresses", "landmarks", "habits"),
            ("vehicles", "homes without an address", "documents", "background", "crowds"),
        )
    ):
        assert [element for element in elements if element not in levels[level]] == []
    assert not re.search("tattoo|scar|birthmark", text), "the paper's prompt names no body markings"
    for guidance in ("highest-risk element", "cumulative risk", "own judgement", "must be above 0"):
        assert guidance in text
