"""The record of a release, `release.json`; `SHA256SUMS`, which is made of it; and the signature by `ssh-keygen -Y`.

`sha256sum -c` reads SHA256SUMS. Source of both formats: the manuals of GNU coreutils (sha256sum) and OpenSSH
(ssh-keygen, ALLOWED SIGNERS).
"""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, computed_field

from ingest.errors import PrivsieveError
from ingest.formats.members import Members, name_fault
from ingest.formats.origins import Origins
from ingest.formats.released import (
    CHANGES,
    DECISIONS,
    MADE_FROM,
    REDACTIONS,
    RELEASE,
    REMOVED,
    SHA256SUMS,
    SIGNATURE,
)
from ingest.storage.place import Place, place
from scoring.policies.policy import Files, Texts

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

ReleasedName = InstanceOf[str]
"""Name of a file of a release. One that is not UTF-8 has surrogates, which pydantic refuses in text and in its JSON, so
models with such names are read and written by `json`."""


class GuaranteeRecord(BaseModel):
    """What `--guarantee` promised, and what proves it."""

    model_config = ConfigDict(frozen=True)

    recall: float
    """At least this share of the private pictures of the run is dropped, …"""

    confidence: float
    """… with this probability, over the choice of the pictures that were labelled."""

    by: str
    """The column or expression that has the threshold."""

    threshold: float | None
    """Images from it on are dropped; None if the policy alone drops enough."""

    num_private_labelled: int
    """Labelled private pictures that the proof uses, each equally likely to have been drawn."""

    num_missed: int
    """How many of these the release keeps."""

    num_missed_allowed: int
    """How many it might keep, by the exact binomial bound."""

    num_dropped_by_policy: int
    """How many of `num_private_labelled` the policy drops."""

    num_without_score: int
    """How many of `num_private_labelled` stay at any threshold: without a score, or kept by a rule of the policy."""

    failure_probability: float
    """Upper bound of the probability that the promise is broken, over draws of labels; at most 1 − confidence."""

    drawn: Literal["audit", "evenly"]
    """How the labelled pictures were drawn."""

    num_private_drawn: int
    """Labelled private pictures before those of an audit were thinned to equal probabilities; copies count once."""

    num_undecided: int = 0
    """Labelled pictures that may be private or not, since people differ or cannot say (of an audit after thinning)."""

    num_undecided_as_private: int = 0
    """How many of `num_private_labelled` are undecided and count as private: as many as give the lowest threshold."""

    labels_sha256: Sha256
    """Hash of the file of labels; of a folder, of the lines that `sha256sum *` prints in it."""

    assumption: str
    """What must be true for the promise to hold."""

    promise: str = ""
    """The promise in words; empty in releases of older versions, which counted rows where an audit sample was used."""

    covered_counts: bool = False
    """Whether covered pictures count as caught: each was cleared by the second look, or was dropped."""

    num_dropped: int = 0
    """Images of the run that the guarantee drops in addition to those that the policy drops: its price."""

    share_dropped: float = 0.0
    """The same as a share of all images of the run, 0–1."""


GroupsBy = Literal["phash", "pdq"]
"""Column of the row by which near duplicates are found."""


class GroupCounts(BaseModel):
    """Groups of near duplicates, by --groups."""

    model_config = ConfigDict(frozen=True)

    by: GroupsBy
    num_groups: int
    """Groups of two pictures or more."""

    num_pictures: int
    """Pictures in these."""

    num_overruled: int
    """Pictures that got a stricter decision than their own."""


