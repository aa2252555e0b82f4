"""`groups` of a policy: near duplicates share the strictest decision, in whichever shard they are."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.jobs.made import privsieve, tar
from tests.jobs.releases import rows_by_key, with_policy
from tests.making import Capture, Folders

BY_KEY = (
    "name: by-key\ndefault: keep\nquarantined: drop\nrules:\n"
    "  - {name: first, when: \"key = 'a0'\", then: drop, reason: r}\n"
    "  - {name: flagged, when: \"key = 'b1'\", then: flag, reason: s}\n"
)


def photo(seed: int, quality: int, is_mirrored: bool = False) -> bytes:
    blocks = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)
    image = Image.fromarray(blocks).resize((256, 192), Image.Resampling.BICUBIC)
    image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if is_mirrored else image
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def run(tmp_path_factory: Folders) -> Path:
    """In two shards: two copies of a, of which one is mirrored, and two of b; c is alone."""
    folder = tmp_path_factory.mktemp("groups")
    (folder / "tars").mkdir()
    tar(folder / "tars" / "0.tar", {"a0.jpg": photo(1, 90), "b0.jpg": photo(2, 90), "c0.jpg": photo(3, 90)})
    tar(folder / "tars" / "1.tar", {"a1.jpg": photo(1, 40), "a2.jpg": photo(1, 60, True), "b1.jpg": photo(2, 40)})
    assert privsieve("scan", folder / "tars", "--run", folder / "run", "--engine", "canned") == 0
    return folder / "run"


def test_the_strictest_decision_of_a_group_is_that_of_all_its_pictures(
    run: Path, tmp_path: Path, capsys: Capture
) -> None:
    policy, out = with_policy(tmp_path, f"{BY_KEY}groups: phash\n"), tmp_path / "release"
    assert privsieve("filter", run, "--policy", policy, "--out", out, "--quiet") == 0
    note = "  4 pictures in 2 groups of near duplicates (phash): 2 pictures with a stricter decision than of their own"
    assert note in capsys.readouterr().out
    decided = rows_by_key(out)
    assert {key: (row["action"], row["reason"]) for key, row in decided.items()} == {
        "a0": ("drop", "r"),
        "a1": ("drop", "group: r"),
        "a2": ("keep", "no rule matched"),
        "b0": ("flag", "group: s"),
        "b1": ("flag", "s"),
        "c0": ("keep", "no rule matched"),
    }
    assert (decided["a1"]["rule"], decided["b0"]["rule"]) == ("first", "flagged")
    summary = json.loads((out / "release.json").read_text())
    assert summary["groups"] == {"by": "phash", "num_groups": 2, "num_pictures": 4, "num_overruled": 2}
    assert privsieve("release", "verify", out) == 0
