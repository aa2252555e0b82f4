"""The scripts of examples/papers that make sets of labelled pictures, on tiny data."""

import csv
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ingest.storage.place import place
from scoring.labels.reviews import ReviewAnswers
from scoring.labels.table import read_labels
from scoring.privacy import PRIVATE_CLASSES
from scoring.taxonomy import KEYS, given_taxonomy
from tests.engines.chat_server import ChatServer, Reply
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, tar
from tests.labels import made
from tests.making import Capture, Patch
from tests.papers.test_scripts import script
from tests.scoring.test_screen import averaging_model
from tests.scoring.test_taxonomy import LEVELS, mine
from tests.tuning_sets import made as pictures_made

PAPERS = Path(__file__).parents[2] / "examples" / "papers"


def run(name: str | ModuleType, *arguments: object, monkeypatch: Patch) -> None:
    module = script(name) if isinstance(name, str) else name
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
    module.main()


def refusal(name: str | ModuleType, *arguments: object, monkeypatch: Patch) -> str:
    """The one line with which a script ends."""
    with pytest.raises(SystemExit) as ended:
        run(name, *arguments, monkeypatch=monkeypatch)
    assert "\n" not in str(ended.value)
    return str(ended.value)


def write(path: Path, **columns: list[Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_words_in_captions_make_candidates_of_the_first_class(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    captions = ["My Visa and a selfie", "a selfie", "selfies", "Toy  cars on a table", "a car", None, "SELFIE again"]
    urls = [f"https://images.invalid/{n}.jpg" for n in range(7)]
    metadata = write(tmp_path / "meta.parquet", url=[*urls, urls[1]], caption=[*captions, "a selfie"])
    words = PAPERS / "privbench-keywords.yaml"
    run("keyword_candidates", metadata, words, tmp_path / "list.parquet", monkeypatch=monkeypatch)
    classes = {row["url"]: row["class"] for row in pq.read_table(tmp_path / "list.parquet").to_pylist()}
    # A visa is of passport, but face comes before.
    assert classes == {**dict.fromkeys([urls[0], urls[1], urls[6]], "face"), urls[3]: "hard-public", urls[4]: "plate"}
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["face", "selfie", "4", "captions"] in shown
    drawn = (metadata, words, tmp_path / "drawn.parquet", "--per-class", 1)
    run("keyword_candidates", *drawn, monkeypatch=monkeypatch)
    assert Counter(pq.read_table(tmp_path / "drawn.parquet")["class"].to_pylist()) == dict.fromkeys(
        ["face", "hard-public", "plate"], 1
    )
    assert "already exists" in refusal("keyword_candidates", *drawn, monkeypatch=monkeypatch)
    wrong = (metadata, words, tmp_path / "other.parquet", "--caption", "text")
    assert "--url and --caption name its columns" in refusal("keyword_candidates", *wrong, monkeypatch=monkeypatch)
    alert = (tmp_path / "alert.csv", PAPERS / "privacyalert-keywords.yaml", tmp_path / "alert.parquet")
    alert[0].write_text("url,caption\nhttps://a.invalid/0,Messy  hair today\nhttps://a.invalid/1,our LIVING room\n")
    run("keyword_candidates", *alert, monkeypatch=monkeypatch)
    assert pq.read_table(alert[2])["class"].to_pylist() == ["home", "appearance"]


def test_sets_have_the_same_ratio_in_every_split(tmp_path: Path, monkeypatch: Patch) -> None:
    private = [int(number % 5 == 0) for number in range(400)]
    labels = write(
        tmp_path / "all.parquet", key=[f"{n}.jpg" for n in range(400)], annotator=["x"] * 400, private=private
    )
    run("draw_sets", labels, tmp_path / "sets.parquet", "--public", 3, "--split", monkeypatch=monkeypatch)
    rows = read_labels(str(tmp_path / "sets.parquet")).to_pylist()
    counts = Counter((row["split"], row["private"]) for row in rows)
    assert sum(row["private"] for row in rows) == 80
    for split in ("train", "validation", "test"):
        assert counts[split, 0] == 3 * counts[split, 1] > 0
    assert counts["train", 1] > max(counts["validation", 1], counts["test", 1])
    draws = set()
    for seed in range(3):
        out = tmp_path / f"{seed}.parquet"
        run("draw_sets", labels, out, "--seed", seed, monkeypatch=monkeypatch)
        drawn = read_labels(str(out))
        assert Counter(drawn["private"].to_pylist()) == {1: 80, 0: 80}
        draws.add(tuple(drawn["key"].to_pylist()))
    assert len(draws) == 3
    many = refusal("draw_sets", labels, tmp_path / "no.parquet", "--public", 5, monkeypatch=monkeypatch)
    assert many.endswith(
        "80 private and 320 public pictures; the draw takes all private ones and 5 public ones for each"
    )


def test_pictures_of_vispr_are_drawn_by_level_those_without_a_face_first(tmp_path: Path, monkeypatch: Patch) -> None:
    given = {
        "face": ["a9_face_complete"],
        "card": ["a30_credit_card"],
        "card_and_part_of_a_face": ["a30_credit_card", "a10_face_partial"],
        "safe_1": ["a0_safe"],
        "safe_2": ["a0_safe"],
        "age_only": ["a1_age_approx"],
        "not_judged": [],
    }
    root = made.vispr_flat(tmp_path / "vispr", given)
    made.vispr_flat(root, {f"tuning_{n}": ["a9_face_complete"] for n in range(8)}, "val2017", first_shade=20)
    made.vispr_flat(root, {"for_training": ["a9_face_complete"]}, "train2017", first_shade=40)
    labels = tmp_path / "vispr.parquet"
    assert privsieve("labels", "import", "vispr", root, "--out", labels, "--quiet") == 0
    run("vispr_levels", labels, tmp_path / "candidates.parquet", monkeypatch=monkeypatch)
    rows = read_labels(str(tmp_path / "candidates.parquet")).to_pylist()
    assert {row["key"]: row["class"] for row in rows if row["split"] == "test"} == {
        "face.jpg": "level 1",
        "card.jpg": "level 2 without face",
        "card_and_part_of_a_face.jpg": "level 2",
        "safe_1.jpg": "level 3 or 4",
        "safe_2.jpg": "level 3 or 4",
    }
    assert {row["private"] for row in rows} == {None}  # a list, not labels
    keys = ["not a candidate.jpg", *given]
    columns: dict[str, list[Any]] = {key: [0] * 8 for key in KEYS}
    columns["biometrics"][1], columns["age"][4] = 1, 1
    columns["financial_data"][2:4] = [1, 1]
    annotated = write(
        tmp_path / "truth.parquet", key=[f"{key}.jpg" for key in keys], annotator=["consensus"] * 8, **columns
    )
    vispr_levels = script("vispr_levels")
    monkeypatch.setattr(vispr_levels, "PAPER_COUNTS", {1: 5, 2: 1, 3: 5, 4: 5})
    options = ("--levels", annotated, "--tuning", 3)
    run(vispr_levels, labels, tmp_path / "drawn.parquet", *options, monkeypatch=monkeypatch)
    drawn = read_labels(str(tmp_path / "drawn.parquet")).to_pylist()
    assert {row["key"] for row in drawn if row["split"] == "test"} == {
        *("face.jpg", "card.jpg", "safe_1.jpg", "safe_2.jpg")  # safe_2 is of level 0, which counts as 4
    }
    assert sum(row["split"] == "validation" for row in drawn) == 3


def test_a_benchmark_has_exact_numbers_and_no_picture(tmp_path: Path, monkeypatch: Patch) -> None:
    classes = [*PRIVATE_CLASSES, *["public"] * 9, *["hard-public"] * 9, "card"]
    urls = [f"https://images.invalid/{number}.png" for number in range(len(classes))]
    # The last one is a smaller copy of the first, from another URL.
    contents = [*map(pictures_made.drawn, range(len(classes) - 1)), pictures_made.drawn(0, scale=0.5)]
    members = dict[str, bytes]()
    for number, (url, content) in enumerate(zip(urls, contents, strict=True)):
        members |= {f"{number:03d}.png": content, f"{number:03d}.json": json.dumps({"url": url}).encode()}
    (tmp_path / "corpus").mkdir()
    tar(tmp_path / "corpus" / "00000.tar", members)
    scan_in_process(tmp_path / "corpus", tmp_path / "run")
    hashes = [pictures_made.sha256(content) for content in contents]
    answers = ReviewAnswers(place(str(tmp_path / "run" / "reviews")))
    for person, is_wrong in (("ana", False), ("ben", False), ("cleo", True)):
        for sha256, class_ in zip(hashes, classes, strict=True):
            yes, no = ("yes", "no") if class_ in PRIVATE_CLASSES else ("public", "private")
            says = {"sha256": sha256, "annotator": person, "answer": no if is_wrong else yes}
            answers.add(says | {"key": sha256, "queue": "sql", "is_gold": False})
    inputs = (write(tmp_path / "candidates.parquet", **{"url": urls, "class": classes}), tmp_path / "run")
    run("privbench", *inputs, tmp_path / "out", "--hard", "--per-class", 1, monkeypatch=monkeypatch)
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        *("labels.parquet", "labels-hard.parquet", "pictures.csv", "datasheet.md")
    }
    for name, public in (("labels.parquet", "public"), ("labels-hard.parquet", "hard_public")):
        rows = read_labels(str(tmp_path / "out" / name)).to_pylist()
        assert Counter(row["class"] for row in rows if not row["private"]) == {public: 8}
        assert len({row["class"] for row in rows if row["private"]}) == sum(row["private"] for row in rows) == 8
        assert sorted(row["split"] for row in rows if not row["private"]) == [f"batch {n}" for n in range(1, 9)]
    with (tmp_path / "out" / "pictures.csv").open() as stream:
        assert {row["name"] for row in csv.DictReader(stream)} >= {"debit_card_1", "public_8", "hard_public_8"}
    sheet = (tmp_path / "out" / "datasheet.md").read_text()
    assert "8 private pictures of 8 classes and 8 public ones. 8 more public ones are hard" in sheet
    assert "| debit_card | 1 | 1 |" in sheet  # the copy is not a second one
    few = refusal("privbench", *inputs, tmp_path / "b", "--per-class", 2, monkeypatch=monkeypatch)
    assert few.startswith("too few accepted pictures: card 1 of 2, face 1 of 2")
    assert not (tmp_path / "b").exists()


def test_pictures_with_the_same_tags_are_compared_and_one_of_each_set_stays(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    captions = ["beach, sunset", "Sunset beach", "sunset;beach", "my passport", "passport my", *map(str, range(7))]
    contents = [pictures_made.drawn(number) for number in range(len(captions))]
    members = dict[str, bytes]()
    for number, (caption, content) in enumerate(zip(captions, contents, strict=True)):
        members |= {f"{number:02d}.png": content, f"{number:02d}.txt": caption.encode()}
    tar(tmp_path / "0.tar", members)
    (tmp_path / "encoder.onnx").write_bytes(averaging_model())
    features = tmp_path / "features.parquet"
    run("features", tmp_path / "0.tar", tmp_path / "encoder.onnx", features, monkeypatch=monkeypatch)
    seen = pq.read_table(features)
    assert seen["caption"].to_pylist() == captions
    assert {len(vector) for vector in seen["vector"].to_pylist()} == {3}
    votes = list[tuple[str, str, int]]()
    for person in ("ana", "ben", "cleo"):
        for number, sha256 in enumerate(map(pictures_made.sha256, contents)):
            votes.append((sha256, person, 0 if person == "ben" and number < 2 else int(number in (0, 1, 3, 4))))
    columns = dict(zip(("sha256", "annotator", "private"), map(list, zip(*votes, strict=True)), strict=True))
    labels = write(tmp_path / "votes.parquet", **columns)
    run("same_tags", features, labels, "--out", tmp_path / "distinct.parquet", monkeypatch=monkeypatch)
    shown = capsys.readouterr().out.splitlines()
    assert "pictures with tags that another one has: 5" in shown
    assert "sets with the same tags: 2" in shown
    assert "sets labelled differently: 1" in shown
    # ana and cleo differ within the first set, ben does not; nobody differs within the second.
    assert "times that a person judged several pictures of a set: 6" in shown
    assert "times that the labels were then the same: 4" in shown
    assert read_labels(str(tmp_path / "distinct.parquet")).num_rows == 9 * 3


def test_a_set_looks_alike_if_near_pictures_have_other_labels() -> None:
    """Two groups of pictures in opposite directions; of each set one picture is labelled otherwise."""
    vectors = np.repeat(np.array([[1.0, 0.0], [-1.0, 0.1]]), 12, axis=0)
    private = np.repeat([1, 0], 12)
    private[1] = 0
    captions = [f"other {number}" for number in range(24)]
    captions[0] = captions[1] = "both in the first group"
    captions[2] = captions[13] = "one in each"
    names = [f"{number:064x}" for number in range(24)]
    features = pa.table({"sha256": names, "caption": captions, "vector": vectors.tolist()})
    figures = script("same_tags").same_tags(
        features, pa.table({"sha256": names, "annotator": ["x"] * 24, "private": private})
    )
    assert figures["sets labelled differently"] == 2
    assert figures["sets labelled differently that look alike"] == 1
    assert (figures["pictures with a label"], figures["pictures with more than 3 of 5 alike"]) == (24, 23)


def test_wrong_labels_are_listed_without_their_labels(tmp_path: Path, monkeypatch: Patch) -> None:
    generator = np.random.default_rng(0)
    truth = np.arange(300) % 3 == 0
    vectors = generator.normal(size=(300, 8)) + 2.0 * truth[:, None]
    is_wrong = generator.random(300) < 0.05
    names = [f"{number:064x}" for number in range(300)]
    labels = write(
        tmp_path / "labels.parquet",
        sha256=names,
        annotator=["x"] * 300,
        private=(truth ^ is_wrong).astype(int).tolist(),
    )
    features = write(tmp_path / "features.parquet", sha256=names, vector=vectors.tolist())
    run("clean_labels", features, labels, tmp_path / "list.parquet", monkeypatch=monkeypatch)
    listed = read_labels(str(tmp_path / "list.parquet"))
    wrong = {name for name, is_wrong_ in zip(names, is_wrong, strict=True) if is_wrong_}
    assert set(listed["private"].to_pylist()) == {None}
    hashes = listed["sha256"].to_pylist()
    assert len(hashes) > 3
    assert set(hashes) <= wrong
    asked = (features, labels, tmp_path / "more.parquet", "--percentile", 99)
    assert "more than --max-share" in refusal("clean_labels", *asked, monkeypatch=monkeypatch)
    blind = write(tmp_path / "blind.parquet", sha256=names, vector=generator.normal(size=(300, 8)).tolist())
    said = refusal("clean_labels", blind, labels, tmp_path / "more.parquet", monkeypatch=monkeypatch)
    assert said == "the vectors say too little of what is private; take another encoder"


def test_the_labels_of_biv_priv_and_cprt_bench_can_be_imported(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    root = tmp_path / "biv"
    names = ["Bank_Statement_1.jpg", "a/mortage_investment_or_retirement_report 2.png", "IMG_77.jpg"]
    private = [f"final_release/{name}" for name in names]
    for shade, name in enumerate([*private, "Public/Original_Images_Nonprivate/1.jpg"]):
        made.picture(root / name, shade)
    run("label_lists", "biv-priv", root, root / "labels.csv", monkeypatch=monkeypatch)
    mapping, out = PAPERS / "biv-priv-mapping.yaml", tmp_path / "biv.parquet"
    command = ("labels", "import", "csv", root / "labels.csv", "--mapping", mapping, "--annotator", "biv-priv")
    assert privsieve(*command, "--out", out) == 0
    assert "labels that fit no attribute: no class in the name 1" in capsys.readouterr().out
    rows = {row["key"]: row for row in read_labels(str(out)).to_pylist()}
    assert {key: (row["class"], row["private"], row["financial_data"]) for key, row in rows.items()} == {
        "Bank_Statement_1.jpg": ("Bank Statement", 1, 1),
        "mortage_investment_or_retirement_report 2.png": ("Mortage, Investment or Retirement Report", 1, 1),
        "IMG_77.jpg": (None, 1, None),
        "1.jpg": ("public", 0, None),
    }
    assert all(row["sha256"] and row["annotator"] == "biv-priv" for row in rows.values())
    levels = {"level1": {"biometrics": 1, "gov_ids": 0}, "level3": {"age": 1, "hair": 1}}
    record = {"id": "2017_1.jpg", "binary_labels": levels, "level": 1, "score": 0.75}
    (tmp_path / "cprt_test.json").write_text(json.dumps([record]))
    run("label_lists", "cprt-bench", tmp_path, tmp_path / "cprt.csv", monkeypatch=monkeypatch)
    by = ("--annotator", "cprt-bench", "--out", tmp_path / "cprt.parquet")
    assert privsieve("labels", "import", "csv", tmp_path / "cprt.csv", *by) == 0
    assert "labels that fit no attribute: hair 1" in capsys.readouterr().out
    (row,) = read_labels(str(tmp_path / "cprt.parquet")).to_pylist()
    assert (row["key"], row["split"], row["score"], row["licence"]) == ("2017_1.jpg", "test", 0.75, "MIT")
    assert {key: row[key] for key in KEYS if row[key] is not None} == {"biometrics": 1, "gov_ids": 0, "age": 1}
    (tmp_path / "cprt_test.json").write_text("[1]")
    assert "TypeError" in refusal("label_lists", "cprt-bench", tmp_path, tmp_path / "no.csv", monkeypatch=monkeypatch)
    assert not (tmp_path / "no.csv").exists()


CATEGORIES = ["nudity", "nudity", "religion", "", "x"]


def test_people_agree_less_where_their_votes_are_further_apart(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    lines = ["key,class,annotator,vote"]
    words = {"P": "clearly private", "p": "private", "u": "public", "U": "clearly public", "-": ""}
    for person, votes in (("ann", "PpUP-"), ("bob", "PpUUp"), ("cy", "ppu--")):
        for key, (category, vote) in enumerate(zip(CATEGORIES, votes, strict=True)):
            lines.append(f"{key},{category},{person},{words[vote]}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    people, majority = tmp_path / "people.parquet", tmp_path / "majority.parquet"
    assert privsieve("labels", "import", "csv", tmp_path / "people.csv", "--out", people) == 0
    assert privsieve("labels", "consensus", people, "--method", "majority", "--out", majority) == 0
    capsys.readouterr()
    run("pairwise_agreement", people, majority, monkeypatch=monkeypatch)
    # One against two votes a step apart: pairs 1, .75, .75. The fourth picture ties, so it has no class.
    assert capsys.readouterr().out.splitlines() == [
        "all, all: 0.667 of 4 pictures, moderate",
        "all, clearly private: 0.833 of 1 pictures, high",
        "all, clearly public: 0.833 of 1 pictures, high",
        "all, private: 1.000 of 1 pictures, high",
        "nudity, all: 0.917 of 2 pictures, high",
        "nudity, clearly private: 0.833 of 1 pictures, high",
        "nudity, private: 1.000 of 1 pictures, high",
        "religion, all: 0.833 of 1 pictures, high",
        "religion, clearly public: 0.833 of 1 pictures, high",
    ]


def test_planted_levels_get_falling_bands_and_the_file_can_be_used(tmp_path: Path, monkeypatch: Patch) -> None:
    fit_bands = script("fit_bands")
    monkeypatch.setattr(fit_bands, "NUM_BOOTSTRAPS", 2)
    level_of = np.array([level for level, names in LEVELS.items() for _ in names])
    keys = [key for names in LEVELS.values() for key in names]
    generator = np.random.default_rng(1)
    top = generator.integers(1, 5, 400)
    present = (generator.random((400, len(keys))) < 0.3) & (top[:, None] <= level_of)
    for row, level in zip(present, top, strict=True):
        row[generator.choice(np.flatnonzero(level == level_of))] = True
    labels = write(
        tmp_path / "labels.parquet", **{key: present[:, n].astype(float).tolist() for n, key in enumerate(keys)}
    )
    given, out = mine(tmp_path), tmp_path / "fitted.yaml"
    run(fit_bands, labels, given, out, monkeypatch=monkeypatch)
    fitted = given_taxonomy(str(out))
    (low_1, high_1), (low_2, high_2), (low_3, high_3), last = fitted.bands
    assert 1 == high_1 > low_1 == high_2 > low_2 == high_3 > low_3 == last[1] > last[0] == 0
    assert (fitted.weights, yaml.safe_load(out.read_text())["version"]) == ((64, 16, 4, 1), fitted.version)
    monkeypatch.setenv("PRIVSIEVE_TAXONOMY", str(out))
    from scoring import taxonomy

    assert taxonomy._taxonomy_in_use()[0].version == fitted.version
    given.write_text(given.read_text().replace("  hobby:", "  order:"))
    other = refusal(fit_bands, labels, given, tmp_path / "other.yaml", monkeypatch=monkeypatch)
    assert other.endswith('"order" is another column of a row or a word of SQL; rename the attribute')
    with pytest.raises(ValueError, match="level 1 has 0 combinations"):
        fit_bands.fitted_edges(present[~present[:, :2].any(axis=1)].astype(float), fitted, 0)
    for edges, deviations, message in (
        ([1 - 1e-4, 2 / 3 - 1e-4, 1 / 3 - 1e-4], [0, 0, 0], "are the severities of the levels themselves"),
        ([0.7, 0.71, 0.3], [0, 0, 0], "do not fall from level to level"),
        ([0.7, 0.5, 0.3], [0.01, 0.06, 0.01], "the lower edge of level 2 moves from draw to draw"),
    ):
        with pytest.raises(ValueError, match=message):
            fit_bands.refuse_unsound(np.array(edges), np.array(deviations))


def written(*answers: str) -> str:
    return json.dumps({"turns": [{"question": "What is it?", "answer": answer} for answer in answers]})


PRIVATE = written("A document on a desk.", "It holds private information of the kind of an identity document.")


def test_conversations_are_written_only_after_yes_and_become_a_training_set(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    pictures = pictures_made.files(6)
    labels = pictures_made.by_hash(
        tmp_path / "labels.parquet", pictures, private=[1, 0] * 3, **{"class": ["passport", None] * 3}
    )
    source, out = pictures_made.tree(tmp_path / "pictures", pictures), tmp_path / "dialogues.jsonl"
    server = ChatServer()
    try:
        server.by_words = {
            "labelled this picture as private": Reply(text=f"```json\n{PRIVATE}\n```"),
            "labelled this picture as public": Reply(text="I will not."),
        }
        asked = (source, labels, out, "--endpoint", server.url, "--model", "tiny-vl")
        assert refusal("dialogues", *asked, monkeypatch=monkeypatch) == "nothing was sent; --yes sends the pictures"
        assert "6 of 6 pictures go to tiny-vl at" in capsys.readouterr().out
        assert not server.bodies
        run("dialogues", *asked, "--yes", monkeypatch=monkeypatch)
        assert "3 conversations in" in capsys.readouterr().out
        server.by_words["labelled this picture as public"] = Reply(text=written("A bridge. Nothing in it is private."))
        run("dialogues", *asked, "--yes", monkeypatch=monkeypatch)
        shown = capsys.readouterr().out
        assert "6 conversations in" in shown
        # Private: two turns, 6 words of the user, 16 of the assistant; public: one turn, 3 and 7.
        assert "turns: 1.5 ± 0.5 a conversation\nwords of the user: 4.5 ± 1.6 a" in shown
        assert len(server.bodies) == 6 + 3  # those that were left out are asked about again
    finally:
        server.close()
    assert sum('private, class \\"passport' in json.dumps(body["messages"]) for body in server.bodies) == 3
    made_set = ("tune", "set", source, "--labels", labels, "--target", "dialogue", "--dialogues", out)
    assert privsieve(*made_set, "--out", tmp_path / "set", "--validation", 0, "--quiet") == 0
    assert "6 usable" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I will not do that.", "NO_FORM"),
        ('{"turns": []}', "NO_FORM"),
        ('{"turns": [{"question": "Why?", "answer": 3}]}', "NO_FORM"),
        (written("Private. <image>"), "NO_FORM"),
        (written("Private. \ud800"), "NO_FORM"),
        (written("A nice bridge."), "NO_PRIVACY"),
        (written('Private: it says "Elm".'), "FOUND_TEXT"),
        (written("Private: the number is 4711."), "FOUND_TEXT"),
        (written("Private: mail ana@example.org."), "FOUND_TEXT"),
    ],
)
def test_a_conversation_that_is_not_fit_is_left_out_with_its_reason(text: str, reason: str) -> None:
    dialogues = script("dialogues")
    assert dialogues.turns_of(text) == getattr(dialogues, reason)


@pytest.mark.parametrize(
    "sentence",
    [
        "The screen shows the password hunter2.",
        "A letter addressed to Anna.",
        "The sign says GRAND HOTEL BERLIN.",
        "The envelope is from Dr Müller",
        "Name tag: Иван Петров",
        "日本太郎さんの名札",
        "The text ‹otto› is readable",
        "The note says 'we're leaving'",
        "Call 555 0104.",
        "Anna can be recognised.",
        "Yes. Rosenthal is written on the door.",
        "The name tag says: Otto",
        "Will's face is visible.",
    ],
)
def test_a_sentence_that_may_repeat_what_a_picture_shows_is_recognised(sentence: str) -> None:
    may_repeat_text = script("dialogues").may_repeat_text
    assert may_repeat_text(sentence)
    assert not may_repeat_text(
        "A person's face and an ID card can be recognised. I see two persons' hands: both bare. Don't share it; "
        "there's a passport. Faces are private. TV screens: Documents would be."
    )
