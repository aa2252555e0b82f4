"""Parquet files with images: columns, row groups, and damage."""

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import Fault, SourceError, StorageError
from ingest.formats import open_source, parquet
from ingest.sample import Sample
from tests.ingest.made import jpeg, parquet_file, samples_of, slices_of
from tests.making import Patch

NOISE = random.Random(0)
PICTURES = [jpeg(n) + NOISE.randbytes(500) for n in range(20)]


def read(path: Path, table: pa.Table, category: str | None = None) -> list[Sample]:
    parquet_file(path, table)
    return samples_of(open_source(str(path), None, category))


def reasons(samples: list[Sample]) -> list[str | None]:
    return [s.fault.reason if s.fault else None for s in samples]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.parquet"


def test_hugging_face_images(file: Path) -> None:
    images = [{"bytes": PICTURES[0], "path": "x/0.jpg"}, {"bytes": None, "path": "1.jpg"}, None]
    images.append({"bytes": PICTURES[3], "path": None})
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    samples = read(file, pa.table({"image": pa.array(images, kind), "label": [1, 2, None, 4]}), "label")
    assert [s.key for s in samples] == ["x/0.jpg", "1.jpg", "000000002", "000000003"]
    assert [s.category for s in samples] == ["1", "2", None, "4"]
    assert reasons(samples) == [None, "no_image", "no_image", None]
    assert [s.encoded for s in samples] == [PICTURES[0], b"", b"", PICTURES[3]]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_plain_bytes_with_a_missing_image(file: Path, kind: pa.DataType) -> None:
    table = pa.table({"jpg": pa.array([PICTURES[0], None, b""], kind), "key": ["a\nb", None, "c"]})
    samples = read(file, table)
    assert [(s.key, s.encoded) for s in samples] == [("a\\nb", PICTURES[0]), ("000000001", b""), ("c", b"")]
    assert reasons(samples) == [None, "no_image", None]


def test_text_that_is_no_text_and_times_are_names(file: Path) -> None:
    broken = pa.array([b"caf\xe9", b"ok"], pa.binary()).view(pa.string())
    samples = read(file, pa.table({"image": PICTURES[:2], "key": broken, "category": broken}))
    assert [(s.key, s.category) for s in samples] == [("caf\\xe9", "caf\\xe9"), ("ok", "ok")]
    times = pa.array([1, None], pa.timestamp("ns"))
    samples = read(file, pa.table({"image": PICTURES[:2], "key": times}))
    assert [s.key for s in samples] == ["1970-01-01 00:00:00.000000001", "000000001"]


CODED_TEXT = [pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())]
TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view(), *CODED_TEXT]
BYTES_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())]


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_keys_and_categories_of_every_type_of_text(file: Path, kind: pa.DataType) -> None:
    text = pa.array(["ä", None, "a name that is longer than twelve bytes", "ä"])
    table = pa.table({"image": PICTURES[:4], "key": text.cast(kind), "scene": text.cast(kind)})
    samples = read(file, table, "scene")
    assert reasons(samples) == [None] * 4
    assert [s.category for s in samples] == text.to_pylist()
    assert [s.key for s in samples] == ["ä", "000000001", "a name that is longer than twelve bytes", "ä"]
    assert [s.encoded for s in samples] == PICTURES[:4]


