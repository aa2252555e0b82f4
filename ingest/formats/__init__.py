"""One module per corpus format, with its reader and its writer side by side; `FORMATS` picks by name.

To add a format: write a module with the functions of `Format` (if a shard is a file, the last four are those of
`ingest.formats.shard`), name it in `FORMATS`, and make `_recognised` and `_kind` recognise it.

May import: `ingest.images.files`, `ingest.storage`.
"""

import hashlib
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ingest.categories import ClassList, KeywordList
from ingest.errors import SourceError, did_you_mean, number_of
from ingest.formats import parquet, tree, webdataset
from ingest.formats.members import IMAGE_EXTENSIONS, begins_like_picture, extension_of
from ingest.formats.parquet_rows import UnreadColumn
from ingest.formats.released import Kept, Written
from ingest.formats.shard import folders_below, storage_faults
from ingest.images.files.magic import HEAD_BYTES
from ingest.sample import Sample, Slice, printable
from ingest.storage.place import Place, place


class Format(Protocol):
    def shards(self, root: Place) -> list[str]:
        """Return the names of all shards below a folder, relative to it, sorted."""
        ...

    def slices(self, root: Place, shard: str, category: str | None, image_names: Sequence[str] = ()) -> Iterator[Slice]:
        """Yield the slices of one shard from names and sizes, without pixels; the same content gives the same slices.

        image_names: columns of a table; without them it is all that hold images.

        Content that cannot be listed becomes a sample with a fault. StorageError if the storage fails.
        """
        ...

    def read(self, root: Place, slice_: Slice, category: str | None) -> Iterator[Sample]:
        """Yield the samples of a slice, one for each locator, in their order. StorageError if the storage fails."""
        ...

    def names(
        self, root: Place, shard: str, category: str | None, image_names: Sequence[str] = ()
    ) -> Iterator[tuple[str, str | None]]:
        """Yield key and category of each sample of a shard, in order, as `read` gives them, without reading an image.
        SourceError or StorageError as in `slices`."""
        ...

    def captions(self, root: Place, shard: str, image_names: Sequence[str] = ()) -> Iterator[str | None]:
        """Yield the caption of each sample of a shard, or None; errors as in `slices`."""
        ...

    def write(self, root: Place, shard: str, kept: Kept, out: Place) -> Written:
        """Write the kept samples of a shard, and what is released with them, to the same path below `out`.

        A kept sample that cannot be released safely is left out and named in `Written.dropped`.

        IncompleteError if the shard has changed since the scan: another number of samples, or another image. No file is
        left half-written; files of a folder that were written before the error stay.
        """
        ...

    # Whether a shard has changed, as the methods of `Source` say it. OSError or StorageError.
    def version_mark(self, root: Place, shard: str) -> str: ...
    def version_marks(self, root: Place, shard: str) -> str: ...
    def blocks_sha256(self, root: Place, shard: str) -> str: ...


FORMATS: dict[str, Format] = {"webdataset": webdataset, "tree": tree, "parquet": parquet}

MAX_PROBED_FILES = 64
"""Number of files opened to see whether they are pictures, if no name says so."""


