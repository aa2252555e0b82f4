"""`SHA256SUMS` and its signature: other tools check a release, and everybody notices when it is another one."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from jobs.releases.files import record_of, sums
from tests.jobs.made import privsieve
from tests.jobs.releases import FIRST_DROPPED, asked, files, with_policy
from tests.making import Capture, Folders


@pytest.fixture(scope="module")
def key(tmp_path_factory: Folders) -> Path:
    """A private SSH key; beside it the list of who may sign."""
    path = tmp_path_factory.mktemp("keys") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    kind, public = path.with_suffix(".pub").read_text().split()[:2]
    (path.parent / "signers").write_text(f"ada@example.org {kind} {public}\n")
    return path


def sha256sum(release: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=release, capture_output=True, text=True)


def test_sha256sum_checks_every_file_that_may_be_published(release: Path) -> None:
    names = {name for name in files(release) if not name.startswith("not-for-publication/")} - {"SHA256SUMS"}
    done = sha256sum(release)
    assert done.returncode == 0
    assert {line.removesuffix(": OK") for line in done.stdout.splitlines()} == names


def test_a_changed_checksum_is_a_fault_and_so_is_none(tars: Path, capsys: Capture) -> None:
    (tars / "SHA256SUMS").write_text("")
    assert privsieve("release", "verify", tars) == 1
    assert "SHA256SUMS: its hashes are not those of the files" in capsys.readouterr().out
    text = (tars / "release.json").read_text()
    (tars / "SHA256SUMS").write_bytes(sums(record_of(text.encode(), "it"), text.encode()))
    (tars / "release.json").write_text(text.replace('"made_up": ', '"made_up":  '))
    assert privsieve("release", "verify", tars) == 1
    assert "release.json: it is not the one whose hash is in SHA256SUMS" in capsys.readouterr().out
    (tars / "SHA256SUMS").unlink()
    assert privsieve("release", "verify", tars) == 1
    assert "SHA256SUMS: it is not there" in capsys.readouterr().out


@pytest.fixture
def signed(releases: dict[str, Path], key: Path, tmp_path: Path) -> Path:
    run, out = releases["tars-as-is"].parent / "run-tars", tmp_path / "signed"
    options = ("--policy", with_policy(tmp_path, FIRST_DROPPED), "--out", out, "--sign-key", key, "--quiet")
    assert privsieve("filter", run, *options) == 0
    return out


def test_a_takedown_signs_only_what_the_key_has_signed(signed: Path, key: Path, capsys: Capture) -> None:
    """Each file is changed; also with all hashes made right, with another's signature, or with none."""
    before, others = files(signed), signed.parent / "others"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", others], check=True)

    def refused(name: str, content: bytes, message: str, with_key: Path = key) -> None:
        (signed / name).write_bytes(content)
        changed = files(signed)
        capsys.readouterr()
        assert privsieve("release", "takedown", signed, asked(signed, "c"), "--sign-key", with_key, "--quiet") == code
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
        assert files(signed) == changed
        (signed / name).write_bytes(before[name])

    for name in before.keys() - {
        "release.json",
        "not-for-publication/decisions.parquet",
        "not-for-publication/source.json",
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }:
        code = 1
        refused(name, before[name] + b" ", f"--sign-key: {name} is not what was signed, so nothing was taken down")
    code, not_signed = 2, f"--sign-key: {signed} is not as this key has signed it, so nothing was taken down"
    hashes = before["release.json"].replace(hashlib.sha256(before["0.tar"]).hexdigest().encode(), b"0" * 64)
    refused("release.json", hashes, "release.json is not the one of SHA256SUMS; privsieve release verify")
    refused("SHA256SUMS.sig", b"", not_signed)
    refused("SHA256SUMS.sig", before["SHA256SUMS.sig"], not_signed, with_key=others)
    (signed / "SHA256SUMS.sig").unlink()
    assert privsieve("release", "takedown", signed, asked(signed, "c"), "--sign-key", key) == 2
    assert not_signed in capsys.readouterr().err
    command: list[str | Path] = ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "privsieve-release"]
    subprocess.run([*command, signed / "SHA256SUMS"], check=True)
    assert privsieve("release", "takedown", signed, asked(signed, "c"), "--sign-key", key) == 0
    assert privsieve("release", "verify", signed, "--signer", key.parent / "signers") == 0
