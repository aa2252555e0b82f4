"""Parquet files with image bytes: plain binary columns and Hugging Face's struct<bytes, path>.

A file is a shard, a row is a sample. Slices are row ranges of one row group, sized by what its metadata says.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import compress, groupby
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.domains import domain_of
from ingest.errors import SourceError, StorageError, did_you_mean
from ingest.fault import CORRUPT_SHARD, NO_IMAGE_COLUMN, TOO_MANY_ROWS, Fault
from ingest.formats.parquet_batches import batches
from ingest.formats.parquet_columns import MAX_NAME_CHARACTERS, Choice, choose, joined, plain_rows
from ingest.formats.parquet_pages import DamagedPageError, LargePageError
from ingest.formats.parquet_rows import MAX_IMAGE_PAGE_BYTES, MAX_TEXT_PAGE_BYTES, AmbiguousColumnError, Leaf, rows
from ingest.formats.released import DECISIONS, RELEASE, Kept, Written, changed
from ingest.formats.shard import files_below, opened
from ingest.sample import Sample, caption_of, printable, url_sha256_of
from ingest.slices import MAX_BYTES, MAX_SAMPLES, Locator, Slice
from ingest.storage.place import Place

SUFFIX = ".parquet"
IMAGE_NAMES = ("image", "jpg", "jpeg", "png", "webp", "img", "image_bytes", "bytes", "content", "data")
KEY_NAMES = ("key", "__key__", "id", "uid", "image_id", "file_name", "filename", "path")
DEFAULT_CATEGORY = "category"
CAPTION_NAMES = ("caption", "text", "TEXT", "alt")
URL_NAMES = ("url", "URL")
STATUS = "status"
CHECKED_ROWS = 64
"""Number of rows converted to Python objects at once."""

MAX_TEXT_BYTES = 2**16
"""Limit of a key or a category: a slice holds 1,024 of each."""

MAX_ROWS = 2**20
"""A file with more rows than this and more rows than bytes is not listed row by row."""

MAX_EXPANSION = 1024
"""Largest believed ratio of a row group's size, by the footer, to the file's size when slices are cut."""

DAMAGED = (OSError, pa.ArrowException, UnicodeDecodeError, DamagedPageError)
"""What a damaged file raises; failures of the storage are StorageErrors before pyarrow sees them."""

TOO_LARGE = "too_large"
NAMES_OF_URLS = ("url", "image_url", "img_url", "image_link")
"""Columns that hold the URLs of images, in lower case."""

MAX_CHECKED = 64
"""Number of files whose columns are read before a scan is refused for lack of an image column."""

Made = TypeVar("Made")
"""Type of a value made from a text."""

CHANGED = Fault("unreadable", "the file is not what it was when it was listed")


def shards(root: Place) -> list[str]:
    """Return every Parquet file below the folder, as paths relative to it, sorted; a release's decisions are not a
    shard."""
    paths = files_below(root)
    decisions = {DECISIONS} if RELEASE in paths else set()
    return [path for path in paths if path.lower().endswith(SUFFIX) and path not in decisions]


def check(root: Place, names: Sequence[str], category: str | None) -> None:
    """SourceError if no shard has an image column, or the first that has one lacks the category column."""
    without = list[tuple[pa.Schema, str]]()
    for shard in names:
        try:
            with opened(root, shard) as stream:
                file = _file(stream)
        except StorageError:
            continue  # the scan makes it a row with a reason
        if file is None:
            continue
        if image_column(file.schema_arrow) is not None:
            _label(file.schema_arrow, shard, category)
            return
        without.append((file.schema_arrow, shard))
        if len(without) == MAX_CHECKED:
            break
    if without:
        _columns(*without[0])


def _file(stream: BinaryIO) -> pq.ParquetFile | None:
    """Open the file; None if the footer cannot be read."""
    try:
        file = pq.ParquetFile(stream)
        return file if file.schema_arrow.names else None
    except DAMAGED:
        return None


def image_column(schema: pa.Schema) -> str | None:
    """Return the column with image bytes: one with a known name, else the only binary one, else None."""
    candidates = [f.name for f in schema if _is_bytes(f.type) or _is_hugging_face(f.type)]
    named = [name for name in IMAGE_NAMES if name in candidates]
    if named:
        return named[0]
    return candidates[0] if len(candidates) == 1 else None


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_bytes(kind: pa.DataType) -> bool:
    kind, types = _value_type(kind), pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def _is_text(kind: pa.DataType) -> bool:
    kind, types = _value_type(kind), pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _gives_categories(kind: pa.DataType) -> bool:
    """Return whether values may become categories: bytes and nested columns may hold pictures, which must not."""
    inner, types = _value_type(kind), pa.types
    return _is_text(kind) or bool(types.is_boolean(inner) or types.is_integer(inner) or types.is_null(inner))


def _gives_keys(kind: pa.DataType) -> bool:
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if pa.types.is_fixed_size_binary(_value_type(stored)) and _value_type(stored).byte_width > MAX_TEXT_BYTES:
        return False  # even a null takes this much
    return not _is_bytes(stored) and not pa.types.is_nested(_value_type(stored))


def _is_hugging_face(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) and any(f.name == "bytes" and _is_bytes(f.type) for f in kind)


def slices(root: Place, shard: str, category: str | None) -> Iterator[Slice]:
    ranges = _ranges(root, shard, category)
    number, waiting = 0, next(ranges, [])
    for following in ranges:
        yield Slice(shard, number, False, waiting)
        number, waiting = number + 1, following
    yield Slice(shard, number, True, waiting)


def _ranges(root: Place, shard: str, category: str | None) -> Iterator[list[Locator]]:
    """Yield locators of rows that are read together. A missing or contradictory footer gives a sample with a fault."""
    with opened(root, shard) as stream:
        file = _file(stream)
        if file is None:
            yield [_unlisted(CORRUPT_SHARD, "the file is cut or damaged: its footer cannot be read")]
            return
        if image_column(file.schema_arrow) is None:
            yield [_unlisted(NO_IMAGE_COLUMN, "the file has no column with image bytes")]
            return
        _label(file.schema_arrow, shard, category)
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        num_rows = [rows.num_rows for rows in groups]
        if min(num_rows, default=0) < 0 or sum(num_rows) != file.metadata.num_rows:
            message = "the file is damaged: its footer contradicts itself about the number of rows"
            yield [_unlisted(CORRUPT_SHARD, message)]
            return
        file_bytes = stream.seek(0, io.SEEK_END)
        if sum(num_rows) > max(MAX_ROWS, file_bytes):
            yield [_unlisted(TOO_MANY_ROWS, f"the file says that it has {sum(num_rows)} rows, in {file_bytes} bytes")]
            return
        first = 0
        for group, rows in enumerate(groups):
            slice_rows = _rows_per_slice(rows, file_bytes)
            for offset in range(0, rows.num_rows, slice_rows):
                span = range(offset, min(offset + slice_rows, rows.num_rows))
                yield [{"index": first + row, "group": group, "row": row} for row in span]
            first += rows.num_rows


def _unlisted(reason: str, message: str) -> Locator:
    """Return the only locator of a file whose rows cannot be listed. reason: from `SHARD_REASONS`."""
    return {"index": 0, "fault": [reason, message]}


def _rows_per_slice(rows: pq.RowGroupMetaData, file_bytes: int) -> int:
    """Return how many rows fit into a slice by their mean size, other columns included.

    The footer's facts about single columns are not read: if they are damaged, pyarrow ends the process.
    """
    group_bytes = min(rows.total_byte_size, MAX_EXPANSION * file_bytes)
    fitting = MAX_BYTES * rows.num_rows // max(1, group_bytes)
    return max(1, min(MAX_SAMPLES, int(fitting)))


def read(root: Place, slice_: Slice, category: str | None) -> Iterator[Sample]:
    """Yield the samples. Rows of a group that cannot be decoded in bounded memory have a fault and no bytes."""
    with opened(root, slice_.shard) as stream:
        file = _file(stream)
        for group, located in groupby(slice_.locators, key=lambda locator: locator.get("group")):
            locators = list(located)
            if file is None or group is None or group >= file.num_row_groups:
                yield from (
                    lost(slice_.shard, locator, Fault(*locator["fault"]) if "fault" in locator else CHANGED)
                    for locator in locators
                )
                continue
            names = (*_columns(file.schema_arrow, slice_.shard), _label(file.schema_arrow, slice_.shard, category))
            yield from _samples(stream, file, slice_.shard, group, locators, *names)


def names(root: Place, shard: str, category: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield keys and categories, reading only their columns; rows of a group with damaged ones count as lost."""
    with opened(root, shard) as stream:
        file = _file(stream)
        for slice_ in slices(root, shard, category):
            for group, located in groupby(slice_.locators, key=lambda locator: locator.get("group")):
                locators, pairs = list(located), list[tuple[str, str | None]]()
                if file is not None and group is not None:
                    with suppress(*DAMAGED, AmbiguousColumnError, LargePageError):
                        pairs = list(_names(stream, file, shard, group, locators, category))
                if len(pairs) < len(locators):
                    pairs = [(lost(shard, locator, CHANGED).key, None) for locator in locators]
                yield from pairs


