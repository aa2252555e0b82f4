"""Releases whose pictures are written again: cleaned, or covered and examined once more."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.assessment import Assessment, View
from scoring.engines.canned import CannedEngine
from scoring.engines.detectors.covering import examiner
from scoring.taxonomy import ATTRIBUTES, KEYS
from tests.ingest.crafted import profile, scene, table_profile
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, rows, tar
from tests.jobs.releases import (
    CLEAN,
    COVER,
    DEMO,
    FACES,
    PICTURES,
    decided,
    decisions,
    make_corpus,
    pictures,
    released,
    rows_by_key,
    with_policy,
)
from tests.making import Capture
from tests.nasty import encoded


@pytest.mark.parametrize("layout", ["tars", "tree", "parquet"])
def test_a_clean_release_holds_pixels_and_nothing_else(layout: str, tmp_path: Path, capsys: Capture) -> None:
    source, run, out = make_corpus(tmp_path, layout), tmp_path / "run", tmp_path / "out"
    scan_in_process(source, run, max_frames=16)
    assert privsieve("filter", run, "--policy", with_policy(tmp_path, CLEAN), "--out", out) == 0
    output = capsys.readouterr().out
    assert 'policy "clean": of 6 images 4 were kept, 0 kept and flagged, 2 dropped\n' in output
    assert "removed from 3 kept images: content that was not scanned\n" in output
    before = {name[0]: content for name, content in PICTURES.items()}
    after = {key[0]: content for key, content in pictures(out, layout)}
    assert after.keys() == {"a", "b", "c", "f"}
    for name, content in after.items():
        image, original = decode(content, ImageLimits()), decode(before[name], ImageLimits())
        assert isinstance(image, DecodedImage)
        assert isinstance(original, DecodedImage)
        assert (image.unseen, image.metadata) == ((), frozenset())
        assert all((one == other).all() for one, other in zip(image.views, original.views, strict=True))
    table = {key[0]: row for key, row in rows_by_key(out).items()}
    assert {key: row["rule"] for key, row in table.items()} == {
        **dict.fromkeys("abcf", "(default)"),
        **dict.fromkeys("de", "(not_cleaned)"),
    }
    assert table["d"]["reason"].startswith("its file cannot be cleaned without a change of its pixels")
    assert table["e"]["reason"] == "it was not scanned, so it cannot be cleaned"
    for name, row in table.items():
        expected = hashlib.sha256(after[name]).hexdigest() if name in after else None
        assert row["released_sha256"] == expected
        assert row["sha256"] == hashlib.sha256(before[name]).hexdigest()
    released(out)
    summary = json.loads((out / "release.json").read_text())
    assert (summary["files"], summary["num_unseen_kept"], summary["num_unseen_removed"]) == ("clean", 0, 3)


def test_the_decisions_say_which_pictures_lost_their_colour_profile(tmp_path: Path) -> None:
    source, run, out = tmp_path / "source", tmp_path / "run", tmp_path / "out"
    source.mkdir()
    given = {"a.png": table_profile(), "b.jpg": table_profile(), "c.jpg": profile(), "d.png": b""}
    for name, colours in given.items():
        (source / name).write_bytes(
            encoded(scene(), "JPEG" if name.endswith("jpg") else "PNG", icc_profile=colours or None)
        )
    scan_in_process(source, run)
    assert privsieve("filter", run, "--policy", with_policy(tmp_path, CLEAN), "--out", out) == 0
    lost = {key: row["colours"] for key, row in decisions(out).items()}
    assert lost == {"a": "removed", "b": "removed", "c": None, "d": None}
    assert privsieve("release", "verify", out) == 0


def test_an_interrupted_clean_release_goes_on_to_the_same_result(tmp_path: Path) -> None:
    source, run, policy = make_corpus(tmp_path, "tars"), tmp_path / "run", with_policy(tmp_path, CLEAN)
    tar(source / "1.tar", PICTURES)
    scan_in_process(source, run, max_frames=16)
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "whole") == 0
    (source / "1.tar").rename(tmp_path / "away.tar")
    (source / "1.tar").write_bytes(b"another")
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "out") != 0
    (tmp_path / "away.tar").rename(source / "1.tar")
    first = (tmp_path / "out" / "0.tar").stat().st_mtime_ns
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "out", "--resume") == 0
    assert (tmp_path / "out" / "0.tar").stat().st_mtime_ns == first
    assert released(tmp_path / "out") == released(tmp_path / "whole")
    decisions = [pq.read_table(tmp_path / name / "not-for-publication/decisions.parquet") for name in ("out", "whole")]
    assert decisions[0].equals(decisions[1])


@pytest.mark.slow
def test_a_covered_face_is_gone_for_the_detectors_and_the_rest_stays(seen: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    policy = with_policy(tmp_path, COVER.format(when="biometrics >= 0.5", cover="biometrics"))
    assert privsieve("filter", seen, "--policy", policy, "--out", out) == 0
    assert decided(out) == {
        "coins.png": ("keep", "(default)"),
        "frames.gif": ("drop", "(not_covered)"),
        "turned.jpg": ("redact", "people"),
        "woman.jpg": ("redact", "people"),
        "woman.png": ("redact", "people"),
    }
    released(out)
    table = rows_by_key(out)
    assert (
        table["frames.gif"]["reason"]
        == "a file of this kind or size cannot be covered (JPEG, PNG, WEBP of one frame can be, "
        "if it takes at most 1 GiB of memory)"
    )
    assert table["coins.png"]["released_sha256"] == table["coins.png"]["sha256"]
    for name in ("turned.jpg", "woman.jpg", "woman.png"):
        row, content = table[name], (out / name).read_bytes()
        assert row["released_sha256"] == hashlib.sha256(content).hexdigest() != row["sha256"]
    assert privsieve("scan", out, "--run", tmp_path / "again") == 0
    assert {row["key"]: row["biometrics"] for row in rows(tmp_path / "again")} == {
        "coins.png": 0, "turned.jpg": 0, "woman.jpg": 0, "woman.png": 0,
    }  # fmt: skip
    before = np.asarray(Image.open(seen.parent / "source" / "woman.png").convert("RGB"))
    after = np.asarray(Image.open(out / "woman.png").convert("RGB"))
    is_changed = (before != after).any(axis=2)
    assert 0.02 < is_changed.mean() < 0.6
    assert (after[is_changed] == 0).all()
    steps = pq.read_table(out / "not-for-publication/redactions.parquet").to_pylist()
    assert [step["key"] for step in steps if step["released"]] == ["turned.jpg", "woman.jpg", "woman.png"]
    assert all(step["is_examined"] and step["num_areas"] >= 1 for step in steps)
    assert all((step["left"] == []) == step["released"] for step in steps)
    assert 0.02 < next(step["share_covered"] for step in steps if step["key"] == "woman.png") < 0.6
    assert privsieve("release", "verify", out) == 0
    summary = json.loads((out / "release.json").read_text())
    assert summary["actions"] == {"keep": 1, "flag": 0, "redact": 3, "drop": 1}
    assert summary["second_look"] == "detectors-7"


@pytest.mark.slow
def test_a_run_without_boxes_gets_them_from_the_detectors_and_what_has_no_place_is_dropped(
    seen: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(seen, tmp_path / "run")
    for file in (run / "scores").glob("*.parquet"):
        table = pq.read_table(file)
        boxes = pa.nulls(table.num_rows, table.schema.field("boxes").type)
        pq.write_table(table.set_column(table.schema.names.index("boxes"), "boxes", boxes), file)
    policy = with_policy(tmp_path, COVER.format(when="true", cover="biometrics"))
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "out") == 0
    table = rows_by_key(tmp_path / "out")
    assert {key: row["action"] for key, row in table.items()} == {
        "coins.png": "drop", "frames.gif": "drop", "turned.jpg": "redact", "woman.jpg": "redact", "woman.png": "redact",
    }  # fmt: skip
    assert table["coins.png"]["reason"] == "the detectors do not say where it shows biometrics"


def test_what_has_no_place_is_covered_whole_if_the_rule_says_so(seen: Path, tmp_path: Path) -> None:
    text = COVER.format(when="key = 'coins.png'", cover="plates").replace("redact,", "redact, fallback: image,")
    assert privsieve("filter", seen, "--policy", with_policy(tmp_path, text), "--out", tmp_path / "out") == 0
    assert np.asarray(Image.open(tmp_path / "out" / "coins.png")).max() == 0
    [step] = pq.read_table(tmp_path / "out" / "not-for-publication/redactions.parquet").to_pylist()
    assert (step["step"], step["is_examined"], step["released"]) == ("image", False, True)


@pytest.mark.slow
def test_all_text_persons_and_codes_can_be_covered(tmp_path: Path) -> None:
    """The card is written at a slant, so that the attributes of single lines leave parts of it."""
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    shutil.copy(DEMO / "document" / "business_card.jpg", source / "card.jpg")
    shutil.copy(DEMO / "portrait" / "woman.jpg", source / "woman.jpg")
    policy = with_policy(tmp_path, COVER.format(when="true", cover="text, codes, persons"))
    assert privsieve("scan", source, "--run", tmp_path / "run") == 0
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", out) == 0
    assert decided(out) == {"card.jpg": ("redact", "people"), "woman.jpg": ("redact", "people")}
    assert privsieve("scan", out, "--run", tmp_path / "again") == 0
    values = {row["key"]: row for row in rows(tmp_path / "again")}
    assert [values["card.jpg"][name] for name in ("contact_details", "full_legal_name", "documents")] == [0, 0, 0]
    assert values["woman.jpg"]["biometrics"] == 0


@pytest.mark.slow
def test_another_engine_looks_too_and_has_the_last_word(seen: Path, tmp_path: Path, capsys: Capture) -> None:
    """The canned engine answers by the hash of what it is shown, so one knows what it said of each released file."""
    policy = with_policy(tmp_path, FACES + "residual_max_level: 3\nverify: {engine: canned}\n")
    options = ("--policy", policy, "--out", tmp_path / "out")
    assert privsieve("filter", seen, *options, "--dry-run") == 0
    output = capsys.readouterr().out
    assert "  covered pictures are examined by canned (sha256), too; its answers are made up\n" in output
    assert privsieve("filter", seen, *options) == 0
    steps = pq.read_table(tmp_path / "out" / "not-for-publication/redactions.parquet").to_pylist()
    private = [attribute.key for attribute in ATTRIBUTES if attribute.level in (1, 2)]
    assert {key for step in steps for key in step["left"]} - {*examiner().assessed}
    assert all((step["left"] == []) == step["released"] for step in steps)
    rows_of = rows_by_key(tmp_path / "out")
    for key in ("woman.jpg", "woman.png", "turned.jpg"):
        if rows_of[key]["action"] == "redact":
            assert {made_up_values(tmp_path / "out" / key)[name] for name in private} == {0}
        else:
            assert rows_of[key]["rule"] == "(not_covered)"
            assert rows_of[key]["reason"].startswith("after 3 steps the second look still finds ")
    summary = json.loads((tmp_path / "out" / "release.json").read_text())
    assert (summary["second_look"], summary["verified_by"]) == ("detectors-7", "canned (sha256)")
    assert "Then `canned (sha256)` examined them" in (tmp_path / "out" / "README.md").read_text()


def made_up_values(picture: Path) -> dict[str, float]:
    content = picture.read_bytes()
    image = decode(content, ImageLimits())
    assert isinstance(image, DecodedImage)
    view = View(image.views[0], image.metadata, hashlib.sha256(content).hexdigest())
    [outcome] = CannedEngine().assess([view])
    assert isinstance(outcome, Assessment)
    return dict(zip(KEYS, outcome.values.tolist(), strict=True))


@pytest.mark.slow
def test_nothing_of_the_levels_above_the_residual_one_is_left(seen: Path, tmp_path: Path) -> None:
    """A rule that covers the name alone leaves the face of a man beside his visiting card."""
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    with Image.open(DEMO / "document" / "business_card.jpg") as card, Image.open(DEMO / "portrait" / "man.jpg") as man:
        both = Image.new("RGB", (card.width + man.width, max(card.height, man.height)), "white")
        both.paste(card, (0, 0))
        both.paste(man, (card.width, 0))
        both.save(source / "card.jpg", quality=95)
    assert privsieve("scan", source, "--run", tmp_path / "run") == 0
    policy = f"{COVER.format(when='true', cover='full_legal_name')}residual_max_level: 3\n"
    assert privsieve("filter", tmp_path / "run", "--policy", with_policy(tmp_path, policy), "--out", out) == 0
    steps = pq.read_table(out / "not-for-publication/redactions.parquet").to_pylist()
    assert "biometrics" in steps[0]["left"]
    assert decided(out) == {"card.jpg": ("redact", "people")}
    assert privsieve("scan", out, "--run", tmp_path / "again") == 0
    assert rows(tmp_path / "again")[0]["level"] in (0, 3, 4)
    assert json.loads((out / "release.json").read_text())["residual_max_level"] == 3
