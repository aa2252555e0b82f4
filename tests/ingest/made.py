"""Small real corpora for these tests: JPEGs by Pillow, tars by tarfile, tables by pyarrow."""

import io
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from ingest.formats import Source
from ingest.sample import Sample, Slice

SIDE_PX = 64


def jpeg(shade: int) -> bytes:
    """A tiny JPEG, another one for each shade."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (shade % 256, 40, 200)).save(out, "JPEG")
    return out.getvalue()


def tar_bytes(members: Iterable[tuple[str, bytes] | tarfile.TarInfo], kind: int = tarfile.USTAR_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def raw_members(path: Path) -> dict[str, bytes]:
    """Member name -> its header (long names included) and padded content, as they lie in the tar."""
    content = path.read_bytes()
    with tarfile.open(path) as archive:
        infos = archive.getmembers()
    return {i.name: content[i.offset : i.offset_data + -(-i.size // 512) * 512] for i in infos}


def parquet_file(path: Path, table: pa.Table, rows: int = 4) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=rows, compression="zstd")


def corpus(folder: Path, format_name: str, pictures: Sequence[Sequence[bytes]]) -> Path:
    """Shards of these pictures; tables in row groups of six rows."""
    for shard, of_shard in enumerate(pictures):
        target, named = folder / f"{shard:05d}", [(f"{n:03d}", picture) for n, picture in enumerate(of_shard)]
        if format_name == "tree":
            target.mkdir(parents=True)
            for key, picture in named:
                (target / f"{key}.jpg").write_bytes(picture)
        elif format_name == "webdataset":
            folder.mkdir(exist_ok=True)
            members = [m for key, p in named for m in ((f"{key}.jpg", p), (f"{key}.cls", b"street"))]
            target.with_suffix(".tar").write_bytes(tar_bytes(members))
        else:
            table = pa.table({"key": [key for key, _ in named], "jpg": [p for _, p in named]})
            parquet_file(target.with_suffix(".parquet"), table, rows=6)
    return folder


def slices_of(source: Source) -> list[Slice]:
    return [slice_ for shard in source.shards for slice_ in source.slices(shard)]


def samples_of(source: Source) -> list[Sample]:
    """All samples, with the slices sent through JSON as a worker would get them."""
    return [s for slice_ in slices_of(source) for s in source.read(Slice.from_json(slice_.to_json()))]


def animated(format_name: str, mode: str) -> bytearray:
    frames = [Image.new("L", (SIDE_PX, SIDE_PX), 100 * number).convert(mode) for number in range(3)]
    file = io.BytesIO()
    frames[0].save(file, format_name, save_all=True, append_images=frames[1:], disposal=2)
    return bytearray(file.getvalue())


def webp(width: int, height: int) -> bytes:
    """An animation of small frames on a canvas of this size (WebP container specification, chunk VP8X)."""
    content = animated("WEBP", "RGBA")
    canvas = content.index(b"VP8X") + 12
    content[canvas : canvas + 6] = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return bytes(content)
