"""Texts next to released pictures: what text rules find in them is replaced by its kind, or the sample is dropped."""

import json
import tarfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.formats.members import edited_member, masked_value
from scoring.captions import CAPTION_KINDS, REMOVED, caption_kinds, masked
from tests.ingest.crafted import jpeg
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, tar
from tests.jobs.releases import decided, with_policy

MASKED = "name: masked\ntexts: masked\nrules: []\ndefault: keep\nquarantined: drop\n"
CAPTION = "Call Anna Maria Smith, 555-010-4477, today."


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a red car on the road", "a red car on the road"),
        ("portrait of John Smith at work", "portrait of [full_name] at work"),
        ("mail me: anna.smith@example.org", "mail me: [email_address]"),
        ("a dog | a cat\nJohn Smith", "a dog | a cat\n[full_name]"),
        ("x" * 70_000, REMOVED),
    ],
)
def test_what_is_found_is_replaced_and_the_rest_stays(text: str, left: str) -> None:
    assert masked(text) == left


@pytest.mark.parametrize(
    "text",
    [
        CAPTION,
        "John Smith lives at 12 Main Street, 90210 Beverly Hills",
        "born 3 May 1980, SSN 078-05-1120",
        "https://www.example.org/@annasmith/1.jpg",
        "IBAN DE89 3704 0044 0532 0130 00, card 4111 1111 1111 1111",
        "word " * 250 + "John Smith 555-010-4477 " + "word " * 250,
    ],
)
def test_the_rules_find_nothing_in_a_masked_text(text: str) -> None:
    assert caption_kinds(text)
    assert caption_kinds(masked(text)) == ()
    for secret in ("Smith", "555", "Anna", "078", "4111", "3704", "90210"):
        assert secret not in masked(text)


def test_the_kinds_themselves_are_no_evidence() -> None:
    assert all(caption_kinds(f"[{kind}]") == () for kind in CAPTION_KINDS)


def test_all_texts_of_json_are_masked_and_values_that_are_not_read_are_gone() -> None:
    twice = b'{"caption": "John Smith", "caption": "a dog", "n": 3, "tags": ["a cat", {"by": "Anna Maria Smith"}]}'
    mask = partial(masked_value, mask=masked)
    made, is_masked = edited_member("a.json", twice, mask) or (b"", False)
    assert json.loads(made) == {"caption": "a dog", "n": 3, "tags": ["a cat", {"by": "[full_name]"}]}
    assert is_masked
    assert b"John" not in made
    assert edited_member("a.json", b'{"John Smith": 1}', mask) is None
    assert edited_member("a.txt", CAPTION.encode(), mask) == (b"[full_name] today.", True)


def test_texts_of_every_layout_are_masked(tmp_path: Path) -> None:
    for layout in ("tars", "tree", "parquet"):
        source, out = tmp_path / layout, tmp_path / f"out-{layout}"
        source.mkdir()
        facts = json.dumps({"author": "John Smith", "width": 40}).encode()
        if layout == "tars":
            tar(source / "0.tar", {"a.jpg": jpeg(), "a.txt": CAPTION.encode(), "a.json": facts})
        elif layout == "tree":
            for name, content in {"a.jpg": jpeg(), "a.txt": CAPTION.encode(), "a.json": facts}.items():
                (source / name).write_bytes(content)
        else:
            visit = pa.struct([("by", pa.string()), ("at", pa.list_(pa.time64("ns")))])
            table = {
                "key": pa.array([4 * 10**6], pa.date32()),
                "visit": pa.array([{"by": "a dog", "at": [1, None]}], visit),
                "image": [{"bytes": jpeg(), "path": "a.jpg"}],
                "caption": pa.array([CAPTION]).dictionary_encode(),
                "author": [{"name": "John Smith", "tags": ["a dog", None]}],
                "width": [40],
            }
            of_maps = pa.array([[("by", "John Smith"), ("of", "a dog")]], pa.map_(pa.string(), pa.string()))
            two_of_a_name = pa.StructArray.from_arrays([pa.array(["John Smith"]), pa.array(["a dog"])], ["by", "by"])
            made = pa.table(table).append_column("facts", of_maps).append_column("twice", two_of_a_name)
            pq.write_table(made, source / "0.parquet")
        run = tmp_path / f"run-{layout}"
        scan_in_process(source, run)
        assert privsieve("filter", run, "--policy", with_policy(tmp_path, MASKED), "--out", out, "--quiet") == 0
        if layout == "parquet":
            released = pq.read_table(out / "0.parquet")
            assert released.select(["key", "visit"]).equals(made.select(["key", "visit"])), "Python has no such times"
            assert [*decided(out)] == ["12921-08-18"]
            [row] = released.drop_columns(["key", "visit"]).to_pylist()
            assert row["caption"] == "[full_name] today."
            assert row["author"] == {"name": "[full_name]", "tags": ["a dog", None]}
            assert row["facts"] == [("by", "[full_name]"), ("of", "a dog")]
            assert row["twice"] is None, "pyarrow reads no struct with two fields of one name"
            assert (row["width"], row["image"]["path"]) == (40, "a.jpg")
        else:
            if layout == "tars":
                with tarfile.open(out / "0.tar") as archive:
                    archive.extractall(out, filter="data")
            assert (out / "a.txt").read_text() == "[full_name] today."
            assert json.loads((out / "a.json").read_text()) == {"author": "[full_name]", "width": 40}
            assert (out / "a.jpg").read_bytes() == jpeg()
            for name in ("a.jpg", "a.txt", "a.json") if layout == "tars" else ():
                (out / name).unlink()
        num_masked = 4 if layout == "parquet" else 2
        summary = json.loads((out / "release.json").read_text())
        assert (summary["texts"], summary["num_texts_masked"]) == ("masked", num_masked)
        assert f"what text rules found in them is masked ({num_masked} texts)" in (out / "README.md").read_text()
        assert privsieve("release", "verify", out) == 0


def test_an_example_policy_drops_by_kinds_in_captions_and_masks_the_rest(tmp_path: Path) -> None:
    """The example of docs/filter.md."""
    page = (Path(__file__).parents[2] / "docs" / "filter.md").read_text()
    [example] = [block for block in page.split("```")[1::2] if "name: captions" in block]
    source = tmp_path / "source"
    source.mkdir()
    captions = {"a": "a dog", "b": "IBAN DE89 3704 0044 0532 0130 00", "c": "John Smith at work", "d": None}
    files = {f"{key}.jpg": jpeg() for key in captions}
    files |= {f"{key}.txt": text.encode() for key, text in captions.items() if text is not None}
    tar(source / "0.tar", dict(sorted(files.items())))
    scan_in_process(source, tmp_path / "run")
    policy = with_policy(tmp_path, example.removeprefix("yaml\n"))
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", tmp_path / "out", "--quiet") == 0
    assert {key: action for key, (action, _) in decided(tmp_path / "out").items()} == {
        "a": "keep", "b": "drop", "c": "flag", "d": "keep",
    }  # fmt: skip
    with tarfile.open(tmp_path / "out" / "0.tar") as archive:
        text = archive.extractfile("c.txt")
        assert text is not None
        assert text.read() == b"[full_name] at work"