@pytest.mark.parametrize("hugging_face", [False, True])
@pytest.mark.parametrize("kind", BYTES_TYPES, ids=str)
def test_images_of_every_type_of_bytes(file: Path, kind: pa.DataType, hugging_face: bool, monkeypatch: Patch) -> None:
    monkeypatch.setattr(parquet, "MAX_SAMPLES", 3)
    images = pa.array([PICTURES[0], None, PICTURES[2], PICTURES[0]]).cast(kind)
    paths = pa.array(["0.jpg", "1.jpg", None, "a/deep/er/folder/3.jpg"]).cast(pa.string_view())
    if hugging_face:
        samples = read(file, pa.table({"photo": pa.StructArray.from_arrays([images, paths], ["bytes", "path"])}))
    else:
        samples = read(file, pa.table({"photo": images, "path": paths}))
    assert reasons(samples) == [None, "no_image", None, None]
    assert [s.encoded for s in samples] == [PICTURES[0], b"", PICTURES[2], PICTURES[0]]
    assert [s.key for s in samples] == ["0.jpg", "1.jpg", "000000002", "a/deep/er/folder/3.jpg"]


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        ([True, False], ["True", "False"]),
        (pa.array([7, None], pa.uint8()), ["7", None]),
        (pa.array([7, 8]).dictionary_encode(), ["7", "8"]),
        (pa.nulls(2), [None, None]),
    ],
)
def test_categories_that_are_no_text(file: Path, values: object, categories: list[str | None]) -> None:
    assert [s.category for s in read(file, pa.table({"image": PICTURES[:2], "category": values}))] == categories


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array(PICTURES[:2]), "binary"),
        (pa.array(PICTURES[:2]).dictionary_encode(), "dictionary"),
        (pa.array(PICTURES[:2]).cast(pa.binary_view()), "binary_view"),
        (pa.array([{"bytes": PICTURES[0], "path": "0.jpg"}] * 2), "struct"),
        (pa.array([["a"], []]), "list"),
        (pa.array([0.5, 1.0]), "double"),
        (pa.array([1, 2], pa.timestamp("ns")), "timestamp[ns]"),
        (pa.array([b"12", b"34"], pa.binary(2)), "fixed_size_binary[2]"),
    ],
)
def test_a_column_that_gives_no_category_is_refused(file: Path, values: pa.Array, kind: str) -> None:
    message = f'a.parquet: the category column "NAME" holds {kind}, not text, boolean or whole numbers; '
    fitting = {"caption": ["x", "y"], "label": [1, 2], "private": [True, False], "weight": [0.5, 1.0]}
    for name, category in (("scene", "scene"), ("category", None)):
        parquet_file(file, pa.table({"image": PICTURES[:2], name: values, **fitting}))
        with pytest.raises(SourceError) as caught:
            open_source(str(file), None, category)
        advice = "name another with --category: caption, label, private"
        assert str(caught.value) == message.replace("NAME", name) + advice
    source = open_source(str(file), None, "label", image_names=["image"])
    assert [s.category for s in samples_of(source)] == ["1", "2"]
    parquet_file(file, pa.table({"image": PICTURES[:2], "category": values}))
    with pytest.raises(SourceError, match=r"whole numbers; no column is suitable$"):
        open_source(str(file), None, None)


def test_a_later_file_with_a_picture_for_a_category_is_refused_too(tmp_path: Path) -> None:
    parquet_file(tmp_path / "a.parquet", pa.table({"image": PICTURES[:1], "category": ["x"]}))
    parquet_file(tmp_path / "b.parquet", pa.table({"image": PICTURES[:1], "category": PICTURES[1:2]}))
    source = open_source(str(tmp_path), None, None)
    assert len(list(source.slices("a.parquet"))) == 1
    with pytest.raises(SourceError, match=r'^b.parquet: the category column "category" holds binary'):
        list(source.slices("b.parquet"))


def test_bytes_and_nested_columns_give_no_keys(file: Path) -> None:
    table = {"image": PICTURES[:1], "key": [b"bytes"], "id": [{"a": "words"}], "uid": [["words"]], "path": ["0.jpg"]}
    assert [s.key for s in read(file, pa.table(table))] == ["0.jpg"]
    del table["path"]
    assert [s.key for s in read(file, pa.table(table))] == ["000000000"]


IMAGE = PICTURES[:2]
AS_STRUCT = [{"bytes": picture, "path": None} for picture in IMAGE]
OTHER = [b"no picture", b"nor this"]
FEATURES = {b"huggingface": json.dumps({"info": {"features": {"later": {"_type": "Image"}}}}).encode()}


