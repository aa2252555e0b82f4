"""Labels that say of a picture that it is not private, and also that it shows what makes it private."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from jobs.releases.decider import Decider
from jobs.releases.guaranteeing import guarantee
from scoring.labels.label_files import as_csv
from scoring.labels.table import contradictions, to_labels
from scoring.policies.policy_file import load_policy
from scoring.runs.record import read_record
from scoring.taxonomy import ATTRIBUTES
from tests.jobs.made import privsieve
from tests.jobs.releases import NO_RULES
from tests.making import Capture
from tests.reports.evaluation.conftest import BINARY, MakeRun, answered, by_hash, make_run
from tests.tuning_sets import made

__all__ = ["make_run"]  # the fixture

SEVERE = [attribute.key for attribute in ATTRIBUTES if attribute.level in (1, 2)]
MILD = next(attribute.key for attribute in ATTRIBUTES if attribute.level == 3)
NUM = 60


Answers = Mapping[str, float | None]


def table(*rows: Answers) -> pa.Table:
    names = [f"{number}.jpg" for number in range(len(rows))]
    columns: dict[str, Sequence[object]] = {"key": names, "annotator": ["me"] * len(rows)}
    columns |= {key: [row.get(key) for row in rows] for key in ("private", *SEVERE, MILD)}
    return to_labels(columns, len(rows))


def test_only_what_the_taxonomy_excludes_is_a_contradiction() -> None:
    nothing: dict[str, float | None] = dict.fromkeys(SEVERE, 0.0)
    agreeing: list[Answers] = [
        {"private": 0, MILD: 1.0},  # of level 3, which makes nothing private
        {"private": 0, "biometrics": 0.5},  # nobody is sure
        {"private": 1} | nothing | {"gov_ids": 0.5},  # what is unsure may be the reason
        {"private": 1} | nothing | {"gov_ids": None},  # what was not judged may be the reason
        {"private": None, "biometrics": 1.0},
        {"private": 1, "biometrics": 1.0},
        {"private": 0} | nothing,
        {"private": 1},
    ]
    assert contradictions(table(*agreeing)) is None
    found = contradictions(
        table(*agreeing, {"private": 0, "biometrics": 1.0}, {"private": 0, "biometrics": 1.0, "nudity": 1.0})
    )
    assert found == (
        "2 of 10 labels contradict themselves by the taxonomy: 2 with private 0 next to an attribute of level 1 or 2 "
        "that is 1 (biometrics 2, nudity 1). Each column counts as it is labelled; check how the labelers "
        "defined private"
    )
    other = contradictions(table({"private": 1} | nothing))
    assert other is not None
    assert other.startswith(
        "1 of 1 label contradicts itself by the taxonomy: 1 with private 1 although every attribute of level 1 and 2 "
        "is 0. "
    )


def test_every_command_that_takes_labels_says_once_that_they_contradict_themselves(
    make_run: MakeRun, tmp_path: Path, capsys: Capture
) -> None:
    names = [f"p{number}" for number in range(NUM)]
    private = [number % 2 for number in range(NUM)]
    labels = tmp_path / "labels.csv"
    labels.write_bytes(as_csv(by_hash(names, private=private, biometrics=[1] * 2 + [None] * (NUM - 2))))
    caution = f"1 of {NUM} labels contradicts itself by the taxonomy: 1 with private 0 next to"
    answers = [(name, answered(number % 3 > 0, 0.1 + number / 100)) for number, name in enumerate(names)]
    run = make_run(answers, BINARY)
    pictures = made.files(12)
    source = made.tree(tmp_path / "pictures", pictures)
    of_pictures = made.by_hash(
        tmp_path / "of_pictures.parquet", pictures, private=[0, 1] * 6, biometrics=[1.0] + [None] * 11
    )
    commands: list[tuple[object, ...]] = [
        ("labels", "import", "csv", labels, "--out", tmp_path / "imported.parquet"),
        ("labels", "agreement", labels, run),
        ("labels", "consensus", labels, run, "--out", tmp_path / "one.parquet"),
        ("labels", "export", labels, "--format", "csv", "--out", tmp_path / "exported.csv"),
        ("evaluate", run, "--labels", tmp_path / "imported.parquet"),
        ("calibrate", run, "--labels", labels),
    ]
    for command in commands:
        assert privsieve(*command) == 0
        said = capsys.readouterr()
        assert (said.out + said.err).count(caution) == 1, command
    made_set = ("tune", "set", source, "--labels", of_pictures, "--target", "binary", "--out", tmp_path / "set")
    assert privsieve(*made_set, "--quiet") == 0
    assert "1 of 12 labels contradicts itself" in capsys.readouterr().err
    root, record = read_record(str(run))
    policy = load_policy(f"{NO_RULES}guarantee: {{recall: 0.5, by: prob_private}}".encode(), "none")
    of_labels = guarantee(str(labels), root, record, Decider(policy, record.engine)).caution
    assert of_labels is not None
    assert of_labels.startswith(caution)
