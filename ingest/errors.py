"""The whole error tree, and the faults of samples, which end as quarantined rows and never as exceptions.

Every error that a user can cause has one clear line and an exit code.

    PrivsieveError            exit 2: the command was wrong, nothing was done
    ├── SourceError           the source cannot be read or is not what the options say
    ├── StorageError          a path or URL cannot be reached or written
    │   ├── MissingFileError  there is no file of that name
    │   └── OutageError       exit 1: the store did not answer, and may do so later; nothing was wrong
    ├── RunError              the run folder does not fit the command
    ├── EngineError           an engine is unknown, not installed or misses a model file
    │   └── NoFeaturesError   a modality of a screen cannot look at one picture
    ├── PolicyError           a policy file is wrong
    ├── LabelsError           a file of labels, a training set or a recipe is wrong
    ├── QueryError            a SQL statement or expression is wrong or not allowed
    └── IncompleteError       exit 1: the command ran, but not to its end: samples without a row, a changed source

A bad *image* is never one of these: it becomes a quarantined row (`ingest.errors.Fault`).
Messages say what is wrong, with the value and what to do. They never hold image content, captions, found text or
credentials. Names are not escaped in them: `jobs.console.terminal` escapes control characters when it prints.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class PrivsieveError(Exception):
    """Base of the tree; `str(error)` is the one line that the user reads."""

    exit_code = 2


class SourceError(PrivsieveError):
    pass


class StorageError(PrivsieveError):
    pass


class MissingFileError(StorageError):
    pass


class OutageError(StorageError):
    exit_code = 1


class RunError(PrivsieveError):
    pass


class EngineError(PrivsieveError):
    pass


class NoFeaturesError(EngineError):
    pass


class PolicyError(PrivsieveError):
    pass


class LabelsError(PrivsieveError):
    pass


class QueryError(PrivsieveError):
    pass


class IncompleteError(PrivsieveError):
    exit_code = 1


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean "x"?)` if a known name is close to `name` or a word of it, else an empty string."""
    names = list(known)
    words = [word for word in reversed(name.split("_")) if word in names and word != name]
    matches = difflib.get_close_matches(name, names, n=1, cutoff=0.8) or words
    matches = matches or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f' (did you mean "{matches[0]}"?)' if matches else ""


def number_of(count: int, noun: str) -> str:
    """Return the number with its noun: `1 shard`, `2,000 shards`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


TRUNCATED_SHARD = "truncated_shard"
CORRUPT_SHARD = "corrupt_shard"
NO_IMAGE_COLUMN = "no_image_column"
TOO_MANY_ROWS = "too_many_rows"

SHARD_REASONS = frozenset([TRUNCATED_SHARD, CORRUPT_SHARD, NO_IMAGE_COLUMN, TOO_MANY_ROWS])
"""Reasons of rows that describe a shard or a part of it, not a single image. How many images the part held is not
known, so such a row is counted as no image (`scoring.runs.rows`)."""


@dataclass(frozen=True)
class Fault:
    """Why one sample cannot be assessed."""

    reason: str
    """A short code, such as `truncated`."""

    message: str
    """One line, without content of the image, of its file or of an answer."""
