"""What a release takes of a table beside its pictures."""

import datetime
import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.formats import parquet
from ingest.formats.members import Members
from ingest.formats.released import Kept, Written
from ingest.storage.place import place
from tests.ingest.made import jpeg, parquet_file

PICTURES = [jpeg(40 * n) for n in range(4)]
NOW = datetime.datetime(2026, 1, 2)


def release(folder: Path, table: pa.Table, members: Members = "listed", rows: int = 2) -> tuple[Written, pa.Table]:
    """All rows but the first. rows: in each row group."""
    parquet_file(folder / "a.parquet", table, rows)
    hashes = {n: hashlib.sha256(PICTURES[n]).hexdigest() for n in (1, 2, 3)}
    wanted = Kept(hashes, 4, members, "scene" if "scene" in table.schema.names else None, ("image",))
    root = place(str(folder))
    written = parquet.write(root, "a.parquet", wanted, root.at("out"))
    assert written.num_samples == 3
    return written, pq.read_table(folder / "out" / "a.parquet")


PLAIN = {
    "id": ["k0", "k1", "k2", "k3"],
    "scene": [1, 2, 3, 4],
    "caption": ["a", None, "words, ä", ""],
    "score": [0.5, None, 1.0, 2.0],
    "safe": [True, None, False, True],
    "taken": [NOW] * 4,
    "day": [NOW.date()] * 4,
    "size": pa.array([{"w": 1, "h": 2}] * 4),
    "tags": [["a"], [], None, ["b", None]],
    "embedding": pa.array([[0.5, 1.0]] * 4, pa.list_(pa.float32(), 2)),
    "counts": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
    "label": pa.array(["x", "y", "x", None]).dictionary_encode(),
    "title": pa.array(["a", None, "a title that is longer than twelve bytes", ""]).cast(pa.string_view()),
    "marks": pa.array([["a"], [], None, ["b", None]], pa.list_(pa.string_view())),
    "meta": pa.array(['{"a": 1}'] * 4).cast(pa.json_()),
}
BYTES = {
    "original_image": PICTURES,
    "thumbnail": pa.array(PICTURES, pa.large_binary()),
    "second": pa.array([{"bytes": p, "path": "x"} for p in PICTURES]),
    "pages": pa.array([[p] for p in PICTURES]),
    "named": pa.array([[("a", p)] for p in PICTURES], pa.map_(pa.string(), pa.binary())),
    "raw": pa.array([list(p) for p in PICTURES], pa.list_(pa.uint8())),
    "digest": pa.array([b"0123"] * 4, pa.binary(4)),
    "uuid": pa.array([b"0123456789abcdef"] * 4, pa.binary(16)).cast(pa.uuid()),
}


def test_columns_that_can_hold_a_second_picture_stay_behind(tmp_path: Path) -> None:
    table = pa.table({"image": PICTURES, **PLAIN, **BYTES})
    written, found = release(tmp_path, table)
    expected = table.select(["image", *PLAIN])
    assert found.schema.equals(expected.schema)
    assert found.to_pylist() == expected.to_pylist()[1:]
    assert pq.ParquetFile(tmp_path / "out" / "a.parquet").metadata.row_group(0).column(0).compression == "ZSTD"
    assert written.left_out == {f"column {name}": 3 for name in BYTES}


def test_images_alone_keep_their_key_and_category(tmp_path: Path) -> None:
    table = pa.table({"image": PICTURES, **PLAIN, **BYTES})
    written, found = release(tmp_path, table, "image-only")
    assert found.schema.names == ["image", "id", "scene"]
    assert found["image"].to_pylist() == PICTURES[1:]
    others = (PLAIN | BYTES).keys() - {"id", "scene"}
    assert written.left_out == {f"column {name}": 3 for name in others}


def test_all_keeps_columns_of_bytes_less_the_pictures_in_them(tmp_path: Path) -> None:
    mixed = [b"\x93NUMPY", PICTURES[0], b"\0\1\2", None]
    more = {"mixed": mixed, "pair": pa.array([{"a": 1, "b": b} for b in mixed])}
    written, found = release(tmp_path, pa.table({"image": PICTURES, **PLAIN, **BYTES, **more}), "all")
    assert found.schema.names == ["image", *PLAIN, *BYTES, *more]
    assert found["mixed"].to_pylist() == [None, b"\0\1\2", None]
    assert found["pair"].to_pylist() == [None, {"a": 1, "b": b"\0\1\2"}, {"a": 1, "b": None}]
    assert {*found["original_image"].to_pylist(), *found["thumbnail"].to_pylist()} == {None}
    assert found["digest"].to_pylist() == [b"0123"] * 3
    nulled = {"original_image": 3, "thumbnail": 3, "second": 3, "pages": 3, "named": 3, "mixed": 1, "pair": 1}
    assert written.left_out == {f"column {name}": count for name, count in nulled.items()}