@pytest.mark.parametrize(
    ("columns", "scanned"),
    [
        ({"photo": OTHER}, ["photo"]),
        ({"input_image": IMAGE, "prompt": ["a", "b"], "edited_image": AS_STRUCT}, ["input_image", "edited_image"]),
        ({"image": OTHER, "embedding": OTHER}, ["image"]),
        ({"embedding": OTHER, "thumb": [None, PICTURES[1]], "png": IMAGE, "data": OTHER}, ["thumb", "png"]),
        ({"image": IMAGE, "later": pa.nulls(2, pa.binary())}, ["image", "later"]),
    ],
)
def test_each_column_of_images_has_a_sample_in_each_row(
    file: Path, columns: dict[str, list[Any]], scanned: list[str]
) -> None:
    table = pa.table({"key": ["a", "b"], **columns})
    parquet_file(file, table.replace_schema_metadata(FEATURES), rows=1)
    samples = samples_of(source := open_source(str(file), None, None))
    cells = [(key, name, columns[name][row]) for row, key in enumerate("ab") for name in scanned]
    assert [s.index for s in samples] == list(range(len(cells)))
    assert [s.key for s in samples] == [key if len(scanned) == 1 else f"{key}#{name}" for key, name, _ in cells]
    values = [cell["bytes"] if isinstance(cell, dict) else cell for _, _, cell in cells]
    assert [s.encoded for s in samples] == [value if isinstance(value, bytes) else b"" for value in values]
    assert [key for key, _ in parquet.names(source.root, "a.parquet", None)] == [s.key for s in samples]
    # One alone, as a child process reads a slice again after a crash.
    last = [replace(slice_, locators=slice_.locators[-1:]) for slice_ in slices_of(source)]
    alone = [sample for slice_ in last for sample in source.read(slice_)]
    assert [s.encoded for s in alone] == [s.encoded for s in samples if s.index % len(scanned) == len(scanned) - 1]


def test_the_user_names_the_columns_of_images(file: Path) -> None:
    parquet_file(file, pa.table({"image": IMAGE, "left": IMAGE, "right": OTHER, "tags": [["a"], ["b"]]}))
    samples = samples_of(open_source(str(file), None, None, image_names=["right", "left"]))
    assert [s.key for s in samples] == ["000000000#left", "000000001#right", "000000002#left", "000000003#right"]
    assert [s.encoded for s in samples[:2]] == [IMAGE[0], OTHER[0]]
    missing = (
        r'no column "lft" with image bytes for --image-column \(did you mean "left"\?\); there are: image, left, right$'
    )
    with pytest.raises(SourceError, match=missing):
        open_source(str(file), None, None, image_names=["image", "lft"])


def test_columns_that_hold_no_image_are_named(file: Path) -> None:
    parquet_file(file, pa.table({"hash": OTHER, "embedding": OTHER}))
    message = "a.parquet has 2 columns with bytes, and none begins like a picture: hash, embedding; say with "
    with pytest.raises(SourceError, match=f"^{message}--image-column which are to be scanned$"):
        open_source(str(file), None, None)
    parquet_file(file, pa.table({"images": [[AS_STRUCT[0]], AS_STRUCT]}))
    message = r"a.parquet has lists of images \(images\), which are not read; write a file with an image a row"
    with pytest.raises(SourceError, match=f"^{message}$"):
        open_source(str(file), None, None)


def test_a_missing_column_is_reported_at_once(file: Path) -> None:
    parquet_file(file, pa.table({"url": ["https://example.org"], "width": [1]}))
    advice = "it lists URLs: download them first with privsieve fetch"
    with pytest.raises(SourceError, match=rf"^a.parquet has no column with image bytes .*: url, width; {advice}$"):
        open_source(str(file), None, None)
    parquet_file(file, pa.table({"image": PICTURES[:1]}))
    with pytest.raises(SourceError, match=r'^a.parquet has no column "scene" for --category$'):
        open_source(str(file), None, "scene")
    with pytest.raises(SourceError, match=r'"imge" for --category \(did you mean "image"\?\)$'):
        open_source(str(file), None, "imge")


