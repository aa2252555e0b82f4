"""How `--policy` finds the policies that are shipped, and a user's own."""

from pathlib import Path

import pytest

from ingest.errors import PrivsieveError
from scoring.policies.policy_file import SHIPPED, load_policy, policy_bytes


@pytest.mark.parametrize("name", SHIPPED)
def test_by_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_policy(policy_bytes(name), name).rules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "strikt",
            'there is no policy strikt (did you mean "strict"?); give a YAML file, or one that is shipped: strict',
        ),
        ("policies/strict.yaml", "there is no policy policies/strict.yaml; give a YAML file"),
        (".", "--policy .: cannot be read: is a directory"),
    ],
)
def test_what_is_no_policy(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PrivsieveError) as refused:
        policy_bytes(name)
    assert str(refused.value).startswith(message)