@pytest.mark.parametrize(("members", "more"), [("listed", ["width"]), ("image-only", [])])
def test_beside_the_bytes_of_a_hugging_face_image_only_plain_fields_stay(
    tmp_path: Path, members: Members, more: list[str]
) -> None:
    images = [{"bytes": p, "path": f"{n}.jpg", "width": 8, "preview": p} for n, p in enumerate(PICTURES)]
    written, found = release(tmp_path, pa.table({"image": pa.array(images)}), members)
    assert [field.name for field in found.schema.field("image").type] == ["bytes", "path", *more]
    assert [image["bytes"] for image in found["image"].to_pylist()] == PICTURES[1:]
    gone = {"column image.preview": 3} if members == "listed" else {"column image.preview": 3, "column image.width": 3}
    assert written.left_out == gone


def bytes_as_text(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


def test_text_that_is_no_text_becomes_null(tmp_path: Path) -> None:
    images = pa.StructArray.from_arrays(
        [pa.array(PICTURES), bytes_as_text(b"0.jpg", PICTURES[0], b"2.jpg", b"3.jpg")], ["bytes", "path"]
    )
    lists = pa.ListArray.from_arrays([0, 1, 2, 3, 4], bytes_as_text(b"a", b"b", b"\xff", b"c"))
    table = pa.table(
        {
            "image": images,
            "caption": bytes_as_text(b"\xff", b"caf\xe9", "ä".encode(), b"a\0b"),
            "label": bytes_as_text(b"x", b"\xff", b"y", b"y").dictionary_encode(),
            "tags": lists,
        }
    )
    written, found = release(tmp_path, table)
    assert found["caption"].to_pylist() == [None, "ä", None]
    assert found["label"].to_pylist() == [None, "y", "y"]
    assert found["tags"].to_pylist() == [["b"], None, ["c"]]
    assert [image["path"] for image in found["image"].to_pylist()] == [None, "2.jpg", "3.jpg"]
    assert written.left_out == {"column image": 1, "column caption": 2, "column label": 1, "column tags": 1}
    found.validate(full=True)


def test_of_the_metadata_only_the_features_of_these_columns_stay(tmp_path: Path) -> None:
    features = {name: {"_type": "Value", "dtype": "string"} for name in ("image", "caption", "thumbnail", "SECRET")}
    field = pa.field("caption", pa.string(), metadata={"note": "SECRET"})
    schema = pa.schema([pa.field("image", pa.binary()), field, pa.field("thumbnail", pa.binary())])
    stored = {"info": {"features": features, "description": "SECRET"}, "fingerprint": "SECRET"}
    metadata = {"huggingface": json.dumps(stored), "pandas": "SECRET", "note": "SECRET"}
    table = pa.table([PICTURES, ["words"] * 4, PICTURES], schema=schema.with_metadata(metadata))
    _, found = release(tmp_path, table)
    kept = {"info": {"features": {name: features[name] for name in ("image", "caption")}}}
    assert {name: json.loads(value) for name, value in found.schema.metadata.items()} == {b"huggingface": kept}
    assert b"SECRET" not in (tmp_path / "out" / "a.parquet").read_bytes()


@pytest.mark.parametrize("stored", ["{", "[]", '{"info": 3}', '{"info": {"features": [1]}}', "[" * 100_000])
def test_metadata_that_is_none_of_hugging_face_stays_behind(tmp_path: Path, stored: str) -> None:
    table = pa.table({"image": PICTURES}).replace_schema_metadata({"huggingface": stored})
    _, found = release(tmp_path, table)
    assert b"SECRET" not in (found.schema.metadata or {}).get(b"huggingface", b"")
    assert found["image"].to_pylist() == PICTURES[1:]


def test_nothing_of_dropped_rows_is_in_the_file(tmp_path: Path) -> None:
    words = ["SECRET", "kept one", "kept two", "kept three"]
    coded = pa.array(words).dictionary_encode()
    nested = pa.StructArray.from_arrays([coded], ["a"])
    lists = pa.ListArray.from_arrays([0, 1, 2, 3, 4], coded)
    images = pa.StructArray.from_arrays([pa.array(PICTURES).cast(pa.binary_view())], ["bytes"])
    table = pa.table({"image": images, "caption": words, "label": coded, "nested": nested, "lists": lists})
    _, found = release(tmp_path, table, rows=4)
    assert found["label"].to_pylist() == words[1:]
    assert found.schema.equals(table.schema)
    assert b"SECRET" not in (tmp_path / "out" / "a.parquet").read_bytes()
