"""`scan --dry-run` counts from the files of the model alone; the engines count what they really feed it."""

import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.assessment import View
from scoring.engines.picture import max_side_px
from scoring.protocols import protocol
from tests.jobs.made import privsieve, tar
from tests.vllm.conftest import MAX_PIXELS, picture

SIZES = ((132, 92), (20, 12), (1900, 1400), (41, 619))
"""Width and height: as it is, smaller than a patch, shrunk already in decoding, a strip."""


def _jpeg(seed: int, width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(seed, height, width).pixels).save(buffer, "JPEG")
    return buffer.getvalue()


def _as_decoded(encoded: bytes) -> View:
    """As an engine gets it in a scan."""
    image = decode(encoded, ImageLimits(max_side_px=max_side_px(MAX_PIXELS)))
    assert isinstance(image, DecodedImage)
    return View(image.views[0], frozenset(), "0" * 64)


@pytest.mark.parametrize("name", ["slots", "slots:digits", "severity"])
def test_the_tokens_of_a_dry_run_are_those_of_the_engines(
    engine: Callable[..., Any], checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    members = {f"{number}.jpg": _jpeg(200 + number, *size) for number, size in enumerate(SIZES)}
    tar(tmp_path / "0.tar", members)
    arguments = ["--engine", "vllm", "--model", checkpoint, "--max-pixels", MAX_PIXELS, "--protocol", name]
    assert privsieve("scan", tmp_path / "0.tar", "--run", tmp_path / "run", "--dry-run", *arguments) == 0
    shown = capsys.readouterr().out
    (words,) = [int(count.replace(",", "")) for count in re.findall(r"^tokens +([\d,]+) of text", shown, re.MULTILINE)]
    (after,) = [
        int(count) for count in re.findall(r" (\d+) of them after it: computed for each one$", shown, re.MULTILINE)
    ]
    visual = [int(count) for count in re.findall(r" (\d+) visual tokens$", shown, re.MULTILINE)]
    assert len(set(visual)) == len(SIZES)

    asked = protocol(name)
    views = [_as_decoded(encoded) for encoded in members.values()]
    transformers = engine("transformers", protocol="slots")
    tokens = transformers.prompter.tokens(asked.prompt)
    fed = [len(transformers._request(asked.prompt, tokens, view).token_ids) for view in views]
    assert fed == [words + count for count in visual]
    turns = transformers.prompter.tokens(protocol("severity").prompt).token_ids
    closing = len(turns) - 1 - turns.index(transformers.prompter.image_token_id)
    assert after - closing == {"slots": 22 + 21, "slots:digits": 21, "severity": 0}[name], "a token a letter and digit"

    if name != "severity":  # of what is written, `test_one_prefill` compares the counts of both engines
        vllm = engine("vllm", protocol="slots")
        for view, count in zip(views, visual, strict=True):
            before = Counter(vllm.usage)
            vllm.assess_with(asked, [view])
            assert (vllm.usage - before)["prompt"] == words + count


def test_a_picture_that_the_processor_refuses_costs_its_line_only(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tar(tmp_path / "0.tar", {"0.jpg": _jpeg(1, 30_000, 4), "1.jpg": _jpeg(2, 64, 48)})
    arguments = ["--engine", "transformers", "--model", checkpoint]
    assert privsieve("scan", tmp_path / "0.tar", "--run", tmp_path / "run", "--dry-run", *arguments) == 0
    strip, other = capsys.readouterr().out.splitlines()[-2:]
    assert strip == "  0.tar 0: 30000x4, cannot be prepared at 1024x1 (ValueError): engine_error"
    assert other.endswith(" visual tokens")
