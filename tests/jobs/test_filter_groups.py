"""`groups` of a policy: near duplicates share the strictest decision, in whichever shard they are."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.jobs.made import privsieve, tar
from tests.jobs.releases import with_policy
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
    """In two shards: two copies of a, of which one is turned, and two of b; c is alone."""
    folder = tmp_path_factory.mktemp("groups")
    (folder / "tars").mkdir()
    tar(folder / "tars" / "0.tar", {"a0.jpg": photo(1, 90), "b0.jpg": photo(2, 90), "c0.jpg": photo(3, 90)})
    tar(folder / "tars" / "1.tar", {"a1.jpg": photo(1, 40), "a2.jpg": photo(1, 60, True), "b1.jpg": photo(2, 40)})
    assert privsieve("scan", folder / "tars", "--run", folder / "run", "--engine", "canned", "--pdq") == 0
    return folder / "run"


@pytest.mark.parametrize(("groups", "turned"), [("phash", ("keep", "no rule matched")), ("pdq", ("drop", "group: r"))])
def test_the_strictest_decision_of_a_group_is_that_of_all_its_pictures(
    run: Path, tmp_path: Path, groups: str, turned: tuple[str, str], capsys: Capture
) -> None:
    policy, out = with_policy(tmp_path, f"{BY_KEY}groups: {groups}\n"), tmp_path / "release"
    assert privsieve("filter", run, "--policy", policy, "--out", out, "--quiet") == 0
    num_in_groups, num_overruled = (5, 3) if groups == "pdq" else (4, 2)
    note = f"  {num_in_groups} pictures in 2 groups of near duplicates ({groups}): {num_overruled} pictures with"
    assert f"{note} a stricter decision than of their own\n" in capsys.readouterr().out
    decided = {row["key"]: row for row in pq.read_table(out / "not-for-publication/decisions.parquet").to_pylist()}
    assert {key: (row["action"], row["reason"]) for key, row in decided.items()} == {
        "a0": ("drop", "r"),
        "a1": ("drop", "group: r"),
        "a2": turned,
        "b0": ("flag", "group: s"),
        "b1": ("flag", "s"),
        "c0": ("keep", "no rule matched"),
    }
    assert (decided["a1"]["rule"], decided["b0"]["rule"]) == ("first", "flagged")
    summary = json.loads((out / "release.json").read_text())
    counts = {"num_groups": 2, "num_pictures": num_in_groups, "num_overruled": num_overruled}
    assert summary["groups"] == {"by": groups, **counts}
    assert privsieve("release", "verify", out) == 0
