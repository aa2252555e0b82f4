"""Tars made to confuse or to exhaust: every member is a row or within a row of damage, in bounded memory."""

import gzip
import io
import random
import tarfile
import tracemalloc
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import sample as sample_module
from ingest.formats import open_source, tar, tar_samples, webdataset
from ingest.formats.tar import Member, TarDamage, walk
from ingest.formats.tar_samples import Decompressed
from ingest.sample import Sample
from tests.ingest.made import jpeg, samples_of, slices_of, tar_bytes
from tests.ingest.raw_tar import header, member, pax, sparse
from tests.making import Patch

PLAIN = pytest.param(False, id="plain")
PACKED = pytest.param(True, id="gzip")


def read(folder: Path, content: bytes, packed: bool = False, end: bytes = tar.END) -> list[Sample]:
    path = folder / ("a.tar.gz" if packed else "a.tar")
    content += end
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    source = open_source(str(path), None, None)
    assert slices_of(source) == slices_of(source), "the same input gives the same slices"
    return samples_of(source)


def reasons(samples: list[Sample]) -> list[tuple[str, str | None]]:
    return [(s.key, s.fault.reason if s.fault else None) for s in samples]


ONE, TWO = member("1.jpg", jpeg(1)), member("2.jpg", jpeg(2))


@pytest.mark.parametrize("packed", [PLAIN, PACKED])
def test_keys_that_come_back_and_that_alternate(tmp_path: Path, packed: bool) -> None:
    names = ["a.jpg", "b.jpg", "a.txt", "b.txt", "a.jpg", "c.jpg", "c.jpg"]
    members = [(name, jpeg(n) if name.endswith("jpg") else b"words") for n, name in enumerate(names)]
    samples = read(tmp_path, tar_bytes(members), packed)
    whole = [("a", None), ("b", None), ("a", "no_image"), ("b", "no_image"), ("a", None)]
    assert reasons(samples) == [*whole, ("c", "several_images")]
    assert [s.index for s in samples] == list(range(6))
    assert [s.encoded for s in samples if not s.fault] == [jpeg(0), jpeg(1), jpeg(4)]


@pytest.mark.parametrize("packed", [PLAIN, PACKED])
def test_names_that_lead_out_are_only_names(tmp_path: Path, packed: bool) -> None:
    names = ["../../up", "/etc/passwd", "a/../b", "./c", "C:\\d", ".hidden"]
    content = b"".join(member(f"{name}.jpg", jpeg(n)) for n, name in enumerate(names))
    samples = read(tmp_path, content, packed)
    assert [(s.key, s.fault) for s in samples] == [(name, None) for name in names[:5]]
    assert sorted(p.name for p in tmp_path.parent.iterdir() if p.name == "up.jpg") == []


@pytest.mark.parametrize("packed", [PLAIN, PACKED])
@pytest.mark.parametrize(
    "odd",
    [
        *(header("x.jpg", kind, link="/dev/zero") for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE)),
        *(header("x.jpg", kind, link="/dev/zero") for kind in (tarfile.BLKTYPE, tarfile.FIFOTYPE)),
        member("x.jpg", jpeg(3), b"Z"),
        member("x.txt", b"words") + header("x.v1.jpg", tarfile.SYMTYPE, link="x.txt"),
    ],
)
def test_links_devices_and_unknown_kinds_are_never_followed(tmp_path: Path, odd: bytes, packed: bool) -> None:
    samples = read(tmp_path, ONE + odd + TWO, packed)
    assert reasons(samples) == [("1", None), ("x", "not_a_file"), ("2", None)]
    assert samples[1].encoded == b""


@pytest.mark.parametrize("packed", [PLAIN, PACKED])
@pytest.mark.parametrize("size", [5_000, 10**9 - 1])
def test_a_sparse_member_is_reported_and_hides_nothing_after_it(tmp_path: Path, size: int, packed: bool) -> None:
    samples = read(tmp_path, ONE + sparse("x.jpg", jpeg(3), size) + TWO, packed)
    assert reasons(samples) == [("1", None), ("x", "not_a_file"), ("2", None)]
    assert samples[2].encoded == jpeg(2)


def test_a_sparse_member_that_is_cut(tmp_path: Path) -> None:
    content = ONE + sparse("x.jpg", jpeg(3) * 4, 10**6)
    assert reasons(read(tmp_path, content[:-1024], end=b"")) == [("1", None), ("x", "truncated_shard")]


