"""Settings of a protocol: texts and variants; the version that follows them; wrong calls."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ingest.errors import EngineError
from scoring.protocols import PROTOCOLS
from scoring.protocols.interface import Image, Message, Text
from scoring.taxonomy import KEYS
from tests.scoring.asking import ALL_NAMES, ask

TEXTS = Path(__file__).parents[2] / "scoring" / "protocols" / "texts"


@pytest.mark.parametrize("name", ALL_NAMES)
def test_the_version_follows_every_text(name: str) -> None:
    assert ask(name).version.startswith(f"{name}-1 ")
    versions = set[str]()
    texts = yaml.safe_load((TEXTS / f"{name.partition(':')[0]}.yaml").read_text())
    shipped = {key: text for key, text in texts.items() if key != "answers"}
    for text_name, text in shipped.items():
        changed = {"placeholder": "8"}.get(text_name, text + " ")
        versions.add(ask(name, prompts=yaml.safe_dump({text_name: changed}).encode()).version)
    assert len(versions) == len(shipped)
    assert ask(name).version not in versions


def test_the_version_follows_questions_and_variants() -> None:
    versions = [
        ask("slots").version,
        ask("slots", prompts=b"questions: {age: 'Present: an age.'}").version,
        ask("two-pass").version,
        *(ask(name).version for name in ALL_NAMES if ":" in name),
    ]
    assert len(set(versions)) == len(versions)
    assert ask("slots", prompts=b"{}").version == ask("slots").version
    assert ask("binary").version == ask("binary:ours-1").version
    assert ask("binary:reason,ours-2").version == ask("binary:ours-2, reason").version


def test_a_replaced_text_is_asked() -> None:
    prompts = b"system: ''\ninstructions: |-\n  Look for:\n  {attributes}\nattribute_line: '{number}) {key}'\n"
    asked = ask("slots", prompts=prompts)
    assert asked.prompt.messages == (
        Message("user", (Text("Look for:\n" + "\n".join(f"{n}) {key}" for n, key in enumerate(KEYS, 1))), Image())),
    )


@pytest.mark.parametrize("name", ALL_NAMES)
def test_a_protocol_travels_to_other_processes(name: str) -> None:
    asked = ask(name)
    again = pickle.loads(pickle.dumps(asked))
    assert (again.version, again.prompt, again.passes) == (asked.version, asked.prompt, 2 if name == "two-pass" else 1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("slot", {}, 'unknown protocol "slot" (did you mean "slots"?); there are: slots, json, two-pass'),
        ("severity:taxonmy", {}, 'no variant "taxonmy" (did you mean "taxonomy"?); there are: zero-shot'),
        ("slots:p1", {}, 'the slots protocol has no variant "p1"; there are: counterfactual'),
        ("binary:ours-5", {}, 'no variant "ours-5" (did you mean "ours-4"?); there are: ours-1'),
        ("binary:classes,class-names", {}, "one list of what is private at a time, not class-names and classes"),
        ("severity:taxonomy,intuition", {}, "one mode at a time, not intuition and taxonomy"),
        ("binary:", {}, 'the binary protocol has no variant ""; there are: ours-1, ours-2'),
        ("binary:first,lenient", {}, "one reading at a time, not lenient and first"),
        ("binary:first,reason", {}, "one reading at a time, not first and reason"),
        ("binary:lenient,reason", {}, "one reading at a time, not lenient and reason"),
        ("two-pass:x", {}, 'the two-pass protocol has no variant "x"; it has none'),
        ("binary:ours-1,ours-2", {}, "one wording at a time, not ours-1 and ours-2"),
        ("slots", {"prompts": b"sytem: x"}, 'no text is named "sytem" (did you mean "system"?)'),
        ("slots", {"prompts": b"questions: {gov_id: x}"}, 'no attribute is named "gov_id" (did you mean "gov_ids"?)'),
        ("slots", {"prompts": b"questions: {1: x}"}, 'no attribute is named "1"; there are: '),
        ("slots", {"prompts": b"questions: all"}, "questions must map attribute keys to texts"),
        ("slots", {"prompts": b"instructions: '{atributes}'"}, 'no {atributes} is known (did you mean "attributes"?)'),
        ("slots", {"prompts": b"system: 3"}, "the prompt file: system: input should be a valid string"),
        ("slots", {"prompts": b"placeholder: '10'"}, "placeholder must be a single digit"),
        ("slots", {"prompts": b"form_line: 'x'"}, "form_line must hold {slot} exactly once"),
        ("slots", {"prompts": b"form_line: '{slot}'"}, "form_line must hold {key}, else the form names no attribute"),
        ("slots", {"prompts": b"placeholder: '0'"}, "the prompt file: placeholder must be none of 0, 1, 2"),
        ("slots", {"prompts": b"placeholder: '2'"}, "the prompt file: placeholder must be none of 0, 1, 2"),
        ("slots", {"prompts": b"instructions: x"}, "the prompt file: instructions must hold {attributes}, else"),
        ("json", {"prompts": b"instructions: x"}, "the prompt file: instructions must hold {attributes}, else"),
        ("two-pass", {"prompts": b"first: x"}, "the prompt file: first must hold {attributes}, else the model"),
        ("json", {"prompts": b"attribute_line: '{question}'"}, "the prompt file: attribute_line must hold {key}, else"),
        ("two-pass", {"prompts": b"second: 'x'"}, "the prompt file: second must hold {notes}, else the second pass"),
        ("slots", {"prompts": b"system: ["}, "the prompt file is not valid YAML at line 1, column 10"),
        ("slots", {"prompts": b"\xff\xfe\xff"}, "the prompt file is not valid YAML"),
        ("slots", {"prompts": b""}, "the prompt file must hold names and their values"),
        ("slots", {"prompts": b"system: a\nsystem: b"}, 'the prompt file: the key "system" occurs twice'),
        (
            "slots",
            {"prompts": b"questions:\n  age: a\n  age: c"},
            '"age" occurs twice, the second time at line 3; keep',
        ),
        ("slots", {"prompts": b'"a\\nb": x\n'}, 'no text is named "a\\nb"; there are: '),
    ],
)
def test_a_wrong_call_is_reported(name: str, options: dict[str, bytes], message: str) -> None:
    with pytest.raises(EngineError) as refused:
        ask(name, **options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_protocols_load_no_model_library() -> None:
    code = (
        "import sys; from scoring.protocols import PROTOCOLS, protocol\n"
        "[protocol(name) for name in PROTOCOLS]\n"
        "print([name for name in ('torch', 'vllm', 'transformers', 'ray', 'duckdb') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TEXTS.parents[2]
    )
    assert done.stdout.strip() == "[]"
    assert {name.partition(":")[0] for name in ALL_NAMES} == set(PROTOCOLS)


def test_the_examples_of_the_documentation_are_accepted() -> None:
    page = (TEXTS.parents[2] / "docs" / "protocols.md").read_text()
    (prompts,) = (block.partition("```")[0].encode() for block in page.split("```yaml\n")[1:])
    asked = ask("slots", prompts=prompts)
    assert asked.prompt.messages[0].parts == (Text("You check photographs before they are published."),)
    assert f"`{ask('slots').version}`" in page
