"""The card and the shards of a release: other tools read them, and the card claims only what was measured."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ingest.storage.place import place
from jobs.releases.croissant import write_croissant
from jobs.releases.record import ReleaseRecord
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import FIRST_DROPPED, with_policy
from tests.making import Patch


def test_croissant_json_says_what_was_looked_for_and_not_that_it_is_there(tars: Path, tmp_path: Path) -> None:
    facts = json.loads((tars / "release.json").read_text())
    facts["engine"]["assessed"] = ["gov_ids", "nudity"]
    write_croissant(place(str(tmp_path)), ReleaseRecord.model_validate(facts))
    first, second = json.loads((tmp_path / "croissant.json").read_text())["rai:personalSensitiveInformation"]
    assert first == "looked for, and left in or taken out as the policy says: gov_ids, nudity"
    assert second.startswith("not looked for, so it may be there: biometrics, unique_body_markings, ")


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: Patch) -> None:
    """mlcroissant unpacks tars into a folder that follows from their names alone."""
    from mlcroissant._src.operation_graph.operations import extract

    monkeypatch.setattr(extract, "EXTRACT_PATH", type(extract.EXTRACT_PATH)(tmp_path / "unpacked"))


@pytest.mark.slow
@pytest.mark.usefixtures("unpacked")
@pytest.mark.filterwarnings("ignore")  # of the packages that mlcroissant brings
def test_mlcroissant_finds_no_error_in_croissant_json(release: Path) -> None:
    import mlcroissant

    dataset = mlcroissant.Dataset(jsonld=str(release / "croissant.json"))
    assert not dataset.metadata.ctx.issues.errors
    if "parquet" not in release.name:
        assert len(list(dataset.records("images"))) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("unpacked")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["tree", "tars"])
def test_mlcroissant_reads_pictures_of_every_name_at_the_top_and_below(tmp_path: Path, layout: str) -> None:
    import mlcroissant

    names = ["a.jpg", "B.JPG", "c/d.webp", "c/e/f.avif", "g.Png", "h.gif", *(["i"] if layout == "tree" else [])]
    (tmp_path / "in").mkdir()
    pictures = {name: io.BytesIO() for name in names}
    for number, (name, file) in enumerate(pictures.items()):
        kind = Path(name).suffix[1:].lower().replace("jpg", "jpeg") or "png"
        Image.new("RGB", (32, 24), (number * 30, 9, 9)).save(file, kind)
    if layout == "tars":
        tar(tmp_path / "in" / "0.tar", {name: file.getvalue() for name, file in pictures.items()})
    else:
        for name, picture in pictures.items():
            (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in" / name).write_bytes(picture.getvalue())
    scan_in_process(tmp_path / "in", tmp_path / "run")
    policy = with_policy(tmp_path, "name: all\nrules: []\ndefault: keep\nquarantined: drop\n")
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", tmp_path / "out") == 0
    records = list(mlcroissant.Dataset(jsonld=str(tmp_path / "out" / "croissant.json")).records("images"))
    assert len(records) == len(names)
    assert {record["images/content"].size for record in records} == {(32, 24)}


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