@pytest.mark.parametrize("packed", [PLAIN, PACKED])
@pytest.mark.parametrize("size", ["99999999999999999999", "1e999", "-5", "x", ""])
def test_hostile_sizes_in_pax_records(tmp_path: Path, size: str, packed: bool) -> None:
    samples = read(tmp_path, ONE + pax(size=size) + TWO + member("3.jpg", jpeg(3)), packed)
    assert reasons(samples)[0] == ("1", None)
    assert [r for _, r in reasons(samples)[1:]] != [None, None] or size in ("x", "", "1e999")
    assert all(s.encoded in (jpeg(1), jpeg(2), jpeg(3), b"") for s in samples)
    assert len(samples) >= 2


@pytest.mark.parametrize("packed", [PLAIN, PACKED])
def test_a_size_beyond_the_end_takes_the_rest_as_one_row(tmp_path: Path, packed: bool) -> None:
    samples = read(tmp_path, ONE + header("x.jpg", size=2**40) + TWO, packed, end=b"")
    assert reasons(samples) == [("1", None), ("x", "truncated_shard")]
    assert samples[1].fault is not None
    assert samples[1].fault.message.endswith(f"(bytes {len(ONE)} to {len(ONE + TWO) + 512})")


def test_a_member_of_terabytes_is_neither_read_nor_walked(tmp_path: Path) -> None:
    size = 2**40
    with open(tmp_path / "a.tar", "wb") as file:
        file.write(ONE + header("huge.jpg", size=size))
        file.seek(size, io.SEEK_CUR)
        file.write(TWO + tar.END)
    source = open_source(str(tmp_path / "a.tar"), None, None)
    assert reasons(samples_of(source)) == [("1", None), ("huge", "too_many_bytes"), ("2", None)]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_of_gigabytes_is_not_read_into_memory(tmp_path: Path, kind: bytes) -> None:
    size = 2**26
    with open(tmp_path / "a.tar", "wb") as file:
        file.write(ONE + header("x", kind, size))
        file.seek(size, io.SEEK_CUR)
        file.write(TWO + tar.END)
    tracemalloc.start()
    samples = samples_of(open_source(str(tmp_path / "a.tar"), None, None))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reasons(samples) == [("1", None), (f"@{len(ONE)}", "corrupt_shard"), ("2", None)]
    assert peak_bytes < 8 * 2**20


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_that_follow_one_another_without_end(tmp_path: Path, kind: bytes) -> None:
    chain = (pax(path="a.jpg") if kind == tarfile.XHDTYPE else member("x", b"a.jpg", kind)) * 3000
    samples = read(tmp_path, ONE + chain + TWO)
    assert reasons(samples)[:2] == [("1", None), (f"@{len(ONE)}", "corrupt_shard")]
    assert samples[-1].key == "a"
    assert samples[-1].encoded == jpeg(2)


@pytest.mark.parametrize("records", [{"path": "x.jpg"}, {"size": "3"}, {"GNU.sparse.name": "x.jpg"}])
@pytest.mark.parametrize("packed", [PLAIN, PACKED])
def test_a_pax_global_header_renames_and_resizes_no_member(
    tmp_path: Path, records: dict[str, str], packed: bool
) -> None:
    samples = read(tmp_path, pax(tarfile.XGLTYPE, **records) + ONE + pax(path="long.jpg") + TWO, packed)
    assert reasons(samples) == [("1", None), ("long", None)]
    assert [s.encoded for s in samples] == [jpeg(1), jpeg(2)]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [PLAIN, PACKED])
def test_a_name_of_many_kilobytes_is_a_row_with_a_short_key(tmp_path: Path, packed: bool) -> None:
    long = "n" * 900_000
    content = b"".join(pax(path=f"{long}{n}.jpg") + member("x", jpeg(n)) for n in range(20))
    content += pax(path="n" * tar.MAX_NAME_BYTES) + TWO + ONE
    samples = read(tmp_path, content, packed)
    assert {(s.fault and s.fault.reason) for s in samples[:20]} == {"name_too_long"}
    assert len({s.key for s in samples}) == len(samples) == 22
    assert {len(s.key) for s in samples[:20]} == {113}
    assert [(s.key, s.encoded) for s in samples[20:]] == [("n" * 4096, jpeg(2)), ("1", jpeg(1))]
    all_slices = slices_of(open_source(str(next(tmp_path.iterdir())), None, None))
    assert sum(len(slice_.to_json()) for slice_ in all_slices) < 20_000


