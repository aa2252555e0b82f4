"""How `--policy` finds the policies that are shipped, and a user's own."""

from pathlib import Path

import pytest

from ingest.errors import PrivsieveError
from scoring.policies.policy_file import SHIPPED, load_policy, policy_bytes
from tests.making import Patch


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_policy_is_known_by_its_name_and_can_be_the_base_of_another(name: str) -> None:
    shipped = load_policy(policy_bytes(name), name)
    assert shipped.rules
    text = f"base: {name}\nname: mine\ngroups: phash\nquarantined: keep\n"
    mine = load_policy(text.encode(), "mine.yaml")
    assert (mine.name, mine.groups, mine.quarantined) == ("mine", "phash", "keep")
    assert (mine.rules, mine.members, mine.files) == (shipped.rules, shipped.members, shipped.files)


@pytest.mark.parametrize(
    ("text", "message"),
    [("base: strikt\nname: n", 'base: "strikt" is no shipped policy'), ("base: strict", "name is missing")],
)
def test_a_base_that_cannot_be_is_one_line(text: str, message: str) -> None:
    with pytest.raises(PrivsieveError, match=message):
        load_policy(text.encode(), "mine.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("strikt", 'there is no policy strikt (did you mean "strict"?); give a YAML file, or one'),
        ("policies/strict.yaml", "there is no policy policies/strict.yaml; give a YAML file"),
        (".", "--policy . cannot be read: is a directory"),
    ],
)
def test_what_is_no_policy(name: str, message: str, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PrivsieveError) as refused:
        policy_bytes(name)
    assert str(refused.value).startswith(message)