@dataclass(frozen=True)
class Source:
    """A corpus."""

    root: Place

    format: str
    """A name of `FORMATS`."""

    shards: tuple[str, ...]
    """Names relative to the root, sorted."""

    category: str | None
    """Column, field or member that gives a sample's category; None for the format's default."""

    class_list: ClassList | None = None
    """If given, the source of the categories; images that it does not name have none."""

    keyword_list: KeywordList | None = None
    """If given, derives the categories from words of the captions."""

    image_names: tuple[str, ...] = ()
    """Columns of tables that are read; empty for all that hold images."""

    unread: tuple[UnreadColumn, ...] = ()
    """Columns of tables that may hold images and are not read, as far as the first file shows."""

    @property
    def is_folder(self) -> bool:
        """Whether the user named the whole folder, rather than files in it."""
        return bool(self.root.url)

    def slices(self, shard: str) -> Iterator[Slice]:
        return FORMATS[self.format].slices(self.root, shard, self.category, self.image_names)

    def read(self, slice_: Slice) -> Iterator[Sample]:
        for sample in FORMATS[self.format].read(self.root, slice_, self.category):
            if self.class_list is not None:
                sample = replace(sample, category=self._listed_class(sample.shard, sample.key))
            if self.keyword_list is not None:
                sample = replace(sample, category=self.keyword_list.category_of(sample.caption))
            yield sample

    def samples(self) -> Iterator[Sample]:
        """Read every sample, in order."""
        for shard in self.shards:
            for slice_ in self.slices(shard):
                yield from self.read(slice_)

    def categories(self, shard: str) -> Iterator[str | None]:
        """Yield the category of each sample of a shard, in order, without reading an image."""
        if self.keyword_list is not None:
            captions = FORMATS[self.format].captions(self.root, shard, self.image_names)
            yield from map(self.keyword_list.category_of, captions)
            return
        for key, category in FORMATS[self.format].names(self.root, shard, self.category, self.image_names):
            yield category if self.class_list is None else self._listed_class(printable(shard), key)

    def _listed_class(self, shard: str, key: str) -> str | None:
        assert self.class_list is not None
        return self.class_list.class_of(posixpath.join(shard, key) if self.format == "tree" else key)

    def picture_indices(self, shard: str) -> list[int] | None:
        """Return the index of each sample of a released shard that is a picture; None if all are. A table with several
        columns of images has empty cells for those that are not released."""
        if self.format != "parquet":
            return None
        samples = (sample for slice_ in self.slices(shard) for sample in self.read(slice_))
        return [sample.index for sample in samples if sample.fault is None]

    def version_mark(self, shard: str) -> str:
        """Return a text that differs if the shard has changed. Fast: it lists no folder and reads no remote file.
        StorageError if the storage fails."""
        with storage_faults(shard):
            return FORMATS[self.format].version_mark(self.root, shard)

    def fingerprint(self, shard: str) -> str:
        """Return two hashes with a space between: of the version marks of all files of the shard, empty if the storage
        has none, and of a few blocks of their content (`ingest.storage.streams`), empty if the marks have such a hash.

        It differs if any sample of the shard was replaced; if size and time of its file are the same as before, it
        differs if one of the blocks does. StorageError if the storage fails.
        """
        with storage_faults(shard):
            marks = FORMATS[self.format].version_marks(self.root, shard)
        hashed = hashlib.sha256(marks.encode("utf-8", "surrogateescape")).hexdigest() if marks else ""
        return f"{hashed} {self.blocks_sha256(shard)}".rstrip()

    def blocks_sha256(self, shard: str) -> str:
        """Return the second hash of `fingerprint`. StorageError if the storage fails."""
        with storage_faults(shard):
            return FORMATS[self.format].blocks_sha256(self.root, shard)


def open_source(
    url: str,
    format_name: str | None,
    category: str | None,
    class_list: ClassList | None = None,
    keyword_list: KeywordList | None = None,
    image_names: Sequence[str] = (),
) -> Source:
    """Open the corpus at `url`: a folder, a file, a glob or a brace range. SourceError if there is none.

    class_list, keyword_list: give the categories instead of `category`. image_names: columns of tables to read; empty
    for all that hold images.
    """
    if format_name is not None and format_name not in FORMATS:
        known = ", ".join(FORMATS)
        raise SourceError(f'unknown format "{format_name}"{did_you_mean(format_name, FORMATS)}; there are: {known}')
    if category is not None and not category.strip():
        raise SourceError("--category is blank: name a column, field or member of the samples, or leave it out")
    location = place(url)
    with storage_faults(url):
        if location.is_dir():
            name = format_name or _recognised(location, url)
            shards = FORMATS[name].shards(location)
        else:
            name, location, shards = _files(location, url, format_name)
    if not shards:
        raise _no_pictures(location, url, name)
    _refuse_clashing_names(shards)
    if name == "tree" and category is not None:
        raise SourceError(f'a tree\'s category is the folder: leave out --category "{category}"')
    if name == "tree" and keyword_list is not None:
        raise SourceError("a folder tree has no captions: leave out --caption-words; its categories are the folders")
    unread = tuple[UnreadColumn, ...]()
    if name == "parquet":  # so that a missing column is an error before anything is written
        unread = parquet.check(location, shards, category, image_names)
    elif image_names:
        raise SourceError(f"--image-column names columns of Parquet files, and {url} is read as {name}; leave it out")
    return Source(location, name, tuple(shards), category, class_list, keyword_list, tuple(image_names), unread)


def _refuse_clashing_names(shards: list[str]) -> None:
    """Raise SourceError if two shards would have the same name in their rows, as `a\\nb` and `a`, a line break, `b`."""
    odd = Counter(printable(shard) for shard in shards if "\\" in shard or not shard.isprintable())
    clash = next((shown for shown, count in odd.items() if count > 1), None)
    if clash is not None:
        raise SourceError(f"the source holds two shards that are both shown as {clash}; rename one of them")


