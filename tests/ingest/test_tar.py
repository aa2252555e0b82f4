"""WebDataset shards: hostile and damaged tars, and categories."""

import gzip
import io
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.formats import open_source, tar
from ingest.formats.tar import BLOCK, Member, header, walk
from ingest.sample import Sample
from tests.ingest import raw_tar
from tests.ingest.made import jpeg, samples_of, slices_of, tar_bytes


def read(path: Path, content: bytes, category: str | None = None) -> list[Sample]:
    path.write_bytes(content)
    return samples_of(open_source(str(path), None, category))


def reasons(samples: list[Sample]) -> list[tuple[str, str | None]]:
    return [(s.key, s.fault.reason if s.fault else None) for s in samples]


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    return tmp_path / "00000.tar"


THREE = [(f"{n}.jpg", jpeg(n)) for n in range(3)]


def test_a_shard_cut_inside_a_member_says_so(shard: Path) -> None:
    content = tar_bytes(THREE)
    third = content.index(THREE[2][1])
    samples = read(shard, content[: third + 100])
    assert reasons(samples) == [("0", None), ("1", None), ("2", "truncated_shard")]
    assert samples[2].encoded == b""


def test_a_shard_cut_inside_a_header_says_so(shard: Path) -> None:
    content = tar_bytes(THREE)
    header = content.index(THREE[2][1]) - 512
    assert reasons(read(shard, content[: header + 100])) == [("0", None), ("1", None), (f"@{header}", "corrupt_shard")]


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_garbage_header_costs_one_row_and_no_later_sample(shard: Path, broken: int) -> None:
    content = bytearray(tar_bytes(THREE))
    header = content.index(THREE[broken][1]) - 512
    content[header : header + 512] = b"\xa5" * 512
    samples = read(shard, bytes(content))
    assert reasons(samples) == [(f"@{header}", "corrupt_shard") if n == broken else (str(n), None) for n in range(3)]
    assert [s.encoded for s in samples if not s.fault] == [p for n, (_, p) in enumerate(THREE) if n != broken]


def test_a_negative_size_in_a_header_neither_loops_nor_hides_what_follows(shard: Path) -> None:
    content = bytearray(tar_bytes(THREE))
    header = content.index(THREE[1][1]) - 512
    content[header + 124 : header + 136] = b"\xff" * 10 + b"\xfa\x00"
    block = content[header : header + 512]
    block[148:156] = b" " * 8
    content[header + 148 : header + 156] = b"%06o\0 " % sum(block)
    found = reasons(read(shard, bytes(content)))
    assert found[0] == ("0", None)
    assert found[1][1] == "corrupt_shard"
    assert found[-1] == ("2", None)


def test_one_block_of_zeros_ends_a_tar(shard: Path) -> None:
    content = tar_bytes(THREE).rstrip(b"\0")
    padded = content + b"\0" * (-len(content) % 512)
    assert reasons(read(shard, padded + b"\0" * 512)) == [("0", None), ("1", None), ("2", None)]