class UrlCounts(BaseModel):
    """What became of the rows of the table of --urls."""

    model_config = ConfigDict(frozen=True)

    column: str
    """Column of the URLs."""

    flags_only: bool
    """Whether the list has the rows that the policy drops, too."""

    num_listed: int
    """All rows: the sum of the following numbers."""

    actions: dict[str, int]
    """Action of the policy -> rows."""

    num_failed: int
    """Rows whose column `status` says that the picture could not be downloaded, and whose URL the run does not know."""

    num_not_scanned: int
    """Other rows with a URL that the run does not know."""

    num_without_url: int

    num_withheld: int = 0
    """Rows of `actions` whose picture is on a hash list, which no list has."""

    num_taken_down: int = 0
    """Rows that takedowns have removed since."""

    keeps_unknown: bool = False
    """Whether the list has rows that the run does not know. Never if the run had a hash list: it does not say the URLs
    of pictures that were on it."""

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def num_released(self) -> int:
        """Return the number of rows of the list."""
        unknown = self.num_failed + self.num_not_scanned + self.num_without_url if self.keeps_unknown else 0
        dropped = self.num_withheld if self.flags_only else self.actions["drop"]
        return sum(self.actions.values()) - dropped + unknown - self.num_taken_down


class ReleaseRecord(BaseModel):
    """The facts about a release: all of `release.unfinished.json`, and the head of `release.json`."""

    model_config = ConfigDict(frozen=True)  # other keys are ignored: `release.json` has counts and hashes too

    privsieve: str
    source: str
    sample: int | None
    limit: int | None
    run_sha256: Sha256
    policy: str
    policy_sha256: Sha256
    kept_sha256: Sha256
    members: Members | None = None  # of older versions, which released all members of a picture
    files: Files = "as-is"
    texts: Texts = "as-is"
    origins: Origins | None = None
    """Whether texts lead to the originals of cleaned and covered pictures; None if no picture is written again."""

    second_look: str | None = None
    """Protocol of the engine that examined covered pictures; None without a rule that covers something."""

    verified_by: str | None = None
    """Name and protocol of the other engine that examined covered pictures, by --verify-engine."""

    residual_max_level: int | None = None
    """Most severe level that the second look might find in a covered picture; None: only what rules cover is gone."""

    previous_sha256: Sha256 | None = None
    """Hash of `release.json` of the release before, by --previous."""

    boxes_sha256: Sha256 | None = None
    """Hash of the boxes that people changed or added; None if none were given."""

    guarantee: GuaranteeRecord | None = None  # without --guarantee, and of older versions

    flag_keys: bool = False
    """Whether the JSON of each released sample says what the policy decided."""

    groups: GroupCounts | None = None
    """Groups that share a decision; None if each picture has its own."""

    urls: UrlCounts | None = None
    """Counts of the list of URLs; None for a release of pictures."""


def release_record(file: Place) -> ReleaseRecord | None:
    """Read the record; None if there is none, or the file is something else. StorageError if it cannot be read."""
    if not file.exists():
        return None
    try:
        return ReleaseRecord.model_validate_json(file.read())
    except ValueError:
        return None


def facts_of(release: bytes, what: str) -> dict[str, Any]:
    """Return what `release.json` says. PrivsieveError, with `what` it is of, if it is damaged or names files outside of
    the release."""
    try:
        facts = json.loads(release)
        if isinstance(facts["sha256"], dict) and not any(map(name_fault, facts["sha256"])):
            return dict(facts)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise PrivsieveError(f"{what}: {RELEASE} is damaged, or was not written by filter")


def urls_of(root: Place) -> UrlCounts | None:
    """Return the counts of a finished release that is a list of URLs; None for another release."""
    record = release_record(root.at(RELEASE))
    return None if record is None else record.urls


NAMESPACE = "privsieve-release"
"""What the signature is for: one that the same key made for another purpose is not accepted."""

BLOCK_BYTES = 2**22

SSH_LIMIT_S = 120
"""A key with a passphrase, or one on a token, waits for a person."""


