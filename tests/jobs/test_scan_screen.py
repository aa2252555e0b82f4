"""A scan with a screen: what the engine does not see, what the guard notices, and that nothing is lost."""

import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.formats import open_source
from ingest.images.pixels import ImageLimits
from jobs.scanning.batch import BATCH_SAMPLES, BatchScorer
from reports.report.opened import open_run
from reports.report.words import findings
from reports.run.design import SourceSizes, overall
from reports.screening.words import bound_lines
from scoring.assessment import Outcome, View
from scoring.engines.canned import CannedEngine
from scoring.screen.screen_file import read_screen
from scoring.taxonomy import KEYS
from tests.jobs.made import privsieve, rows
from tests.jobs.releases import guaranteed
from tests.making import Capture, Folders, Patch
from tests.reviewing.made import Person, served
from tests.screens import planted_corpus, write_labels

TARGET = 0.05


@pytest.fixture(scope="module")
def made(tmp_path_factory: Folders) -> Path:
    """shards/ and labels.csv, other/ and turned/, whose captions mean the opposite; screen/ and other-screen/."""
    folder = tmp_path_factory.mktemp("screened")
    truth = planted_corpus(folder / "shards", 180, 260, 1, noise=0.02, without_caption=0.05, for_canned=True)
    write_labels(folder / "labels.csv", truth)
    planted_corpus(folder / "turned", 120, 120, 3, noise=0.9, for_canned=True)
    for name, seed in (("screen", 0), ("other-screen", 1)):
        given = ("--labels", folder / "labels.csv", "--target-miss", TARGET, "--modality", "caption", "--guard", 0.2)
        out = ("--seed", seed, "--out", folder / name, "--quiet")
        assert privsieve("screen", "fit", folder / "shards", *given, *out) == 0
    return folder