def test_a_tar_without_an_end_marker_is_cut_wherever_the_cut_falls(shard: Path) -> None:
    content = tar_bytes(THREE).rstrip(b"\0")
    padded = content + b"\0" * (-len(content) % 512)
    for cut in (padded, content):
        samples = read(shard, cut)
        assert reasons(samples)[:3] == [("0", None), ("1", None), ("2", None)]
        assert [s.encoded for s in samples[:3]] == [p for _, p in THREE]
        assert [s.fault and s.fault.reason for s in samples[3:]] == ["truncated_shard"]
    last_member = 512 + -(-len(THREE[2][1]) // 512) * 512
    between_two = padded[:-last_member]
    found = [(s.key, s.fault and s.fault.reason) for s in read(shard, between_two)]
    assert found == [("0", None), ("1", None), (f"@{len(between_two)}", "truncated_shard")]


def test_garbage_after_the_end_is_noticed(shard: Path) -> None:
    content = tar_bytes(THREE)
    found = reasons(read(shard, content + b"junk" * 300))
    assert [r for _, r in found] == [None, None, None, "corrupt_shard"]


@pytest.mark.parametrize("num_zeros", [0, 512, 10240, 2**20])
@pytest.mark.parametrize("codec", [None, "gzip", "zstd"])
def test_joined_tars_and_zeros_between_and_after_them_are_no_damage(
    shard: Path, num_zeros: int, codec: str | None
) -> None:
    parts = [tar_bytes(THREE), bytes(num_zeros), tar_bytes([("z.jpg", jpeg(9))]), bytes(num_zeros)]
    content = b"".join(parts)
    if codec == "zstd":
        content = pa.Codec(codec).compress(content, asbytes=True)
    if codec == "gzip":  # each part compressed on its own, and zeros after it as on a tape
        content = b"".join(gzip.compress(part) for part in parts) + bytes(num_zeros)
    assert reasons(read(shard, content)) == [("0", None), ("1", None), ("2", None), ("z", None)]
    junk = reasons(read(shard, b"".join(parts[:2]) + b"junk" * 256 + parts[2]))
    assert [(key, reason) for key, reason in junk if reason] == [(f"@{len(parts[0]) + num_zeros}", "corrupt_shard")]
    assert junk[-1] == ("z", None)


def test_hidden_members_are_counted_and_do_not_part_a_picture_from_its_caption(shard: Path) -> None:
    """As tar writes on macOS."""
    names = [("./._a.jpg", b"\0\5\x16\7"), ("./a.jpg", jpeg(1)), ("./._a.txt", b"\0\5\x16\7"), ("./a.txt", b"a cat")]
    hidden = [("__MACOSX/._b.jpg", b"x"), (".cache/c.jpg", jpeg(2))]
    shard.write_bytes(tar_bytes([*names, *hidden]))
    source = open_source(str(shard), None, None)
    assert [(s.key, s.caption, s.fault) for s in samples_of(source)] == [("./a", "a cat", None)]
    assert [slice_.num_hidden for slice_ in slices_of(source)] == [4]


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names(shard: Path, kind: int) -> None:
    long = "folder/" + "n" * 300
    samples = read(shard, tar_bytes([(f"{long}.jpg", jpeg(1)), ("ä.jpg", jpeg(2)), ("z.jpg", jpeg(3))], kind))
    assert reasons(samples) == [(long, None), ("ä", None), ("z", None)]
    assert [s.encoded for s in samples] == [jpeg(1), jpeg(2), jpeg(3)]


def test_names_that_are_not_text(shard: Path) -> None:
    samples = read(shard, tar_bytes([("caf\udce9.jpg", jpeg(1)), ("a\nb.jpg", jpeg(2))], tarfile.GNU_FORMAT))
    assert reasons(samples) == [("caf\\xe9", None), ("a\\nb", None)]


def test_directories_are_no_samples(shard: Path) -> None:
    folders = [tarfile.TarInfo("a"), tarfile.TarInfo("album.jpg")]
    for folder in folders:
        folder.type = tarfile.DIRTYPE
    samples = read(shard, tar_bytes([folders[0], ("a/1.jpg", jpeg(1)), folders[1], ("album.jpg/2.jpg", jpeg(2))]))
    assert reasons(samples) == [("a/1", None), ("album.jpg/2", None)]


def test_several_images_and_no_image(shard: Path) -> None:
    members = [("0.jpg", jpeg(0)), ("0.mask.png", b"x"), ("1.txt", b"a caption"), ("2.JPG", jpeg(2))]
    samples = read(shard, tar_bytes(members))
    assert reasons(samples) == [("0", "several_images"), ("1", "no_image"), ("2", None)]


def test_a_pickle_is_never_read(shard: Path, tmp_path: Path) -> None:
    bomb = b"cos\nsystem\n(S'touch %s'\ntR." % str(tmp_path / "exploded").encode()
    samples = read(shard, tar_bytes([("0.jpg", jpeg(0)), ("0.pkl", bomb), ("1.pyd", bomb)]))
    assert reasons(samples) == [("0", None), ("1", "no_image")]
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("members", "field", "category"),
    [
        ({"cls": b"7\n"}, None, "7"),
        ({"cls": b"caf\xe9"}, None, "caf\\xe9"),
        ({"cls": b" "}, None, None),
        ({"json": b'{"category": "park"}'}, None, "park"),
        ({"json": b'{"scene": 12, "category": "park"}'}, "scene", "12"),
        ({"json": b'{"category": "park"}'}, "scene", None),
        ({"json": b'{"category": "park"}', "cls": b"7"}, None, "7"),
        ({"json": b'{"category": "park"}', "cls": b"7"}, "category", "park"),
        ({"json": b'{"category": "park"}', "cls": b"7"}, "cls", "7"),
        ({"json": b'{"category": ["park"]}'}, None, None),
        ({"json": b'{"category": "a\\nb"}'}, None, "a\\nb"),
        ({"json": b'{"category": "\\ud800x"}'}, None, "\\ud800x"),
        ({"json": b'["park"]'}, None, None),
        ({"json": b"{broken"}, None, None),
        ({"json": b"\xff\xfe\xfa"}, None, None),
        ({"json": b"[" * 200_000}, None, None),
        ({}, None, None),
    ],
)
def test_categories(shard: Path, members: dict[str, bytes], field: str | None, category: str | None) -> None:
    content = tar_bytes([("0.jpg", jpeg(0)), *((f"0.{ext}", data) for ext, data in members.items())])
    (sample,) = read(shard, content, field)
    assert (sample.category, sample.encoded, sample.fault) == (category, jpeg(0), None)


@pytest.mark.parametrize("name", ["a.jpg", "a/" + "b" * 98, "b" * 101, "ü" * 50, "ü" * 51, "\udcff.jpg", "n" * 300])
def test_a_header_is_that_of_pythons_tarfile(name: str) -> None:
    for size in (0, 100_000, 8**11 - 1, 8**11):
        for mtime in (0, 1_700_000_000, 8**11 - 1):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = size, mtime
            made = header(Member(name, 0, BLOCK, size, BLOCK, is_file=True, mtime=mtime))
            assert made == info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def test_members_with_plain_headers_are_those_that_python_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed in each byte, a header is read as Python does, or taken for damage as before."""
    plain = bytearray(raw_tar.member("a.jpg", b"12345"))
    plain[100:108], plain[136:148], plain[329:345] = b"004755 \0", b"13274567123 ", b"000000 \0" * 2
    tars = []
    for place in range(BLOCK):
        for value in (plain[place], plain[place] ^ 1, plain[place] ^ 128, 0, ord(" "), ord("7")):
            changed = plain.copy()
            changed[place] = value
            if not 148 <= place < 156:
                changed[148:156] = b"%06o\0 " % (sum(changed[:148]) + 8 * ord(" ") + sum(changed[156:BLOCK]))
            tars.append(raw_tar.member("0.jpg", b"x") + bytes(changed) + raw_tar.member("é/1.jpg", b"y") + raw_tar.END)
    tars += [tars[0][:end] for end in range(len(tars[0]) - len(raw_tar.END) + 1)]
    found = [list(walk(io.BytesIO(content), len(content))) for content in tars]
    assert found[0][1] == Member("a.jpg", 1024, 1536, 5, 2048, True, has_set_id=True, mtime=0o13274567123)
    monkeypatch.setattr(tar, "_plain_member", lambda *_: None)
    assert found == [list(walk(io.BytesIO(content), len(content))) for content in tars]
