"""What `filter` says before its counts: of which images they are, and which rules may not do what was meant."""

from pathlib import Path

import pytest

from scoring.taxonomy import KEYS
from tests.jobs.made import made_run, privsieve
from tests.making import Capture
from tests.records import engine_record

DETECTORS = engine_record(name="detectors", protocol="p", assessed=list(KEYS))
CANNED = engine_record(name="canned", protocol="p", assessed=list(KEYS))


def _said(run: Path, when: str, then: str, capsys: Capture) -> list[str]:
    policy = run.parent / "policy.yaml"
    policy.write_text(f'name: p\ndefault: keep\nrules:\n  - {{name: one, when: "{when}", then: {then}, reason: r}}\n')
    capsys.readouterr()
    assert privsieve("filter", run, "--policy", policy, "--out", run.parent / "out", "--dry-run") == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"engine": DETECTORS}, ["all images of the source"]),
        ({"engine": DETECTORS, "limit": 21}, ["all images of the source"]),
        ({"engine": DETECTORS, "limit": 20}, ["first 20 images only (--limit): not representative"]),
        ({"engine": DETECTORS, "sample": 20, "seed": 3}, ["random sample of 20 images (seed 3)"]),
        ({"engine": CANNED}, ["all images of the source", "MADE-UP ANSWERS: the canned engine looks at no picture"]),
    ],
)
def test_the_first_line_says_which_images_the_counts_are_of(
    chosen: dict[str, object], message: list[str], tmp_path: Path, capsys: Capture
) -> None:
    lines = _said(made_run(tmp_path, ((20,),), **chosen), "level = 1", "drop", capsys)
    assert lines[: len(message)] == message
    assert lines[len(message)].split()[0] in ("keep", "drop")


@pytest.mark.parametrize(
    ("when", "then", "warns"),
    [
        ("level < 3", "drop", True),
        ("level_high <= 2", "flag", True),
        ("NOT level > 2", "drop", True),
        ("level < 3", "keep", False),
        ("level IN (1, 2)", "drop", False),
        ("level BETWEEN 1 AND 2", "drop", False),
        ("level = 0", "drop", False),
        ("status = 'scored'", "drop", False),
        ("score > 0.5", "drop", False),
        ("width < 100", "drop", False),
        ("level / 0 < 3", "drop", False),
    ],
)
def test_a_rule_that_takes_level_0_with_the_severe_ones_is_pointed_out(
    when: str, then: str, warns: bool, tmp_path: Path, capsys: Capture
) -> None:
    lines = _said(made_run(tmp_path, ((20,),), engine=DETECTORS), when, then, capsys)
    message = '  rule "one" also matches images in which nothing was found, since their level is 0; write for example: '
    assert [line for line in lines if "nothing was found" in line] == [f"{message}level IN (1, 2)"] * warns