def test_a_member_of_a_long_name_that_is_cut(tmp_path: Path) -> None:
    samples = read(tmp_path, ONE + pax(path="n" * 9000) + header("x", size=10**6), end=b"")
    assert [(len(s.key), s.fault and s.fault.reason) for s in samples] == [(1, None), (113, "truncated_shard")]


def test_long_keys_count_as_bytes_of_their_slice(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(sample_module, "MAX_BYTES", 20_000)
    members = [(f"{n}{'k' * 4000}.jpg", b"x") for n in range(12)]
    (tmp_path / "a.tar").write_bytes(tar_bytes(members, tarfile.GNU_FORMAT))
    all_slices = slices_of(open_source(str(tmp_path / "a.tar"), None, None))
    assert [len(slice_.locators) for slice_ in all_slices] == [5, 5, 2]


def test_a_key_that_thousands_of_members_share_is_one_row(tmp_path: Path) -> None:
    members = [(f"0.{n}", b"") for n in range(tar_samples.MAX_MEMBERS + 500)]
    samples = read(tmp_path, tar_bytes([*members, ("1.jpg", jpeg(1))]), end=b"")
    assert reasons(samples) == [("0", "too_many_members"), ("1", None)]


class _Counted(io.BytesIO):
    """Counts the bytes that are read."""

    num_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.num_read += len(content)
        return content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "is_damaged"),
    [
        pytest.param(header("x", tarfile.XHDTYPE, 2**21) + b"\0" * 20_000, True, id="headers that claim too much"),
        pytest.param(header("x", tarfile.XHDTYPE, 2**21), True, id="the same without a gap"),
        pytest.param(header("x.jpg") + b"\0" * 2**20, False, id="tars with zeros between them"),
        pytest.param(member("x", b"n", tarfile.GNUTYPE_LONGNAME) * 40 + b"\0" * 9000, True, id="long chains"),
        pytest.param(ONE + b"\xa5" * 512, True, id="damage between members"),
    ],
)
def test_a_compressed_tar_is_decompressed_twice_and_not_more(unit: bytes, is_damaged: bool) -> None:
    content = unit * (8 * 2**20 // len(unit))
    raw = _Counted(gzip.compress(content, mtime=0))
    stream = Decompressed(raw, "gzip")
    found = list(walk(cast(BinaryIO, stream), stream.seek(0, 2)))
    assert any(isinstance(item, TarDamage) for item in found) == is_damaged
    assert raw.num_read <= 2 * len(raw.getvalue())


WHOLE = tar_bytes([(f"{n}.jpg", jpeg(n)) for n in range(6)], tarfile.PAX_FORMAT)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), num_changed=st.integers(0, 40), cut_at=st.integers(0, len(WHOLE)))
def test_every_byte_is_in_a_member_or_in_damage(seed: int, num_changed: int, cut_at: int) -> None:
    content, chance = bytearray(WHOLE), random.Random(seed)
    for _ in range(num_changed):
        content[chance.randrange(len(content))] = chance.randrange(256)
    del content[cut_at:]
    found = list(walk(io.BytesIO(bytes(content)), len(content)))
    assert found == list(walk(io.BytesIO(bytes(content)), len(content)))
    position = 0
    for item in found:
        assert isinstance(item, Member | TarDamage)
        assert item.start >= position
        assert not bytes(content[position : item.start]).strip(b"\0")  # zeros may stand between joined tars
        position = item.end
    assert not bytes(content[position:]).strip(b"\0")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["jpg", "png", "txt", "json", "cls"])), max_size=12))
def test_every_member_belongs_to_exactly_one_sample(names: list[tuple[str, str]]) -> None:
    content = tar_bytes([(f"{key}.{extension}", b"x" * n) for n, (key, extension) in enumerate(names)])
    stream = io.BytesIO(content)
    found = [webdataset._located(n, group)[0] for n, group in enumerate(tar_samples.groups(stream))]
    spans = [tuple(span) for locator in found for span in locator["span"]]
    assert spans == [(m.start, m.end) for m in walk(stream, len(content)) if isinstance(m, Member)]
    assert [locator["index"] for locator in found] == list(range(len(found)))
    assert all(("image" in locator) != ("fault" in locator) for locator in found)
    assert tar.BLOCK == 512
