"""The card and the shards of a release: other tools read them, and the card claims only what was measured."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.releases.card import card as card_of
from jobs.releases.record import ReleaseRecord
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import FIRST_DROPPED, with_policy


def card(release: Path) -> tuple[dict[str, object], str]:
    """The YAML at the head of the dataset card, and the text."""
    _, head, text = (release / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head), text


def test_the_card_names_the_files_that_hold_the_pictures_and_no_others(release: Path) -> None:
    head, text = card(release)
    assert head["size_categories"] == ["n<1K"]
    shards = sorted(json.loads((release / "release.json").read_text())["sha256"])
    paths = sorted({f"**/*{Path(name).suffix}" for name in shards}) if "tree" in release.name else shards
    assert head["configs"] == [{"config_name": "default", "data_files": [{"split": "train", "path": paths}]}]
    assert "\n4 of 6 images that were scanned (" in text


def test_the_card_speaks_of_covered_pictures_only_if_there_are_some(release: Path) -> None:
    facts = json.loads((release / "release.json").read_text())
    facts["second_look"] = "detectors-5"
    for num, is_said in ((1, True), (0, False)):
        facts["actions"]["redact"] = num
        text = card_of(ReleaseRecord.model_validate(facts))
        assert (b"Covered pictures were examined again" in text) == is_said


def test_webdataset_reads_the_shards_of_a_release(releases: dict[str, Path]) -> None:
    import webdataset

    shards = webdataset.WebDataset(str(releases["tars-as-is"] / "0.tar"), shardshuffle=False)
    assert [sample["__key__"] for sample in shards] == ["b", "c", "d", "f"]


@pytest.fixture
def alike(tmp_path: Path) -> Path:
    """A release of a tar whose samples all have files of the same kinds, as `datasets` needs them."""
    (tmp_path / "tars").mkdir()
    members = {f"{key}.{ending}": content for key in "abc" for ending, content in (("jpg", jpeg(9)), ("txt", b"c"))}
    tar(tmp_path / "tars" / "0.tar", members)
    scan_in_process(tmp_path / "tars", tmp_path / "run")
    policy = with_policy(tmp_path, FIRST_DROPPED)
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", tmp_path / "release", "--quiet") == 0
    return tmp_path / "release"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages that datasets brings
def test_datasets_loads_the_pictures_of_a_release_and_not_its_decisions(
    releases: dict[str, Path], alike: Path, tmp_path: Path
) -> None:
    import datasets

    def loaded(release: Path) -> Any:
        return datasets.load_dataset(str(release), split="train", cache_dir=str(tmp_path / "cache"))

    rows = loaded(alike)
    assert (rows["__key__"][:], rows[0]["jpg"].format) == (["b", "c"], "JPEG")
    for layout in ("tree", "parquet"):
        rows = loaded(releases[f"{layout}-as-is"])
        assert all(row["image"].width >= 40 for row in rows.cast_column("image", datasets.Image()))
        encoded = rows.cast_column("image", datasets.Image(decode=False))["image"]
        assert sorted(Path(image["path"]).name[0] for image in encoded) == ["b", "c", "d", "f"]