def captions(root: Place, shard: str) -> Iterator[str | None]:
    with opened(root, shard) as stream:
        file = _file(stream)
        for slice_ in slices(root, shard, None):
            for group, located in groupby(slice_.locators, key=lambda locator: locator.get("group")):
                numbers = [locator.get("row", 0) for locator in located]
                if file is None or group is None:
                    yield from [None] * len(numbers)
                else:
                    yield from _made_of_column(stream, file, group, numbers, CAPTION_NAMES, caption_of)


def num_downloaded(root: Place, name: str) -> int | None:
    """Count the rows of a table of img2dataset that report a downloaded picture; None if it is not such a table.

    StorageError if it cannot be read.
    """
    with opened(root, name) as stream:
        file = _file(stream)
        if file is None or not 0 <= file.metadata.num_rows <= MAX_ROWS or STATUS not in file.schema_arrow.names:
            return None
        num_successes = 0
        for group in range(file.num_row_groups):
            numbers = range(file.metadata.row_group(group).num_rows)
            is_there = _made_of_column(stream, file, group, numbers, (STATUS,), lambda status: status == b"success")
            if None in is_there:  # a status that is missing, or a damaged column
                return None
            num_successes += sum(map(bool, is_there))
        return num_successes


def _names(
    stream: BinaryIO, file: pq.ParquetFile, shard: str, group: int, locators: Sequence[Locator], category: str | None
) -> Iterator[tuple[str, str | None]]:
    column, key = _columns(file.schema_arrow, shard)
    label = _label(file.schema_arrow, shard, category)
    wanted = [(name, leaf) for name, leaf in _leaves(file.schema_arrow, column, key, label) if not leaf.is_image]
    if not wanted:
        yield from ((f"{locator['index']:09d}", None) for locator in locators)
        return
    leaves = [leaf for _, leaf in wanted]
    for locator, values in zip(
        locators, rows(stream, file, group, [locator["row"] for locator in locators], leaves, _value), strict=True
    ):
        row: dict[str, Any] = {column: {}, **{name: value for (name, _), value in zip(wanted, values, strict=True)}}
        sample = _sample(shard, locator["index"], row, column, key, label)
        yield sample.key, sample.category


