"""Compressed tars: recognised by their content, read like plain ones; what cannot be decompressed is a row."""

import gzip
import io
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import sample as sample_module
from ingest.formats import open_source, tar_samples
from ingest.formats.tar_samples import Decompressed
from ingest.sample import Sample
from tests.ingest.made import jpeg, samples_of, slices_of, tar_bytes
from tests.making import Patch

NOISE = random.Random(0)
PICTURES = [jpeg(n) + NOISE.randbytes(3000) for n in range(40)]
MEMBERS = [m for n, p in enumerate(PICTURES) for m in ((f"{n:02d}.cls", b"%d" % (n % 3)), (f"{n:02d}.jpg", p))]
PLAIN = tar_bytes(MEMBERS)


def packed(content: bytes, codec: str) -> bytes:
    if codec == "gzip":
        return gzip.compress(content, mtime=0)
    made: bytes = pa.compress(content, codec, asbytes=True)
    return made


def read(path: Path, content: bytes) -> list[Sample]:
    path.write_bytes(content)
    source = open_source(str(path), None, None)
    assert slices_of(source) == slices_of(source), "the same input gives the same slices"
    return samples_of(source)


def reasons(samples: list[Sample]) -> list[str]:
    return [s.fault.reason for s in samples if s.fault]


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.tar.gz", "gzip"),
        ("a.tgz", "gzip"),
        ("a.TAR.GZ", "gzip"),
        ("a.tar.zst", "zstd"),
        ("a.tar.zstd", "zstd"),
        ("a.tar.gz", "zstd"),
        ("a.tar", "gzip"),
        ("a.tar.zst", None),
    ],
)
def test_the_content_tells_how_it_is_compressed(
    tmp_path: Path, name: str, codec: str | None, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(sample_module, "MAX_SAMPLES", 7)
    samples = read(tmp_path / name, packed(PLAIN, codec) if codec else PLAIN)
    found = [(s.shard, s.index, s.key, s.category) for s in samples]
    assert found == [(name, n, f"{n:02d}", str(n % 3)) for n in range(40)]
    assert [s.encoded for s in samples] == PICTURES
    assert reasons(samples) == []


def test_folders_globs_and_braces_find_compressed_shards(tmp_path: Path) -> None:
    for n, (suffix, codec) in enumerate([("tar.gz", "gzip"), ("tgz", "gzip"), ("tar.zst", "zstd")]):
        (tmp_path / f"{n}.{suffix}").write_bytes(packed(PLAIN, codec))
    (tmp_path / "3.tar").write_bytes(PLAIN)
    (tmp_path / "LICENSE").write_text("words")
    source = open_source(str(tmp_path), None, None)
    assert (source.format, source.shards) == ("webdataset", ("0.tar.gz", "1.tgz", "2.tar.zst", "3.tar"))
    assert len(samples_of(source)) == 160
    assert open_source(f"{tmp_path}/*.t*", None, None).shards == source.shards
    assert open_source(f"{tmp_path}/{{0.tar.gz,2.tar.zst}}", None, None).shards == ("0.tar.gz", "2.tar.zst")


@pytest.mark.parametrize(("codec", "before"), [("gzip", b""), ("zstd", b"\x50\x2a\x4d\x18\4\0\0\0note")])
def test_several_packed_parts_are_one_tar(tmp_path: Path, codec: str, before: bytes) -> None:
    """Of Zstandard also behind a frame that decompressors skip."""
    content = before + packed(PLAIN[:50_000], codec) + packed(PLAIN[50_000:], codec)
    assert [s.encoded for s in read(tmp_path / "a.tar.gz", content)] == PICTURES


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated_shard"),
        (packed(b"", "gzip"), "truncated_shard"),
        (b"\x1f\x8b" + b"junk" * 100, "corrupt_shard"),
        (b"<html>404</html>" * 100, "corrupt_shard"),
    ],
)
def test_what_is_no_tar_is_one_row(tmp_path: Path, content: bytes, reason: str) -> None:
    samples = read(tmp_path / "a.tar.gz", content)
    assert [(s.key, s.index, s.fault and s.fault.reason) for s in samples] == [("@0", 0, reason)]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_cut_stream_gives_what_was_before_and_a_row_for_the_rest(tmp_path: Path, codec: str, part: float) -> None:
    whole = packed(PLAIN, codec)
    samples = read(tmp_path / "a.tar.gz", whole[: int(len(whole) * part)])
    good = [s for s in samples if s.fault is None]
    assert [s.encoded for s in good] == PICTURES[: len(good)]
    lost_at_most = 5 if codec == "gzip" else 30  # Zstandard gives nothing of a block of 128 KB that is not whole
    assert 40 * part - lost_at_most <= len(good) <= 40 * part
    assert set(reasons(samples)) <= {"no_image", "truncated_shard", "corrupt_shard"}
    assert samples[-1].fault is not None
    assert samples[-1].fault.reason == "corrupt_shard"
    assert "cannot be decompressed" in samples[-1].fault.message
    assert samples[-1].key.startswith("@")


def test_damage_in_the_middle_of_a_stream_is_a_row(tmp_path: Path) -> None:
    whole = bytearray(packed(PLAIN, "gzip"))
    whole[60_000:60_400] = b"\xff" * 400
    samples = read(tmp_path / "a.tar.gz", bytes(whole))
    assert samples[0].encoded == PICTURES[0]
    assert samples[-1].fault is not None
    assert samples[-1].fault.reason == "corrupt_shard"


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_bomb_is_stopped(tmp_path: Path, codec: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(tar_samples, "MIN_LIMIT_BYTES", 2**20)
    bomb = tar_bytes([("0.jpg", jpeg(0)), ("1.jpg", b"\0" * 2**24), ("2.jpg", jpeg(2))])
    samples = read(tmp_path / "a.tar.gz", packed(bomb, codec))
    assert [s.key for s in samples[:-1]] == ["0", "1"]
    assert [s.fault and s.fault.reason for s in samples] == [None, "truncated_shard", "corrupt_shard"]
    assert samples[-1].fault is not None
    assert samples[-1].fault.message.endswith("there is more of it than a sane compression gives")


CONTENT = NOISE.randbytes(20_000)
MOVES = st.lists(
    st.tuples(st.sampled_from([0, 1, 2]), st.integers(-21_000, 21_000), st.integers(-1, 9_000)), max_size=9
)


@settings(max_examples=60, deadline=None)
@given(codec=st.sampled_from(["gzip", "zstd"]), moves=MOVES)
def test_it_moves_like_a_plain_stream(codec: str, moves: list[tuple[int, int, int]]) -> None:
    stream, plain = Decompressed(io.BytesIO(packed(CONTENT, codec)), codec), io.BytesIO(CONTENT)
    for whence, offset, num_bytes in moves:
        start = max(0, (0, plain.tell(), len(CONTENT))[whence] + offset)
        plain.seek(start)
        assert stream.seek(offset, whence) == start
        assert stream.read(num_bytes) == plain.read(num_bytes)
        assert stream.tell() == plain.tell()
    assert stream.fault is None
