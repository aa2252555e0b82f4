"""Severity bands of a taxonomy of one's own, fitted on labels."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from ingest.errors import LabelsError
from reports.calibration import bands
from scoring import taxonomy
from scoring.taxonomy import TAXONOMY, given_taxonomy
from tests.jobs.made import privsieve

OLDER_RUN = Path(__file__).parents[2] / "older_runs/at_0_1_0/runs/tree"

LEVELS = {
    1: ("face", "passport"),
    2: ("full_name", "phone", "plate"),
    3: ("age", "place", "hobby"),
    4: ("car", "watch", "date"),
}
KEYS = [key for names in LEVELS.values() for key in names]
LEVEL_OF = np.array([level for level, names in LEVELS.items() for _ in names])


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bands, "NUM_BOOTSTRAPS", 2)


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


def planted(num: int = 400, chance: float = 0.3) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Pictures whose most severe level is each of the four as often as the others."""
    generator = np.random.default_rng(1)
    top = generator.integers(1, 5, num)
    present = (generator.random((num, len(KEYS))) < chance) & (top[:, None] <= LEVEL_OF)
    for row, level in zip(present, top, strict=True):
        row[generator.choice(np.flatnonzero(level == LEVEL_OF))] = True
    return present.astype(np.float64)


def write_labels(folder: Path, values: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Path:
    file = folder / "labels.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["key", *KEYS])
        writer.writerows([f"{number}.jpg", *row] for number, row in enumerate(values.tolist()))
    return file


def test_the_weights_of_the_published_taxonomy_follow_from_its_sizes() -> None:
    assert TAXONOMY.weights == (330, 30, 5, 1)


def test_planted_levels_get_falling_bands_and_the_file_can_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, out = write_labels(tmp_path, planted()), tmp_path / "fitted.yaml"
    assert privsieve("taxonomy", "fit", labels, "--taxonomy", mine(tmp_path), "--out", out) == 0
    shown = capsys.readouterr().out
    fitted = given_taxonomy(str(out))
    assert fitted.weights == (64, 16, 4, 1)
    assert fitted.version.startswith("shop-1-")
    assert fitted.version in shown
    (low_1, high_1), (low_2, high_2), (low_3, high_3), last = fitted.bands
    monkeypatch.setenv(taxonomy.TAXONOMY_VARIABLE, str(out))
    assert taxonomy._taxonomy_in_use()[0].version == fitted.version
    out.write_text(out.read_text().replace(str(low_1), str(low_1 - 0.01)))
    with pytest.raises(LabelsError, match="was changed after privsieve taxonomy fit; fit it again"):
        taxonomy._taxonomy_in_use()
    assert 1 == high_1 > low_1 == high_2 > low_2 == high_3 > low_3 == last[1] > last[0] == 0


def test_the_embedding_learns_from_pictures_that_were_judged_and_show_something(tmp_path: Path) -> None:
    values = planted()
    values[0], values[1, 3] = 0, np.nan
    fit = bands.fitted_bands(values, given_taxonomy(str(mine(tmp_path))), 0)
    assert fit.last_loss < fit.first_loss / 4
    assert fit.nearest >= 0.95
    assert (fit.num_empty, fit.num_unjudged) == (1, 1)
    assert sum(level.num_pictures for level in fit.levels) == len(values) - 2


def test_labels_without_a_column_of_an_attribute_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, out = write_labels(tmp_path, planted()), tmp_path / "fitted.yaml"
    labels.write_text(labels.read_text().replace(",date\n", ",private\n"))
    assert privsieve("taxonomy", "fit", labels, "--taxonomy", mine(tmp_path), "--out", out) == 2
    assert 'has no column "date"' in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("taken", ["name", "order", "shard", "left", "is_private"])
def test_an_attribute_with_the_name_of_another_column_or_a_word_of_sql_is_refused(
    taken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = mine(tmp_path), tmp_path / "fitted.yaml"
    file.write_text(file.read_text().replace("  hobby:", f"  {taken}:"))
    assert privsieve("taxonomy", "fit", tmp_path / "labels.csv", "--taxonomy", file, "--out", out) == 2
    assert f'"{taken}" is another column of a row or a word of SQL; rename the attribute' in capsys.readouterr().err


def test_too_few_combinations_are_refused_with_the_level(tmp_path: Path) -> None:
    values = planted()
    with pytest.raises(LabelsError, match="level 1: the labels have 0 combinations of attributes"):
        bands.fitted_bands(values[(values[:, :2] == 0).all(axis=1)], given_taxonomy(str(mine(tmp_path))), 0)


def test_degenerate_and_unstable_edges_are_refused() -> None:
    with pytest.raises(LabelsError, match=r"\(1\.000, 0\.667, 0\.333\) are the severities of the levels themselves"):
        bands._refuse_degenerate(np.array([1, 2 / 3, 1 / 3]) - 1e-4)
    with pytest.raises(LabelsError, match=r"do not fall from level to level \(0\.700, 0\.710, 0\.300\)"):
        bands._refuse_degenerate(np.array([0.7, 0.71, 0.3]))
    bands._refuse_degenerate(np.array([0.7, 0.5, 0.3]))
    with pytest.raises(LabelsError, match=r"the lower edge of level 2, 0\.500, is unstable: over 2 draws"):
        bands._refuse_unstable(np.array([0.7, 0.5, 0.3]), np.array([0.01, 0.06, 0.01]))
    with pytest.raises(LabelsError, match="level 1"):  # a level that a draw did not hold
        bands._refuse_unstable(np.array([0.7, 0.5, 0.3]), np.array([np.nan, 0.01, 0.01]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "cprt-9"}, "versions that begin with cprt- have the published bands"),
        ({"levels": {1: {"name": "a"}}}, "a taxonomy has the levels 1 to 4, each with an attribute"),
        ({"attributes": {"a; DROP": {"level": 1, "title": "t", "shows": "s", "question": "q"}}}, "is no name of small"),
        (
            {"attributes": {"prob_face": {"level": 1, "title": "t", "shows": "s", "question": "q"}}},
            "or begins with prob_",
        ),
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


def test_a_run_of_another_taxonomy_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(OLDER_RUN, tmp_path / "run")
    record = tmp_path / "run" / "run.json"
    record.write_text(record.read_text().replace('"cprt-1"', '"shop-1-0a1b2c3d"'))
    run = tmp_path / "run"
    for words in (
        ["diff", OLDER_RUN, run],
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
