"""The signature of a release, by `ssh-keygen -Y`. Source: the manual of OpenSSH (ssh-keygen, ALLOWED SIGNERS)."""

import base64
import os
import subprocess
import tempfile
from pathlib import Path

from ingest.errors import PrivsieveError
from ingest.formats.released import SIGNATURE
from ingest.storage.place import place

NAMESPACE = "privsieve-release"
"""What the signature is for: one that the same key made for another purpose is not accepted."""

SSH_LIMIT_S = 120
"""A key with a passphrase, or one on a token, waits for a person."""


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