def lost(shard: str, locator: Locator, fault: Fault) -> Sample:
    """Return the sample of a row that cannot be read."""
    index = locator["index"]
    key = f"{index:09d}" if "group" in locator else f"@{index}"
    return Sample(printable(shard), index, key, None, b"", fault)


def _samples(
    stream: BinaryIO,
    file: pq.ParquetFile,
    shard: str,
    group: int,
    locators: Sequence[Locator],
    column: str,
    key: str | None,
    label: str | None,
) -> Iterator[Sample]:
    """Yield the samples of one row group; the first that cannot be decoded, and all after it, are lost."""
    left, fault = iter(locators), CHANGED
    texts = _texts(stream, file, group, [locator["row"] for locator in locators])
    try:
        names, leaves = zip(*_leaves(file.schema_arrow, column, key, label), strict=True)
        for values in rows(stream, file, group, [locator["row"] for locator in locators], leaves, _value):
            row: dict[str, Any] = {}
            for name, value in zip(names, values, strict=True):
                row[name] = row[name] | value if row.get(name) else value  # a struct comes in parts
            sample = _sample(shard, next(left)["index"], row, column, key, label)
            caption, (url_sha256, domain) = next(texts)
            yield replace(sample, caption=caption, url_sha256=url_sha256, domain=domain)
    except AmbiguousColumnError:
        fault = Fault("several_images", f'the file has several columns "{printable(column)}"')
    except LargePageError:
        limits = f"{MAX_IMAGE_PAGE_BYTES // 2**20} MB, or {MAX_TEXT_PAGE_BYTES // 2**20} MB of keys or categories"
        fault = Fault(TOO_LARGE, f"row group {group} has a page that decodes to more than {limits}")
    except DAMAGED:
        fault = Fault("unreadable", f"row group {group} cannot be decoded")
    yield from (lost(shard, locator, fault) for locator in left)