def _files(location: Place, url: str, format_name: str | None) -> tuple[str, Place, list[str]]:
    """Return format, common folder and names of the files that a path, glob or brace range names."""
    patterns = [] if location.exists() else expand_braces(location.path)
    paths = [p for pattern in patterns for p in _matches(location, pattern, url)] or [location.path] * location.exists()
    if not paths:
        raise SourceError(f"{url} does not exist or matches nothing")
    kinds = {_kind(p) for p in paths}
    name = format_name or (kinds.pop() if len(kinds) == 1 else None)
    # Paths of web servers are whole URLs, whose two slashes `commonpath` would join.
    scheme = "".join(re.findall(r"^https?://", paths[0]))
    bare = [p.removeprefix(scheme) for p in paths]
    folder = posixpath.commonpath([posixpath.dirname(p) for p in bare])
    if name in (None, "tree") and location.exists() and extension_of(location.path) in IMAGE_EXTENSIONS:
        return "tree", Place(location.fs, scheme + folder), [posixpath.basename(location.path)]
    if name is None and all(map(_is_table, paths)):
        raise SourceError(f"{url} is a table and holds no pictures; {_fetch_first(url)}")
    if name in (None, "tree") and all(extension_of(p) in IMAGE_EXTENSIONS for p in paths):
        raise SourceError(f"{url}: pictures are read by the folder; give the folder that holds them, or one picture")
    if name == "tree":
        raise SourceError(f"{url} is not a folder; give one, or leave out --source-format tree")
    if name is None and len(paths) == 1:
        raise SourceError(
            f"{url} is no picture, tar or Parquet file; give a folder of pictures, or give --source-format too"
        )
    if name is None:
        known = " ".join((*webdataset.SUFFIXES, parquet.SUFFIX))
        raise SourceError(f"{url} is neither a folder nor files of one kind ({known}); say which with --source-format")
    names = sorted({posixpath.relpath(p, folder) for p in bare})
    return name, Place(location.fs, scheme + folder), names


def _matches(location: Place, pattern: str, url: str) -> list[str]:
    if any(c in pattern for c in "*?["):
        return location.matches(pattern)
    if not Place(location.fs, pattern).exists():
        scheme, separator, _ = url.rpartition("://")  # without it, a path of a bucket looks like one of this machine
        raise SourceError(f"{pattern if '://' in pattern else scheme + separator + pattern} does not exist")
    return [pattern]


def expand_braces(pattern: str) -> list[str]:
    """Expand `{000..012}` and `{a,b}` in a pattern; the results are in order.

    >>> expand_braces("{08..10}.tar")
    ['08.tar', '09.tar', '10.tar']
    """
    before, opened, rest = pattern.partition("{")
    inside, closed, after = rest.partition("}")
    if not opened or not closed:
        return [pattern]
    first, dots, last = inside.partition("..")
    if dots and first.isdecimal() and last.isdecimal():
        choices = [f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1)]
    else:
        choices = inside.split(",")
    return [before + choice + tail for choice in choices for tail in expand_braces(after)]


def _recognised(location: Place, url: str) -> str:
    """Return the format: tars are a WebDataset, Parquet files a Parquet corpus, anything else is an image tree."""
    names = [name for _, listing in folders_below(location) for name, _ in listing.files]
    kinds = {_kind(name) for name in names}
    pictures = any(extension_of(name) in IMAGE_EXTENSIONS for name in names)
    if "webdataset" in kinds and pictures:
        raise SourceError(f"{url} holds both .tar shards and loose pictures; say which with --source-format")
    return next((name for name in ("webdataset", "parquet") if name in kinds and not pictures), "tree")


def refuse_without_pictures(source: Source, url: str) -> None:
    """Raise SourceError if nothing in a folder tree looks like a picture, by any name or by the first files' content.

    A scan makes a row of each file, whatever it holds; but a folder of documents alone is most likely a mistake.
    StorageError if the storage fails.
    """
    if source.format != "tree":
        return
    num_files, files_to_probe = 0, list[Place]()
    for shard in source.shards:
        for slice_ in source.slices(shard):
            for locator in slice_.locators:
                name = str(locator["name"])
                if extension_of(name) in IMAGE_EXTENSIONS or "fault" in locator:
                    return
                num_files += 1
                if len(files_to_probe) < MAX_PROBED_FILES:
                    files_to_probe.append((source.root if shard == tree.ROOT else source.root.at(shard)).at(name))
    for file in files_to_probe:
        if not file.is_local or os.path.isfile(file.path):
            with storage_faults(file.path), file.open() as stream:
                if begins_like_picture(file.name, stream.read(HEAD_BYTES)):
                    return
    raise SourceError(f"no pictures found in {url} ({number_of(num_files, 'other file')})")


def _no_pictures(location: Place, url: str, name: str) -> SourceError:
    """Say what the folder holds instead."""
    if name != "tree" or not location.is_dir():
        return SourceError(f"{url} holds no {name} samples")
    files = [file for _, listing in folders_below(location) for file, _ in listing.files]
    tables = f"; {_fetch_first(url)}" if any(map(_is_table, files)) else ""
    others = number_of(len(files), "other file") if files else "it is empty"
    return SourceError(f"no pictures found in {url} ({others}){tables}")


def _fetch_first(url: str) -> str:
    return f"if it lists URLs of pictures, download them first: privsieve fetch {url} --out SHARDS"


def _is_table(path: str) -> bool:
    return path.lower().removesuffix(".gz").endswith((".csv", ".tsv"))


def _kind(path: str) -> str | None:
    """Return the format by the file's extension, or None."""
    if path.lower().endswith(webdataset.SUFFIXES):
        return "webdataset"
    return "parquet" if path.lower().endswith(parquet.SUFFIX) else None
