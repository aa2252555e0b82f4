"""The policies that come with privsieve, by name, and a user's own, by path."""

from importlib import resources
from pathlib import Path

from ingest.errors import MissingFileError, PolicyError, did_you_mean
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from scoring.taxonomy import TAXONOMY

SHIPPED = ("strict", "identity-documents-only", "research", "redacted") if TAXONOMY.is_published else ()
"""None for another taxonomy, whose attributes they do not know."""

_OLD_FOLDER = "jobs/policies"
"""Folder of the shipped policies in 0.1.0; commands that name a file there still work."""


def policy_bytes(name: str) -> bytes:
    """Return the YAML of a shipped policy (`strict`) or of a file. PolicyError if there is neither.

    StorageError if the file cannot be read.
    """
    if name in SHIPPED:
        return _shipped(name)
    path = Path(name)
    try:
        return given_content(place(name), f"--policy {name}")
    except MissingFileError:
        if path.parent.as_posix().endswith(_OLD_FOLDER) and path.suffix == ".yaml" and path.stem in SHIPPED:
            return _shipped(path.stem)
        if not SHIPPED:
            raise PolicyError(
                f"there is no policy {name}; give a YAML file, since the shipped policies are of the published taxonomy"
            ) from None
        known = ", ".join(SHIPPED)
        hint = did_you_mean(path.stem, SHIPPED) if len(path.parts) == 1 else ""
        raise PolicyError(
            f"there is no policy {name}{hint}; give a YAML file, or one that is shipped: {known}"
        ) from None


def _shipped(name: str) -> bytes:
    return resources.files("scoring.policies").joinpath(f"{name}.yaml").read_bytes()
