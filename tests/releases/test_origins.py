"""Texts of a picture that is released in another form than it was scanned in do not lead to the original."""

import hashlib
import json
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.formats.origins import leads_to_origin, without_origins
from scoring.sql.url_tables import COLUMNS, RESERVED
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, tar
from tests.jobs.releases import CLEAN, COVER, files, with_gps, with_policy
from tests.making import Capture
from tests.nasty import png

PICTURES = {"a.jpg": with_gps(), "b.png": png(32, 24, 8, 2, (b"\0" + bytes((10, 90, 190)) * 32) * 24)}
"""Cleaning changes the first alone, and the policy that covers is about it alone."""

OTHER = {"caption", "license", "nsfw", "punsafe", "pwatermark", "similarity", "category", "status", "error_message"}
KNOWN = sorted(
    {name for column, known in COLUMNS.items() if column not in OTHER for name in (column, *known)}
    | RESERVED - OTHER
    | set("imageurl IMAGEURL imgurl pageurl flickr_id photoid tweet_id post_id tweet_id_str".split())  # noqa: SIM905
    | set("hash filehash imagehash ahash64 clip_embedding face_embedding dinov2 imageFeatures".split())  # noqa: SIM905
    | {"imageUrl", "img_width", "SHA256", "original_phash", "file_size", "__key__", "source_path", "OriginalHeight"}
)
POLICIES = {"cleaned": CLEAN, "covered": COVER.format(when="key[1] = 'a'", cover="image")}
PRIVATE = "not-for-publication/"
SAID = {"removed": "URLs, hashes and sizes of originals", "kept": "still lead to their originals"}


def marks(picture: str) -> list[object]:
    """A text and a number for each known name."""
    return [*(f"mark-of-{picture[0]}-{name}" for name in KNOWN), *(ord(picture[0]) * 10**6 + n for n in range(2))]


def about(picture: str) -> dict[str, object]:
    content, texts = PICTURES[picture], dict(zip(KNOWN, marks(picture), strict=False))
    pointers = {
        "read": f"see https://mark-of-{picture[0]}.example.org/1.jpg (1 of 2)",
        "quoted": rf"_https:\/\/mark-of-{picture[0]}.example.org ?u=http%3A%2F%2Fmark-of-{picture[0]}.example.org",
        "bare": f"//mark-of-{picture[0]}.example.org/a.jpg or i.mark-of-{picture[0]}.example.org/abc.jpg",
        "code": hashlib.md5(content).hexdigest(),
        "tags": ["a dog", f"www.mark-of-{picture[0]}.example.org/2.jpg"],
    }
    own = {"caption": "a dog", "class_id": 7, "url": f"https://mark-of-{picture[0]}.example.org/{picture}"}
    sizes = dict(zip(("width", "original_height"), marks(picture)[-2:], strict=True))
    hashes = {"sha256": hashlib.sha256(content).hexdigest()}
    return texts | own | sizes | hashes | pointers | {"more": {"deep": [texts | {"class_id": 8}], **hashes}}


def make_source(folder: Path, layout: str) -> Path:
    folder.mkdir()
    texts = {f"{name[0]}.txt": f"a dog, https://mark-of-{name[0]}.example.org".encode() for name in PICTURES}
    members = PICTURES | texts | {f"{name[0]}.json": json.dumps(about(name)).encode() for name in PICTURES}
    if layout == "tars":
        tar(folder / "0.tar", dict(sorted(members.items())))
    elif layout == "tree":
        for name, content in members.items():
            (folder / name).write_bytes(content)
    else:
        images = [{"bytes": content, "path": name, **about(name)} for name, content in PICTURES.items()]
        rows = [{"image": image, **about(name), "key": name[0]} for image, name in zip(images, PICTURES, strict=True)]
        table = pa.Table.from_pylist(rows)
        texts_of = [[(known, str(mark)) for known, mark in zip(KNOWN, marks(name), strict=False)] for name in PICTURES]
        strict = pa.struct([pa.field("url", pa.string(), nullable=False), ("read_at", pa.timestamp("ns"))])
        others = {
            "as_json": pa.array([json.dumps(about(name)) for name in PICTURES], pa.json_(pa.string())),
            "as_map": pa.array(texts_of, pa.map_(pa.string(), pa.string())),
            "strict": pa.array([{"url": str(marks(name)[0]), "read_at": 1_000} for name in PICTURES], strict),
        }
        for name, column in others.items():
            table = table.append_column(name, column)
        pq.write_table(table, folder / "0.parquet", compression="none")
    return folder


def publishable(release: Path) -> str:
    """All that is for publication, as text. Of tables the values, too, since numbers in them are no digits."""
    contents = {name: content for name, content in files(release).items() if not name.startswith(PRIVATE)}
    tables = [str(pq.read_table(release / name).to_pylist()) for name in contents if name.endswith(".parquet")]
    return "\n".join([*(content.decode("latin-1") for content in contents.values()), *tables])