def _texts(
    stream: BinaryIO, file: pq.ParquetFile, group: int, numbers: Sequence[int]
) -> Iterator[tuple[str | None, tuple[str | None, str | None]]]:
    """Yield `caption` and (`url_sha256`, `domain`) of these rows. They are read apart from the images, so that damage
    there costs no image."""
    captions = _made_of_column(stream, file, group, numbers, CAPTION_NAMES, caption_of)
    url_facts = _made_of_column(
        stream, file, group, numbers, URL_NAMES, lambda url: (url_sha256_of(url), domain_of(url))
    )
    yield from zip(captions, (facts or (None, None) for facts in url_facts), strict=True)


def _made_of_column(
    stream: BinaryIO,
    file: pq.ParquetFile,
    group: int,
    numbers: Sequence[int],
    names: Sequence[str],
    made_of: Callable[[bytes], Made | None],
) -> list[Made | None]:
    """Apply `made_of` to each row of the first of these columns that holds text; all None if it is unreadable."""
    kinds = {f.name: f.type for f in file.schema_arrow}
    name = next((name for name in names if name in kinds and _is_text(kinds[name])), None)
    if name is None:
        return [None] * len(numbers)
    leaf = Leaf(name, False, pa.types.is_dictionary(kinds[name]))
    try:
        values = [value for (value,) in rows(stream, file, group, numbers, [leaf], lambda array: _made(array, made_of))]
    except (*DAMAGED, AmbiguousColumnError, LargePageError):
        values = []
    return values if len(values) == len(numbers) else [None] * len(numbers)


def _made(array: pa.Array, made_of: Callable[[bytes], Made | None]) -> Made | None:
    value = _value(array)
    return made_of(value) if isinstance(value, bytes) else None


def _leaves(schema: pa.Schema, column: str, key: str | None, label: str | None) -> Iterator[tuple[str, Leaf]]:
    """Yield (column, leaf) of all that is read; of a struct with an image its bytes, and its path if that is the key.

    AmbiguousColumnError if several columns of this name hold images.
    """
    kinds = {f.name: f.type for f in schema}
    image, *others = [f.type for f in schema if f.name == column and (_is_bytes(f.type) or _is_hugging_face(f.type))]
    if others:
        raise AmbiguousColumnError
    if pa.types.is_struct(image):
        parts = {f.name: f.type for f in image}
        yield column, Leaf(f"{column}.bytes", True, pa.types.is_dictionary(parts["bytes"]))
        if key is None and "path" in parts and not pa.types.is_nested(_value_type(parts["path"])):
            yield column, Leaf(f"{column}.path", False, pa.types.is_dictionary(parts["path"]))
    else:
        yield column, Leaf(column, True, pa.types.is_dictionary(image))
    for name in dict.fromkeys((key, label)):
        if name is not None:
            yield name, Leaf(name, False, pa.types.is_dictionary(kinds[name]))


def _value(array: pa.Array) -> Any:
    """Return the value of an array of length 1: text as bytes, since it may be invalid, and times as text."""
    if pa.types.is_struct(array.type):
        if array.null_count:
            return None
        return {f.name: _value(array.field(number)) for number, f in enumerate(array.type)}
    plain = array.cast(_untexted_type(array.type))
    return _bytes(plain) if pa.types.is_large_binary(plain.type) else plain[0].as_py()


