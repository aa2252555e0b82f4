"""How `--policy` finds the policies that are shipped, and a user's own."""

from pathlib import Path

import pytest

from ingest.errors import PrivsieveError
from scoring.policies.policy_file import SHIPPED, load_policy, policy_bytes


@pytest.mark.parametrize("name", SHIPPED)
def test_by_name_and_where_it_lay_in_0_1_0(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_policy(policy_bytes(name), name).rules
    assert policy_bytes(f"jobs/policies/{name}.yaml") == policy_bytes(name)
    assert policy_bytes(f"/opt/privsieve/jobs/policies/{name}.yaml") == policy_bytes(name)


def test_a_file_goes_before_the_old_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "jobs" / "policies" / "strict.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("name: my own\n")
    assert policy_bytes("jobs/policies/strict.yaml") == b"name: my own\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "strikt",
            'there is no policy strikt (did you mean "strict"?); give a YAML file, or one that is shipped: strict',
        ),
        ("policies/strict.yaml", "there is no policy policies/strict.yaml; give a YAML file"),
        (".", "--policy . cannot be read: is a directory"),
    ],
)
def test_what_is_no_policy(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PrivsieveError) as refused:
        policy_bytes(name)
    assert str(refused.value).startswith(message)