def sha256_of(file: Place) -> str:
    """Return the hash of a file of a release, in hex."""
    digest = hashlib.sha256()
    with file.open() as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def sums(release: bytes) -> bytes:
    """Return the content of `SHA256SUMS`: all hashes that `release.json` has, and its own.

    release: the content of `release.json`.
    """
    said = json.loads(release)
    hashes = {**said["sha256"], **(said.get("documents") or {}), RELEASE: hashlib.sha256(release).hexdigest()}
    for name in (DECISIONS, REDACTIONS, REMOVED, CHANGES, MADE_FROM):
        field = f"{name.removesuffix('.parquet')}_sha256"
        if said.get(field) is not None:
            hashes[name] = said[field]
    lines = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(hashes.items()))
    return lines.encode("utf-8", "surrogateescape")  # names that are not UTF-8, as the system has them


def write_sums(out: Place, release: bytes, sign_key: str | None) -> dict[str, str]:
    """Write `SHA256SUMS` and, with a key, its signature. Return each written file -> sha256 in hex."""
    files = {SHA256SUMS: sums(release)}
    if sign_key is not None:
        files[SIGNATURE] = signed(files[SHA256SUMS], sign_key)
    for name, content in files.items():
        out.at(name).write(content)
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def signed(content: bytes, key: str) -> bytes:
    """Return the signature by an SSH key.

    key: the private key, or the public one of a key that ssh-agent holds. PrivsieveError if it cannot sign.
    """
    file = local_file(key, "--sign-key")
    done = _ssh_keygen(["-Y", "sign", "-q", "-f", file, "-n", NAMESPACE], content, "--sign-key")
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise PrivsieveError(
            f"--sign-key {key}: ssh-keygen cannot sign with it; give a private SSH key, or the public one of a key "
            "that ssh-agent holds"
        )
    return done.stdout


def signer_of(content: bytes, signature: bytes, allowed_signers: str) -> str | None:
    """Return who signed the content; None if no one on the list of allowed signers did.

    allowed_signers: a file such as OpenSSH reads: `NAME KEYTYPE KEY` on each line. PrivsieveError without such a file.
    """
    file = local_file(allowed_signers, "--signer")
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, SIGNATURE)
        written.write_bytes(signature)
        of_signature = ["-f", file, "-s", str(written)]
        names = _ssh_keygen(["-Y", "find-principals", *of_signature], b"", "--signer")
        for name in names.stdout.decode("utf-8", "replace").splitlines():
            options = ["-Y", "verify", *of_signature, "-n", NAMESPACE, "-I", name]
            if _ssh_keygen(options, content, "--signer").returncode == 0:
                return name
    return None


def is_signed_by(content: bytes, signature: bytes, key: str) -> bool:
    """Return whether the signature of the content is by an SSH key. key: as `signed` takes it.

    Each signature holds the public key: after 6 + 4 bytes, its length in 4 bytes, then its kind in the same way.
    Source: PROTOCOL.sshsig of OpenSSH.
    """
    blob = base64.b64decode(b"".join(signed(b"", key).splitlines()[1:-1]))
    public = blob[14 : 14 + int.from_bytes(blob[10:14])]
    kind = public[4 : 4 + int.from_bytes(public[:4])].decode()
    with tempfile.NamedTemporaryFile() as signers:
        signers.write(f"key {kind} {base64.b64encode(public).decode()}\n".encode())
        signers.flush()
        return signer_of(content, signature, signers.name) is not None


def local_file(path: str, option: str) -> str:
    """Return the path of a file of this machine. PrivsieveError if there is none."""
    file = place(path)
    if not file.is_local or not os.path.isfile(file.path):
        raise PrivsieveError(f"{option} {path}: there is no such file on this machine")
    return file.path


def _ssh_keygen(arguments: list[str], content: bytes, option: str) -> "subprocess.CompletedProcess[bytes]":
    """Run ssh-keygen. Its own messages stay unread: they may name other files of this machine."""
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments], input=content, capture_output=True, timeout=SSH_LIMIT_S, check=False
        )
    except FileNotFoundError:
        raise PrivsieveError(f"{option} needs ssh-keygen (OpenSSH 8.2 or later), which is not installed") from None
    except subprocess.TimeoutExpired:
        raise PrivsieveError(f"{option}: ssh-keygen did not end within {SSH_LIMIT_S} s") from None