def _bytes(array: pa.LargeBinaryArray) -> bytes | None:
    """Return the only value of the array. `as_py` would copy it twice."""
    _, offsets, content = array.buffers()
    if array.null_count or content is None:
        return None if array.null_count else b""
    begin, end = memoryview(offsets).cast("q")[array.offset : array.offset + 2]
    return bytes(memoryview(content)[begin:end])


def _untexted(table: pa.Table) -> pa.Table:
    """Convert text to bytes, times to text, dictionaries and views to their values."""
    return table.cast(pa.schema([pa.field(f.name, _untexted_type(f.type)) for f in table.schema]))


def _untexted_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _untexted_type(f.type)) for f in kind])
    if _is_text(kind) or _is_bytes(kind):
        return pa.large_binary()
    return pa.string() if pa.types.is_temporal(kind) else kind


def _text(value: object) -> str:
    return printable(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value))


def _sample(shard: str, index: int, row: dict[str, object], column: str, key: str | None, label: str | None) -> Sample:
    image = row[column]
    path = image.get("path") if isinstance(image, dict) else None
    encoded = image.get("bytes") if isinstance(image, dict) else image
    named = row[key] if key else path
    value = row[label] if label else None
    if any(isinstance(text, bytes | str) and len(text) > MAX_TEXT_BYTES for text in (named, value)):
        fault = Fault(TOO_LARGE, f"its key or category has more than {MAX_TEXT_BYTES} bytes")
        return Sample(printable(shard), index, f"{index:09d}", None, b"", fault)
    return Sample(
        shard=printable(shard),
        index=index,
        key=_text(named) if named is not None else f"{index:09d}",
        category=None if value is None else _text(value),
        encoded=encoded if isinstance(encoded, bytes) else b"",
        fault=None if isinstance(encoded, bytes) else Fault("no_image", "the row has no image bytes"),
    )


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Write the kept rows, group by group, with the columns that `ingest.formats.parquet_columns` chooses."""
    num_written, writer, nulled, dropped = 0, None, Counter[str](), dict[int, str]()
    with opened(root, shard) as stream:
        file = _file(stream)
        if file is None:
            raise changed(shard, "its footer cannot be read")
        kept.check_number(shard, file.metadata.num_rows)
        schema = file.schema_arrow
        image, key = _columns(schema, shard)
        choice = choose(schema, schema.names.index(image), (key, _label(schema, shard, kept.category)), kept.members)
        with out.at(shard).create() as released, ExitStack() as stack:
            for group, indices, mask in _kept_rows(file, kept):
                try:
                    for rows, nulled_here in _released(stream, file, shard, group, mask, indices, kept, choice):
                        if writer is None:  # the footer's facts about columns are read only after they were decoded
                            compression = _compression(file.metadata.row_group(group))
                            writer = stack.enter_context(
                                pq.ParquetWriter(released, choice.schema, compression=compression)
                            )
                        writer.write_table(rows)
                        num_written += rows.num_rows
                        nulled += nulled_here
                except LargePageError:
                    dropped |= dict.fromkeys(indices, f"row group {group} takes too much memory to be released")
            if writer is None:
                pq.write_table(choice.schema.empty_table(), released)
    left_out = Counter(dict.fromkeys(choice.left_out, num_written)) if num_written else Counter[str]()
    return Written(num_written, {shard: released.sha256}, dropped, dict(left_out + nulled))


def _kept_rows(file: pq.ParquetFile, kept: Kept) -> Iterator[tuple[int, list[int], list[bool]]]:
    """Yield for each group with kept rows its number, the indices of these rows, and a mask over all its rows."""
    first = 0
    for group in range(file.num_row_groups):
        num_rows = file.metadata.row_group(group).num_rows
        indices = range(first, first + num_rows)
        mask = [index in kept.sha256 for index in indices]
        if any(mask):
            yield group, [*compress(indices, mask)], mask
        first += num_rows


def _released(
    stream: BinaryIO,
    file: pq.ParquetFile,
    shard: str,
    group: int,
    mask: Sequence[bool],
    indices: Sequence[int],
    kept: Kept,
    choice: Choice,
) -> Iterator[tuple[pa.Table, Counter[str]]]:
    """Yield the kept rows of a row group, a slice's worth at once, and how many cells became null.

    LargePageError before the first rows if the group cannot be read in bounded memory.
    """
    first, seen, waiting, nulled = 0, iter(indices), list[pa.Table](), Counter[str]()
    try:
        for batch in batches(stream, file, group, choice):
            wanted, first = mask[first : first + batch.num_rows], first + batch.num_rows
            if any(wanted):
                rows, nulled_here = plain_rows(pa.Table.from_batches([batch]), wanted, choice)
                _check(rows, shard, seen, kept, choice)
                waiting.append(rows)
                nulled += nulled_here
            if sum(rows.nbytes for rows in waiting) >= MAX_BYTES:
                yield joined(waiting, choice), nulled
                waiting, nulled = [], Counter()
        if waiting:
            yield joined(waiting, choice), nulled
    except DAMAGED:
        raise changed(shard, f"row group {group} cannot be decoded") from None


def _check(rows: pa.Table, shard: str, indices: Iterator[int], kept: Kept, choice: Choice) -> None:
    """IncompleteError if an image has changed since the scan. Columns by position, since names may occur twice."""
    image, key = _columns(rows.schema, shard)
    numbers = [choice.image]
    if key is not None:  # the last of several, as in `read`
        numbers.append(max(number for number, name in enumerate(rows.schema.names) if name == key))
    wanted = _untexted(rows.select(numbers))
    for batch in wanted.to_batches(CHECKED_ROWS):
        for row in batch.to_pylist():
            sample = _sample(shard, next(indices), row, image, key, None)
            sha256 = None if sample.fault else hashlib.sha256(sample.encoded).hexdigest()
            kept.check_image(shard, sample.index, sample.key, sha256)


def _compression(rows: pq.RowGroupMetaData) -> str:
    name = str(rows.column(0).compression).lower()
    return "none" if name == "uncompressed" else name


def _columns(schema: pa.Schema, shard: str) -> tuple[str, str | None]:
    """Return the names of the image and the key column. SourceError if there is no image column."""
    column = image_column(schema)
    if column is None:
        message = "has no column with image bytes (binary or struct<bytes, path>)"
        urls = [name for name in schema.names if name.lower() in NAMES_OF_URLS]
        advice = "; it lists URLs: download them first with privsieve fetch" if urls else ""
        raise SourceError(f"{printable(shard)} {message}: {_listed(schema.names)}{advice}")
    unfit = {f.name for f in schema if not _gives_keys(f.type)} | {column}  # names may occur twice
    return column, next((name for name in KEY_NAMES if name in schema.names and name not in unfit), None)


def _label(schema: pa.Schema, shard: str, category: str | None) -> str | None:
    """Return the name of the category column. SourceError if it is missing or cannot give categories."""
    if category is not None and category not in schema.names:
        close = did_you_mean(category, map(printable, schema.names))
        raise SourceError(f'{printable(shard)} has no column "{printable(category)}" for --category{close}')
    label = category or (DEFAULT_CATEGORY if DEFAULT_CATEGORY in schema.names else None)
    if label is None:
        return None
    kinds = [f.type for f in schema if f.name == label]  # names may occur twice
    unfit = next((kind for kind in kinds if not _gives_categories(kind)), None)
    if unfit is None:
        return label
    fitting = [f.name for f in schema if _gives_categories(f.type)]
    advice = f"name another with --category: {_listed(fitting)}" if fitting else "no column is suitable"
    message = f'the category column "{printable(label)}" holds {printable(str(unfit).partition("<")[0])}'
    raise SourceError(f"{printable(shard)}: {message}, not text, boolean or whole numbers; {advice}")


def _listed(names: Sequence[str]) -> str:
    """Join the first names; long ones are cut."""
    return ", ".join(printable(name)[:MAX_NAME_CHARACTERS] for name in names[:12])