def whole() -> bytes:
    out = io.BytesIO()
    table = pa.table({"image": PICTURES, "key": [f"k{n}" for n in range(20)]})
    pq.write_table(table, out, row_group_size=5, compression="none", use_dictionary=False)
    return out.getvalue()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"<html>404</html>" * 50, whole()[:5000], whole()[:-1]])
def test_a_file_without_a_footer_is_one_row(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    (sample,) = samples_of(open_source(str(file), None, None))
    assert (sample.shard, sample.index, sample.key, sample.encoded) == ("a.parquet", 0, "@0", b"")
    assert sample.fault == Fault("corrupt_shard", "the file is cut or damaged: its footer cannot be read")


def test_damage_costs_the_rest_of_its_row_group(file: Path) -> None:
    content = bytearray(whole())
    second = content.index(PICTURES[7])
    content[second - 4 : second] = b"\xff\xff\xff\x7f"  # the length of the value
    file.write_bytes(content)
    samples = samples_of(open_source(str(file), None, None))
    assert reasons(samples) == [None] * 7 + ["unreadable"] * 3 + [None] * 10
    assert [s.index for s in samples] == list(range(20))
    assert samples[7].fault == Fault("unreadable", "row group 1 cannot be decoded")
    assert [s.encoded for s in samples if not s.fault] == PICTURES[:7] + PICTURES[10:]


def test_the_other_shards_are_read_beside_a_damaged_one(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(whole()[:-9])
    (tmp_path / "b.parquet").write_bytes(whole())
    assert reasons(samples_of(open_source(str(tmp_path), None, None))) == ["corrupt_shard"] + [None] * 20
    parquet_file(tmp_path / "b.parquet", pa.table({"url": ["words"]}))
    with pytest.raises(SourceError, match=r"^b.parquet has no column with image bytes"):
        open_source(str(tmp_path), None, None)


@pytest.mark.parametrize("name", ["0_metadata.parquet", "z_metadata.parquet"])
def test_a_file_without_an_image_column_beside_others_is_one_row(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.parquet").write_bytes(whole())
    parquet_file(tmp_path / name, pa.table({"url": ["one", "two"], "key": ["1", "2"]}))
    samples = samples_of(open_source(str(tmp_path), None, "key"))
    (lost,) = (sample for sample in samples if sample.fault)
    assert (lost.shard, lost.index, lost.key, lost.encoded) == (name, 0, "@0", b"")
    assert lost.fault == Fault("no_image_column", "the file has no column with image bytes")
    assert [sample.encoded for sample in samples if not sample.fault] == PICTURES


def test_a_file_that_changed_since_it_was_listed(file: Path) -> None:
    file.write_bytes(whole())
    source = open_source(str(file), None, None)
    (slice_, *_) = slices_of(source)
    file.write_bytes(whole()[:-9])
    assert reasons(list(source.read(slice_))) == ["unreadable"] * len(slice_.locators)
    file.unlink()
    for attempt in (lambda: list(source.read(slice_)), lambda: list(source.slices("a.parquet"))):
        with pytest.raises(StorageError, match=r"^cannot read a.parquet: no such file or directory$"):
            attempt()


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_reported_and_never_silent(file: Path, seed: int) -> None:
    content, chance = bytearray(whole()), random.Random(seed)
    first = 0 if seed % 2 else len(content) - 1500
    for _ in range(20):
        content[chance.randrange(first, len(content))] = chance.randrange(256)
    file.write_bytes(content)
    samples = samples_of(open_source(str(file), None, None))
    assert len(samples) == 20 or reasons(samples) == ["corrupt_shard"]
    assert [s.index for s in samples] == list(range(len(samples)))
    assert all(s.fault is None or s.fault.reason in ("corrupt_shard", "unreadable", "no_image") for s in samples)
