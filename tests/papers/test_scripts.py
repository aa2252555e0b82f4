"""The scripts of examples/papers, each on tiny data. `tuning.py` runs in tests/tuning, where torch is."""

import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from scoring.taxonomy import KEYS
from tests.engines.chat_server import ChatServer, Reply
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, rows
from tests.making import Capture, Patch
from tests.papers.made import corpus, labels, sent
from tests.screens import planted_corpus
from tests.screens import write_labels as write_csv

FOLDER = Path(__file__).parents[2] / "examples" / "papers"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"papers_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_papers_names_every_script() -> None:
    page = (FOLDER.parents[1] / "docs" / "papers.md").read_text()
    assert [file.name for file in FOLDER.glob("*.py") if file.name not in page] == []


WRONG = {
    "change": "x out blur",
    "clean_labels": "x x out",
    "counterfactual": "x out --model m",
    "dialogues": "x x out --endpoint http://127.0.0.1:1 --model m",
    "draw_sets": "x out",
    "features": "x x out",
    "fit_bands": "x x out",
    "keyword_candidates": "x x out",
    "label_lists": "biv-priv x out",
    "label_quality": "x out",
    "pairwise_agreement": "x x",
    "prevalence": "x x",
    "privbench": "x x out",
    "rank_metrics": "x x",
    "recognised": "votes x",
    "same_tags": "x x",
    "screened": "x x x out",
    "train_head": "x --out out",
    "tuning": "curve x x x x out --model m --recipe privtune",
    "vispr_levels": "x out",
    "wordings": "x x out --model m --prompt-file x",
}
"""Script -> what it is given; x becomes the name of no file."""


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.py")))
def test_what_does_not_exist_is_refused_in_one_line(name: str, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *re.sub(r"\bx\b", "nowhere", WRONG[name]).split()])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert isinstance(ended.value.code, str)
    assert len(ended.value.code.splitlines()) == 1
    assert "nowhere" in ended.value.code
    assert not (tmp_path / "out").exists()


def test_lists_of_labels_are_neither_empty_nor_written_over(tmp_path: Path) -> None:
    out = tmp_path / "labels.csv"
    with pytest.raises(SystemExit, match="has nothing of cprt-bench"):
        script("label_lists").main(["cprt-bench", str(tmp_path), str(out)])
    assert not out.exists()
    (tmp_path / "final_release").mkdir()
    (tmp_path / "final_release" / "passport.jpg").touch()
    out.write_text("mine")
    with pytest.raises(SystemExit, match=r"labels.csv already exists; name another file, or remove it"):
        script("label_lists").main(["biv-priv", str(tmp_path), str(out)])
    assert out.read_text() == "mine"


@pytest.fixture
def asked(server: ChatServer, tmp_path: Path) -> list[str]:
    """Six pictures, of which the model knows the three private ones."""
    private = [1, 1, 1, 0, 0, 0]
    server.script = {sent(number): Reply(text="Yes" if is_ else "No") for number, is_ in enumerate(private)}
    files = [corpus(tmp_path / "pictures", len(private)), labels(tmp_path / "labels.parquet", private)]
    return [*files, str(tmp_path / "out"), "--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl"]


def test_four_languages_are_compared(asked: list[str], server: ChatServer, capsys: Capture) -> None:
    server.by_words = {"Informationen": Reply(text="Nein."), "информация": Reply(text="Я вижу дерево.")}
    server.by_words["图片"] = Reply(text="抱歉，我无法回答。")
    script("wordings").main([*asked, "--languages"])
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition(" (")[0].partition(", F1")[0] for line in shown[:4]] == [
        "en: MCC 1.000",
        "de: MCC 0.000",
        "ru: MCC -1.000",
        "zh: MCC -1.000",
    ]
    assert "; 6 pictures without an answer count as wrong;" in shown[3]
    assert "mcc: mean -0.250, sd 0.957" in shown
    assert shown[-1].startswith("best and worst differ by 2.000 in MCC (95 %: ")
    num_asked = len(server.bodies)
    script("wordings").main([*asked, "--languages"])
    assert len(server.bodies) <= num_asked + 1, "finished runs are not asked again"


def test_the_wordings_of_a_file_are_asked_and_no_others(
    asked: list[str], server: ChatServer, tmp_path: Path, capsys: Capture
) -> None:
    texts = {f"ours_{number}": f"Question {number}?" for number in (1, 3)} | {"answer": ""}
    (tmp_path / "theirs.yaml").write_text(json.dumps(texts))
    server.by_words = {"Question 3?": Reply(text="No")}
    script("wordings").main([*asked, "--prompt-file", str(tmp_path / "theirs.yaml")])
    shown = capsys.readouterr().out
    assert "ours-1: MCC 1.000" in shown
    assert "ours-3: MCC 0.000" in shown
    assert "ours-2" not in shown
    assert "mcc: mean 0.500, sd 0.707" in shown