def facts(release: Path, layout: str, name: str) -> dict[str, object]:
    if layout == "parquet":
        [row] = pq.read_table(release / "0.parquet").filter(pa.compute.field("key") == name[0]).to_pylist()
        image = row.pop("image")
        assert image["sha256"] == row["sha256"]
        return dict(row)
    if layout == "tree":
        return dict(json.loads((release / f"{name[0]}.json").read_text()))
    with tarfile.open(release / "0.tar") as archive:
        member = archive.extractfile(f"{name[0]}.json")
        assert member is not None
        return dict(json.load(member))


def test_fields_that_only_look_like_a_pointer_stay_and_so_do_texts_without_one() -> None:
    stay = """
        class_id classid categoryIds label_id langid language_id cls_id caption category label language
        box_width grid is_valid invalid kids hashtags security tourist curly_hair blinking is_clipart
        dinosaur keywords our_list similarity clip_similarity_vitb32 clip_l14_similarity_score nsfw punsafe
        NSFW pwatermark aesthetic_score
    """.split()  # noqa: SIM905
    assert [name for name in (*stay, *OTHER) if leads_to_origin(name)] == []
    assert [name for name in KNOWN if not leads_to_origin(name)] == []
    texts = ["a cat and/or a dog, 4.5/5 stars, e.g./i.e. 24/7", "see example.org. // a comment", "in the U.S./Canada"]
    assert without_origins(texts) == texts
    pointers = ["//host/a.jpg", r"i.imgur.com\/abc.jpg", "a.b.c.d.e.f.g.h.i.j.com:80/x", "cdn.example.org%2Fa.jpg"]
    assert not [text for text in without_origins(pointers) if not text.endswith("[origin]")]


@pytest.mark.parametrize("way", POLICIES)
@pytest.mark.parametrize("layout", ["tars", "tree", "parquet"])
def test_nothing_that_is_published_leads_to_the_original_of_a_picture_that_was_changed(
    layout: str, way: str, tmp_path: Path, capsys: Capture
) -> None:
    source, run = make_source(tmp_path / "source", layout), tmp_path / "run"
    scan_in_process(source, run)
    for origins in ("removed", "kept"):
        out = tmp_path / origins
        policy = with_policy(tmp_path, f"{POLICIES[way]}origins: {origins}\n")
        assert privsieve("filter", run, "--policy", policy, "--out", out) == 0
        assert privsieve("release", "verify", out) == 0
        printed, text = capsys.readouterr().out, publishable(out)
        rows = {row["key"][0]: row for row in pq.read_table(out / "not-for-publication/decisions.parquet").to_pylist()}
        assert [row["released_sha256"] == row["sha256"] for row in rows.values()] == [False, True]
        for name, is_there in (("a.jpg", origins == "kept"), ("b.png", True)):
            hashes = [made(PICTURES[name]).hexdigest() for made in (hashlib.sha256, hashlib.md5)]
            for mark in (*marks(name), f"mark-of-{name[0]}.example.org", *hashes):
                assert (str(mark) in text) == is_there, mark
        changed, same = facts(out, layout, "a.jpg"), facts(out, layout, "b.png")
        assert (changed["caption"], changed["class_id"]) == ("a dog", 7)
        assert same["sha256"] == hashlib.sha256(PICTURES["b.png"]).hexdigest()
        assert changed["sha256"] == rows["a"]["released_sha256" if origins == "removed" else "sha256"]
        assert json.loads((out / "release.json").read_text())["num_without_origin"] == (origins == "removed")
        assert SAID[origins] in (out / "README.md").read_text()
        assert f"origins: {origins} (" in printed


def test_a_takedown_by_url_finds_a_covered_picture_whose_url_is_gone_and_so_does_its_list_in_a_copy(
    tmp_path: Path,
) -> None:
    run, out, copy = tmp_path / "run", tmp_path / "out", tmp_path / "copy"
    scan_in_process(make_source(tmp_path / "source", "tars"), run)
    policy = with_policy(tmp_path, POLICIES["covered"])
    assert privsieve("filter", run, "--policy", policy, "--out", out) == 0
    copy.mkdir()
    shutil.copy(out / "0.tar", copy)
    requests = tmp_path / "requests.txt"
    requests.write_text("https://mark-of-a.example.org/a.jpg\n")
    assert privsieve("release", "takedown", out, requests) == 0
    assert privsieve("release", "verify", out) == 0
    assert privsieve("release", "apply", copy, out / "removed.parquet") == 0
    assert (copy / "0.tar").read_bytes() == (out / "0.tar").read_bytes()
    with tarfile.open(copy / "0.tar") as archive:
        assert archive.getnames() == ["b.json", "b.png", "b.txt"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("files: clean\nmembers: all\n", "these may lead to the original of a cleaned or covered picture"),
        ("origins: kept\n", "origins is about cleaned and covered pictures, and the policy has none; leave it out"),
        ("files: clean\norigins: keep\n", 'origins: "keep" is none of removed, kept'),
    ],
)
def test_a_policy_that_cannot_keep_its_word_on_originals_is_refused(
    lines: str, said: str, tmp_path: Path, capsys: Capture
) -> None:
    policy = with_policy(tmp_path, f"name: p\nrules: []\ndefault: keep\n{lines}")
    assert privsieve("filter", tmp_path, "--policy", policy, "--out", tmp_path / "out") == 2
    assert said in capsys.readouterr().err
