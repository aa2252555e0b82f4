"""Facts about an engine without loading a model: its requirements and its prompt.

`privsieve doctor` and `scan --dry-run` show these facts and need no knowledge of any single engine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version

from ingest.errors import EngineError
from ingest.images.pixels import Pixels
from ingest.machine import install_command
from scoring import openvino, tesseract


@dataclass(frozen=True)
class LocalModel:
    """A model that runs on the machines of the scan, on a GPU or on the CPU."""

    num_gpus: int
    weight_bytes: int
    """Size of its weight files; 0 if they are not on this machine."""

    cpu_memory_bytes: int
    """Memory that it takes if it runs on the CPU; 0 if unknown."""

    without_gpu: str | None
    """What to do on a machine without a GPU; None if the model then runs on the CPU."""


@dataclass(frozen=True)
class Requirements:
    """Requirements of the engine on a machine. Missing model files are reported by `describe`."""

    extra: str | None = None
    """Extra of privsieve's package that installs the engine's packages; None if the plain package is enough."""

    local_model: LocalModel | None = None
    """The local model; None if the engine uses no GPU here."""


@dataclass(frozen=True)
class PromptPart:
    """One turn of a chat, or a note between turns."""

    heading: str
    """The role, or the note itself."""

    text: str | None = None
    """Text of the turn; None for a note."""


@dataclass(frozen=True)
class Preview:
    """The engine's prompt, and its view of a picture."""

    describe_picture: Callable[[Pixels], str]
    """A decoded picture -> its size as the engine sees it, in a few words."""

    protocol: str | None = None
    """Name and version of the protocol; None for an engine without a prompt."""

    parts: tuple[PromptPart, ...] = ()
    """The whole prompt, in order."""

    num_text_tokens: int | None = None
    """Tokens of the prompt without the picture; None if only the server has the tokenizer."""

    num_tokens_after_picture: int = 0
    """Those of them that are computed for each picture; the others are computed once."""


def installed_version(name: str) -> str | None:
    """Return the version of a package; of Tesseract with its languages, of OpenVINO with its precision. None if it is
    not here, or not in use."""
    if name in (tesseract.PROGRAM, openvino.PACKAGE):
        return tesseract.version() if name == tesseract.PROGRAM else openvino.in_use()
    try:
        return package_version(name)
    except PackageNotFoundError:
        return None


def package_versions(engine: str, packages: tuple[str, ...]) -> dict[str, str]:
    """Return package -> version; `a|b` means the first of them that is installed. EngineError if one is missing."""
    versions: dict[str, str] = {}
    for alternatives in packages:
        names = alternatives.split("|")
        installed = [(name, version) for name in names if (version := installed_version(name))]
        if not installed:
            raise EngineError(f"the {engine} engine needs the package {names[0]}: {install_command(engine)}")
        versions |= installed[:1]
    return versions