@pytest.mark.slow
def test_the_most_certain_pictures_are_asked_twice(server: ChatServer, tmp_path: Path, capsys: Capture) -> None:
    scan_in_process(Path(corpus(tmp_path / "corpus", 60)), tmp_path / "run")
    warned = "perfectly anonymised"
    form = json.dumps(dict.fromkeys(KEYS, 0) | {"biometrics": 2, "gov_ids": 2})
    server.default = Reply(text=form)
    server.by_words = {warned: Reply(text=form.replace('"biometrics": 2', '"biometrics": 0'))}
    command = [str(tmp_path / "run"), str(tmp_path / "out"), "--engine", "openai", "--endpoint", server.url]
    script("counterfactual").main([*command, "--model", "tiny-vl", "--protocol", "json", "--pictures", "4"])
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("json: score of 4 pictures ")
    assert "  biometrics: in 4 of 4 pictures, with the warning in 0; vanished 4, appeared 0" in shown
    assert "  gov_ids: in 4 of 4 pictures, with the warning in 4; vanished 0, appeared 0" in shown

    def certainty(row: dict[str, object]) -> float:
        of_level_1 = ("biometrics", "gov_ids", "unique_body_markings")
        numbers = [row[f"prob_{key}"] for key in of_level_1 if row[key] == 1]
        return max(1.0 if number is None else float(str(number)) for number in numbers)

    level_1 = [row for row in rows(tmp_path / "run") if row["level"] == 1]
    chosen = {row["sha256"] for row in rows(tmp_path / "out" / "json")}
    assert len(chosen) == 4
    certainties = {row["sha256"]: certainty(row) for row in level_1}
    others = [value for sha256, value in certainties.items() if sha256 not in chosen]
    assert min(certainties[sha256] for sha256 in chosen) >= max(others)


def test_labels_are_right_where_three_people_say_the_same(tmp_path: Path, capsys: Capture) -> None:
    file = labels(tmp_path / "labels.parquet", [number % 2 for number in range(60)])
    drawn = tmp_path / "drawn.csv"
    script("label_quality").main([file, str(drawn), "--n", "10"])
    assert capsys.readouterr().out == "20 pictures drawn\n"
    keys = read_labels(str(drawn))["key"].to_pylist()
    truth = {key: int(key.removesuffix(".jpg")) % 2 for key in keys}
    private, public = ([key for key in keys if truth[key] == side] for side in (1, 0))
    assert (len(private), len(public)) == (10, 10)
    answers = []
    for number in range(5):
        said: dict[str, int | None] = dict(truth)
        said[private[0]] = 0  # all say that the label is wrong
        said[public[0]] = 1 if number < 3 else 0  # three of five say so
        said[public[1]] = 1 if number < 2 else 0  # two of five do not count
        said[public[2]] = (1, 0, 1, 0, None)[number]  # no majority
        columns: dict[str, list[object]] = {"key": [*said], "private": [*said.values()]}
        answers.append(str(tmp_path / f"{number}.parquet"))
        table = to_labels(columns | {"annotator": [f"person {number}"] * len(said)}, len(said))
        write_labels(table, answers[-1], LabelsOrigin("test"))
    script("label_quality").main([file, str(drawn), *answers])
    assert capsys.readouterr().out.splitlines()[:2] == [
        "people confirm the label of 17 of 19 pictures (95 %: 66.9% to 98.7%)",
        "wrong: 1 labelled private, 1 labelled public",
    ]
    with pytest.raises(SystemExit, match="60 pictures could be drawn, not 31 of each side"):
        script("label_quality").main([file, str(tmp_path / "more.csv"), "--n", "31"])
    assert not (tmp_path / "more.csv").exists()


def test_a_model_that_finds_more_than_people_is_named_with_its_points(tmp_path: Path, capsys: Capture) -> None:
    heads = "key,annotator,biometrics,gov_ids,unique_body_markings"
    people, model = tmp_path / "people.csv", tmp_path / "model.csv"
    people.write_text(f"{heads}\na,p,1,0,0\nb,p,1,0,0\na,q,1,1,0\n")
    model.write_text(f"{heads}\na,m,1,1,0\nb,m,0.5,1,1\n")
    script("prevalence").main([str(people), str(model)])
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "m, biometrics: 2 pictures, 50.0%, people 100.0%, -50.0 points (-100.0 to +100.0)",
        "m, gov_ids: 2 pictures, 100.0%, people 0.0%, +100.0 points (-100.0 to +100.0)",
    ]
    assert said[-1].startswith("m, mean of level 1: 2 pictures, 66.7%, people 33.3%, +33.3 points")


def test_a_screen_is_judged_by_labels_of_other_pictures(tmp_path: Path, capsys: Capture) -> None:
    truth = planted_corpus(tmp_path / "shards", 130, 170, 1, noise=0.02)
    of_screen = write_csv(tmp_path / "labels.csv", truth)
    given = ("--labels", of_screen, "--target-miss", "0.1", "--modality", "caption", "--quiet")
    assert privsieve("screen", "fit", tmp_path / "shards", *given, "--out", tmp_path / "screen") == 0
    others = write_csv(
        tmp_path / "others.csv", planted_corpus(tmp_path / "others", 40, 60, 2, noise=0.02, with_class=True)
    )
    assert privsieve("labels", "import", "csv", others, "--out", tmp_path / "others.parquet") == 0
    capsys.readouterr()
    files = [tmp_path / name for name in ("screen", "others", "others.parquet", "run")]
    script("screened").main([*map(str, files), "--category", "cls"])
    everything, even, odd, missed = capsys.readouterr().out.splitlines()
    assert everything.startswith("all: 100 pictures, accuracy 0.9")
    assert [even[:18], odd[:17]] == ["even: 50 pictures,", "odd: 50 pictures,"]
    assert missed.startswith("left out: ")
    assert " of 40 private pictures (95 % interval " in missed