@pytest.mark.slow
def test_doctor_says_whether_a_screen_can_be_used_here(
    made: Path, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    def finding(screen: Path) -> str:
        privsieve("doctor", "--engine", "canned", "--screen", screen)
        return next(line for line in capsys.readouterr().out.splitlines() if line.split()[1] == "screen")

    capsys.readouterr()
    assert finding(made / "screen") == f"ok       screen    {made / 'screen'}: looks at caption"
    none = f"{tmp_path} is no screen: it has no screen.json; make one with: privsieve screen fit"
    assert finding(tmp_path) == f"problem  screen    {none}"
    monkeypatch.setattr("scoring.screen.modalities.CAPTION_VERSION", "caption-0")
    assert finding(made / "screen").startswith("problem  screen    the screen was fitted with other features of the ")


def _scan(made: Path, run: Path, *more: object, source: str = "shards") -> int:
    return privsieve("scan", made / source, "--run", run, "--engine", "canned", *more)


@pytest.fixture(scope="module")
def run(made: Path) -> Path:
    assert _scan(made, made / "run", "--screen", made / "screen", "--processes", 1) == 0
    return made / "run"


@pytest.fixture(scope="module")
def full_run(made: Path) -> Path:
    assert _scan(made, made / "full", "--processes", 1) == 0
    return made / "full"


def test_a_screen_that_cannot_be_used_here_is_refused_before_a_run_exists(
    made: Path, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setattr("scoring.screen.modalities.CAPTION_VERSION", "caption-0")
    assert _scan(made, tmp_path / "run", "--screen", made / "screen", "--executor", "inline") == 2
    assert "the screen was fitted with other features of the modality caption" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_screen_that_leaves_hardly_anything_out_says_so(made: Path) -> None:
    record = read_screen(str(made / "screen")).record
    few = record.labelled.model_copy(update={"num_screened": record.labelled.num_pictures // 100})
    assert not any(line.startswith("caution") for line in bound_lines(record))
    [caution] = [line for line in bound_lines(record.model_copy(update={"labelled": few})) if "caution" in line]
    assert "leaves hardly anything out, so a scan with it takes longer than one without" in caution


def test_every_picture_has_one_row_and_what_is_screened_out_has_no_answer(run: Path) -> None:
    found = rows(run)
    assert len(found) == len({row["sha256"] for row in found}) == 440
    stages = Counter((row["stage"], row["status"]) for row in found)
    assert set(stages) == {("full", "scored"), ("guard", "scored"), ("screen", "screened")}
    assert stages["screen", "screened"] > 100
    for row in found:
        if row["stage"] == "screen":
            assert [row[name] for name in (*KEYS, "private_answer", "level", "score", "num_assessed", "rationale")] == [
                None
            ] * 27
            assert row["prob_screen"] is not None
            assert row["reason"] is None


def test_the_engine_says_the_same_of_what_it_sees(run: Path, full_run: Path) -> None:
    of_full = {row["sha256"]: row for row in rows(full_run)}
    for row in rows(run):
        if row["stage"] != "screen":
            other = of_full[row["sha256"]]
            assert [row[key] for key in (*KEYS, "level", "score")] == [other[key] for key in (*KEYS, "level", "score")]
    assert {row["prob_screen"] for row in of_full.values()} == {None}


def test_several_processes_and_a_scan_in_pieces_give_the_same_files(made: Path, run: Path, tmp_path: Path) -> None:
    assert _scan(made, tmp_path / "run", "--screen", made / "screen", "--processes", 2) == 0
    (tmp_path / "run" / "scores" / sorted(file.name for file in (run / "scores").iterdir())[1]).unlink()
    assert _scan(made, tmp_path / "run", "--screen", made / "screen", "--processes", 1) == 0
    files = {file.name: file.read_bytes() for file in (run / "scores").iterdir()}
    assert {file.name: file.read_bytes() for file in (tmp_path / "run" / "scores").iterdir()} == files


class _CountingEngine(CannedEngine):
    """Also keeps how many pictures it was asked about at once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = list[int]()

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        self.asked.append(len(views))
        return super().assess(views)


def test_the_engine_is_asked_about_as_many_pictures_at_once_as_without_a_screen(made: Path, run: Path) -> None:
    """Asking a model about one picture takes nearly as long as asking about 16, and the screen leaves few of 16."""
    source = open_source(str(made / "shards"), None, None)
    samples = [sample for shard in source.shards for slice_ in source.slices(shard) for sample in source.read(slice_)]
    engine = _CountingEngine()
    scorer = BatchScorer(engine, ImageLimits(), 1, screen=read_screen(str(made / "screen")))
    found = scorer.rows(samples)
    assert engine.asked[:-1] == [BATCH_SAMPLES] * (len(engine.asked) - 1)
    assert 0 < engine.asked[-1] <= BATCH_SAMPLES
    stages = Counter(row["stage"] for row in rows(run))
    assert sum(engine.asked) == stages["full"] + stages["guard"]
    order = ["shard", "index"]
    assert found.select([*order, "sha256", "stage", "level"]).to_pylist() == [
        {name: row[name] for name in (*order, "sha256", "stage", "level")}
        for row in sorted(rows(run), key=lambda row: (row["shard"], row["index"]))
    ]


@pytest.mark.ray
def test_ray_gives_the_same_files(made: Path, run: Path, tmp_path: Path) -> None:
    assert _scan(made, tmp_path / "run", "--screen", made / "screen", "--executor", "ray") == 0
    files = {file.name: file.read_bytes() for file in (run / "scores").iterdir()}
    assert {file.name: file.read_bytes() for file in (tmp_path / "run" / "scores").iterdir()} == files


def test_a_scan_asks_people_about_the_guards_pictures_and_stops_by_their_answers(
    made: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = ("--screen", made / "screen", "--processes", 1)
    run = tmp_path / "run"
    assert _scan(made, run, *given, source="turned") == 0
    said = capsys.readouterr().err
    assert said.count("answers are private by the engine, which may err") == 1
    guarded = {row["sha256"] for row in rows(run) if row["stage"] == "guard" and row["level"] in (1, 2)}
    with served(run, "guard", reviewer="ana") as server:
        assert set(server.page.asking.hashes) == guarded
        ana = Person(server.address)
        assert {ana.say(number, "private").json["model"].get("key") for number in ana.next()} == {None}
        ana.say_all("private")
    (run / "scores" / min(file.name for file in (run / "scores").iterdir())).unlink()
    assert _scan(made, run, *given, source="turned") == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("privsieve: ")]
    assert f"people call {len(guarded)} of the {len(guarded)} guarded pictures that they looked at private" in line
    assert "at most 5.0 % was promised" in line


def test_run_json_says_which_screen_and_what_it_promises(made: Path, run: Path) -> None:
    said = json.loads((run / "run.json").read_text())["screen"]
    screen = json.loads((made / "screen" / "screen.json").read_text())
    assert said["miss_high"] == screen["bound"]["miss_high"] <= TARGET
    assert said["guard_share"] == 0.2


def test_without_a_guarded_picture_a_report_gives_no_rate_over_all(run: Path) -> None:
    with open_run(str(run)) as opened:
        report = opened.summary()
    total = dataclasses.replace(report.total, num_guarded=0, num_missed=0)
    figure = overall(total, report.rates, "category", report.design, SourceSizes())
    how_much, _ = findings(dataclasses.replace(report, total=total, overall=figure))
    assert "so there is no rate over all" in how_much
    assert figure.population == "judged images"


def test_explain_says_what_the_screen_said(run: Path, capsys: Capture) -> None:
    key = next(row["key"] for row in rows(run) if row["stage"] == "screen")
    assert privsieve("explain", run, key, "--policy", "strict") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "left out, so the engine has not seen it" in text
    assert "not judged" not in text


def test_a_guarantee_without_rules_drops_what_the_engine_has_not_seen(
    run: Path, made: Path, tmp_path: Path, capsys: Capture
) -> None:
    policy = guaranteed(tmp_path, recall=0.8, by="prob_screen")
    promised = ("--policy", policy, "--labels", made / "labels.csv")
    assert privsieve("filter", run, *promised, "--out", tmp_path / "release", "--dry-run") == 0
    assert "(screened)" in capsys.readouterr().out


def test_an_audit_draws_what_the_engine_saw_and_names_what_it_cannot_draw(
    run: Path, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copytree(run, tmp_path / "run")
    assert privsieve("audit", "sample", tmp_path / "run", "--n", 60, "--out", tmp_path / "list.csv") == 0
    said = capsys.readouterr().out
    assert " screened-out images cannot be drawn" in said
    screened = {row["sha256"] for row in rows(run) if row["stage"] == "screen"}
    drawn = (tmp_path / "list.csv").read_text()
    assert not [sha256 for sha256 in screened if str(sha256) in drawn]
