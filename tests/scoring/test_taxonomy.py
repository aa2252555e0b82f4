"""The taxonomy in use, and the file of another one."""

from pathlib import Path

import pytest
import yaml

from ingest.errors import LabelsError
from scoring import taxonomy
from scoring.taxonomy import given_taxonomy
from tests.jobs.made import made_run, privsieve
from tests.making import Capture, Patch
from tests.records import fitted_taxonomy

LEVELS = {
    1: ("face", "passport"),
    2: ("full_name", "phone", "plate"),
    3: ("age", "place", "hobby"),
    4: ("car", "watch", "date"),
}


def mine(folder: Path, **changes: object) -> Path:
    attributes = {
        key: {"level": level, "title": key, "shows": f"a {key}", "question": f"Present: a {key}."}
        for level, names in LEVELS.items()
        for key in names
    }
    levels = {level: {"name": f"level {level}"} for level in LEVELS}
    file = folder / "mine.yaml"
    file.write_text(
        yaml.safe_dump({"version": "shop-1", "levels": levels, "attributes": attributes, **changes}, sort_keys=False)
    )
    return file


def test_bands_that_were_changed_by_hand_are_refused(tmp_path: Path, monkeypatch: Patch) -> None:
    file = fitted_taxonomy(tmp_path / "fitted.yaml")
    monkeypatch.setenv(taxonomy.TAXONOMY_VARIABLE, str(file))
    assert taxonomy._taxonomy_in_use()[0].version.startswith("shop-1-")
    file.write_text(file.read_text().replace("0.75", "0.76"))
    with pytest.raises(LabelsError, match="was changed after its bands were fitted; fit them again"):
        taxonomy._taxonomy_in_use()
    monkeypatch.setenv(taxonomy.TAXONOMY_VARIABLE, str(mine(tmp_path)))
    with pytest.raises(LabelsError, match="has no bands yet; privsieve help taxonomy says how to fit them"):
        taxonomy._taxonomy_in_use()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "cprt-9"}, "versions that begin with cprt- have the published bands"),
        ({"levels": {1: {"name": "a"}}}, "a taxonomy has the levels 1 to 4, each with an attribute"),
        ({"attributes": {"a; DROP": {"level": 1, "title": "t", "shows": "s", "question": "q"}}}, "is no name of small"),
        ({"attributes": {"prob_face": {"level": 1, "title": "t", "shows": "s", "question": "q"}}}, "begins with prob_"),
        ({"attributes": {"sha256": {"level": 1, "title": "t", "shows": "s"}}}, "is not a taxonomy: write it like"),
        ({"attributes": "text"}, "is not a taxonomy"),
        ({"levels": {level: {"name": level} for level in LEVELS}}, "is not a taxonomy"),
    ],
)
def test_a_file_that_is_no_taxonomy_is_refused_in_one_line(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(LabelsError, match=message) as refused:
        given_taxonomy(str(mine(tmp_path, **changes)))
    assert "\n" not in str(refused.value)


def test_a_run_of_another_taxonomy_is_not_read(tmp_path: Path, capsys: Capture) -> None:
    run = made_run(tmp_path, ((2,),), taxonomy="shop-1-0a1b2c3d")
    for words in (
        ["diff", run, tmp_path],
        ["report", run],
        ["explain", run, "000000013"],
        ["filter", run, "--policy", "strict", "--out", tmp_path / "release"],
        ["audit", "sample", run, "--out", tmp_path / "labels.csv"],
    ):
        assert privsieve(*words) == 2
        assert capsys.readouterr().err == (
            f"privsieve: {run} was scanned with the taxonomy shop-1-0a1b2c3d, and cprt-1 is in use; set "
            "PRIVSIEVE_TAXONOMY to the file of that taxonomy to read this run; runs of different taxonomies cannot be "
            "compared\n"
        )
