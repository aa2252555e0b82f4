"""Every command says of the same pictures that they are private, public or unknown, for every protocol."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest

from ingest.errors import Fault, LabelsError
from ingest.storage.place import place
from jobs.labelling.labels import labels_of
from jobs.releases.decider import Decider, decisions_of_run
from jobs.releases.guaranteeing import guarantee
from jobs.reporting.evaluating import EvaluateRequest, run_evaluate
from jobs.serving.review.reviewing import ReviewRequest, prepared
from privsieve import open_run
from reports.report.explaining import explanation, row_named
from scoring.assessment import Assessment, EngineOptions, not_assessed
from scoring.engines import canned
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.policies.policy_file import load_policy
from scoring.protocols import PROTOCOLS
from scoring.runs.audit_files import read_sample
from scoring.runs.record import read_record
from scoring.table import Facts, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.jobs.made import privsieve, tar
from tests.jobs.releases import NO_RULES
from tests.making import Capture, Request
from tests.records import run_record, write_result

State = bool | None
"""Private, public, unknown."""

States = Mapping[str, State]
PRESENCE_ONLY = "beliefs"


def shows(**values: float | None) -> Assessment:
    """Every attribute absent, but for those named; None: not judged. What is only ever confirmed is null."""
    of_all = np.zeros(len(KEYS), dtype=np.float32)
    for key, value in {PRESENCE_ONLY: None, **values}.items():
        of_all[KEYS.index(key)] = np.nan if value is None else value
    given = np.stack([0.9 - 0.8 * of_all, np.full(len(KEYS), 0.05), 0.05 + 0.8 * of_all], axis=1).astype(np.float32)
    return Assessment(of_all, probabilities=given)


def says(**answer: object) -> Assessment:
    return Assessment(not_assessed(), **answer)  # type: ignore[arg-type]


ATTRIBUTES: dict[str, tuple[Verdict, State]] = {
    "face": (shows(biometrics=1), True),
    "name": (shows(full_legal_name=1, age=None), True),
    "name-and-unreadable-page": (shows(full_legal_name=1, medical_data=None), True),
    "prayer": (shows(beliefs=1), True),
    "age": (shows(age=1), False),
    "nothing": (shows(), False),
    "half-a-face": (shows(biometrics=0.5), False),
    "unreadable-page": (shows(documents=1, medical_data=None), None),
    "age-not-judged": (shows(age=None), False),
    "no-attribute-judged": (says(), None),
}
ANSWERS: dict[str, tuple[Verdict, State]] = {
    "yes": (says(private=True, prob_private=0.9), True),
    "no": (says(private=False, prob_private=0.2), False),
    "no-in-spite-of-its-probability": (says(private=False, prob_private=0.7), False),
    "without-an-answer": (says(), None),
}
SCORES: dict[str, tuple[Verdict, State]] = {
    "high": (says(holistic_score=0.9), True),
    "edge": (says(holistic_score=0.514), True),
    "below-the-edge": (says(holistic_score=0.51), False),
    "none": (says(holistic_score=0.0), False),
    "without-a-score": (says(), None),
}
LEVEL_4_ONLY: dict[str, tuple[Verdict, State]] = {
    "watermark": (Assessment(np.array([1.0 if key == "metadata" else np.nan for key in KEYS], np.float32)), None),
    "clean": (Assessment(np.array([0.0 if key == "metadata" else np.nan for key in KEYS], np.float32)), None),
}


@dataclass(frozen=True)
class Made:
    """A run whose categories are single pictures, so that every figure of a category is of one picture."""

    run: str
    states: States


CASES = {name: {"binary": ANSWERS, "severity": SCORES}.get(name, ATTRIBUTES) for name in PROTOCOLS} | {
    "severity:intuition": SCORES,
    "binary:ours-1,reason": ANSWERS,
    "a protocol without a name here": ATTRIBUTES,
    "levels 3 and 4 only": LEVEL_4_ONLY,
}


@pytest.fixture(params=CASES)
def made(request: Request, tmp_path: Path) -> Made:
    cases = CASES[request.param]
    judged = {id(ATTRIBUTES): KEYS, id(LEVEL_4_ONLY): ("metadata",)}.get(id(cases), ())
    confirmed = [PRESENCE_ONLY] if judged is KEYS else []
    engine = asdict(canned.describe(EngineOptions()))
    engine |= {"protocol": request.param, "assessed": list(judged), "only_affirmed": confirmed}
    (tmp_path / "source").mkdir()
    tar(tmp_path / "source" / "0.tar", {})
    record = run_record(engine).model_copy(update={"source": str(tmp_path / "source")})
    for name in ("run", "other"):
        run = tmp_path / name
        (run / "scores").mkdir(parents=True)
        (run / "run.json").write_text(record.model_dump_json())
        facts = [Facts("0.tar", n, key, key, 9, f"{n:064x}", unseen=()) for n, key in enumerate([*cases, "damaged"])]
        verdicts = [verdict for verdict, _ in cases.values()]
        write_result(run, "0.tar", 0, True, to_table(facts, [*verdicts, Fault("truncated", "it ends early")]))
    return Made(str(tmp_path / "run"), {key: state for key, (_, state) in cases.items()})


def state_of(num_private: int, num_unknown: int) -> State:
    assert num_private + num_unknown <= 1
    return None if num_unknown else bool(num_private)


def of_report(made: Made, read: Callable[[], str]) -> States:
    assert privsieve("report", made.run, "--format", "json") == 0
    rates = json.loads(read())["rates"]
    return {one["group"]: state_of(one["num_private"], one["num_unknown"]) for one in rates}


def of_the_view_rates(made: Made, read: Callable[[], str]) -> States:
    statement = "SELECT category, num_private, num_unknown FROM rates WHERE num_scored > 0"
    assert privsieve("sql", made.run, statement, "--format", "json") == 0
    return {row["category"]: state_of(row["num_private"], row["num_unknown"]) for row in json.loads(read())}


def of_diff(made: Made, read: Callable[[], str]) -> States:
    other = str(Path(made.run).parent / "other")
    assert privsieve("diff", made.run, other, "--format", "json") == 0
    found = {one["group"]: one for one in json.loads(read())["groups"] if one["group"] != "damaged"}
    both = {key: (one["num_private_a"], one["num_private_b"], one["num_pictures"]) for key, one in found.items()}
    assert all(one == other for one, other, _ in both.values())
    return {key: state_of(num, 1 - num_known) for key, (num, _, num_known) in both.items()}


def of_audit_sample(made: Made, read: Callable[[], str]) -> States:
    out = str(Path(made.run).parent / "list.csv")
    assert privsieve("audit", "sample", made.run, "--n", 1000, "--out", out) == 0
    table = read_sample(place(made.run)).table
    answers = zip(table["key"].to_pylist(), table["private"].to_pylist(), strict=True)
    return {key: None if one is None else bool(one) for key, one in answers}


def of_evaluate(made: Made, read: Callable[[], str]) -> States:
    """By labels that call every picture private, and by labels that call every one public. Each is a group."""
    found: dict[int, States] = {}
    groups = Path(made.run).parent / "groups.csv"
    groups.write_text("key,class\n" + "".join(f"{key},{key}\n" for key in made.states))
    for label, right in ((1, "num_true_positive"), (0, "num_true_negative")):
        labels = written(made, dict.fromkeys(made.states, label))
        code = privsieve("evaluate", made.run, "--labels", labels, "--groups", groups, "--format", "json")
        if code == 2:  # labels of what is private have nothing to judge in a run that does not say it
            with pytest.raises(LabelsError, match="no label can be compared with an answer"):
                run_evaluate(EvaluateRequest(str(made.run), labels=str(labels)))
            return dict.fromkeys(made.states, None)
        assert code == 0
        found[label] = {
            one["group"]: None if one["num_rejected"] else bool(one["private"][right]) is (label == 1)
            for one in json.loads(read())["groups"]
        }
    assert found[0] == found[1]
    return found[1]


def of_review(made: Made, read: Callable[[], str]) -> States:
    with prepared(ReviewRequest(made.run, queue="status = 'scored'")) as review:
        answers = [review.asking.model_answer(number) for number in range(len(review.asking.hashes))]
    return {one["key"]: None if one["private"] is None else bool(one["private"]) for one in answers}


def of_explain(made: Made, read: Callable[[], str]) -> States:
    states: dict[str | None, State] = {"private": True, "public": False, "unknown": None}
    with open_run(str(made.run)) as run:
        given = {key: explanation(run, row_named(run, key), ()).private for key in made.states}
    first = next(iter(given))
    assert privsieve("explain", made.run, first, "--format", "json") == 0
    assert json.loads(read())["private"] == given[first]
    return {key: states[private] for key, private in given.items()}


def of_labels(made: Made, read: Callable[[], str]) -> States:
    """What the run says when its answers are taken for labels."""
    table = labels_of(made.run)
    answers = zip(table["key"].to_pylist(), table["private"].to_pylist(), strict=True)
    return {key: None if one is None else bool(one) for key, one in answers if key != "damaged"}


def of_a_policy(made: Made, read: Callable[[], str]) -> States:
    """A rule may call the answer true or 1."""
    rules = (
        "{name: private, when: private = 1, then: drop, reason: r}",
        "{name: public, when: NOT private, then: flag, reason: r}",
    )
    text = "\n".join(["name: p", "default: keep", "rules:", *(f"  - {rule}" for rule in rules)])
    with open_run(made.run) as run:
        decided = decisions_of_run(run, load_policy(text.encode(), "p.yaml")).to_pylist()
    states: dict[str, State] = {"drop": True, "flag": False, "keep": None}
    return {row["key"]: states[row["action"]] for row in decided if row["key"] != "damaged"}


def of_the_view_images(made: Made, read: Callable[[], str]) -> States:
    assert privsieve("sql", made.run, "SELECT key, private FROM scored", "--format", "json") == 0
    return {row["key"]: row["private"] for row in json.loads(read())}


COMMANDS = (
    of_report,
    of_the_view_rates,
    of_diff,
    of_evaluate,
    of_review,
    of_explain,
    of_labels,
    of_a_policy,
    of_the_view_images,
    of_audit_sample,  # the others would judge the run by this sample
)


@pytest.mark.slow
def test_every_command_takes_the_same_pictures_for_private(made: Made, capsys: Capture) -> None:
    for command in COMMANDS:
        capsys.readouterr()
        assert command(made, lambda: capsys.readouterr().out) == made.states, command.__name__


def test_calibrate_finds_no_wrong_answer_in_the_answers_themselves(made: Made, capsys: Capture) -> None:
    known = {key: int(state) for key, state in made.states.items() if state is not None}
    if "without-a-score" in made.states or not known:
        pytest.skip("it has no probabilities")
    assert privsieve("calibrate", made.run, "--labels", written(made, known), "--format", "json") == 0
    private = json.loads(capsys.readouterr().out)["subjects"][0]
    assert (private["subject"], private["wrong_before"]) == ("private", 0)
    assert private["num_present"] == sum(known.values())


def test_the_review_queue_holds_all_unknown_pictures(made: Made) -> None:
    unknown = {key for key, state in made.states.items() if state is None and key != "no-attribute-judged"}
    if "unreadable-page" not in unknown:
        pytest.skip("nothing is known of such a picture, so none is near the decision")
    with prepared(ReviewRequest(made.run, queue="borderline")) as review:
        assert unknown <= set(review.asking.rows["key"].to_pylist())


@pytest.mark.parametrize(("key", "state"), [(key, state) for key, (_, state) in ATTRIBUTES.items()])
def test_a_label_of_attributes_is_private_for_the_guarantee_as_a_row_with_them_is(
    key: str, state: State, tmp_path: Path
) -> None:
    """Labels know no attribute that is only ever confirmed: what they do not say is open."""
    verdict, _ = ATTRIBUTES[key]
    assert isinstance(verdict, Assessment)
    values = dict(zip(KEYS, verdict.values.tolist(), strict=True))
    if values[PRESENCE_ONLY] != values[PRESENCE_ONLY]:
        values[PRESENCE_ONLY] = np.nan if key == "no-attribute-judged" else 0.0
    run = tmp_path / "run"
    (run / "scores").mkdir(parents=True)
    engine = asdict(canned.describe(EngineOptions())) | {"assessed": list(KEYS)}
    (run / "run.json").write_text(run_record(engine).model_dump_json())
    write_result(run, "0.tar", 0, True, to_table([Facts("0.tar", 0, key, None, 9, f"{0:064x}")], [verdict]))
    columns = {name: [None if value != value else value] for name, value in values.items()}
    table = to_labels(columns | {"key": [key], "annotator": ["me"]}, 1)
    labels = str(tmp_path / "labels.parquet")
    write_labels(table, labels, LabelsOrigin("hand"))
    promise = 'guarantee: {recall: 0.5, confidence: 0.5, by: "coalesce(score, 0)"}'
    policy = load_policy(f"{NO_RULES}{promise}".encode(), "policy")
    root, record = read_record(str(run))
    if state:
        assert guarantee(labels, root, record, Decider(policy, record.engine)).record.num_private_labelled == 1
    else:
        why = "it is not known whether they are" if key == "unreadable-page" else "no label says"
        with pytest.raises(LabelsError, match=why):
            guarantee(labels, root, record, Decider(policy, record.engine))


def written(made: Made, private: Mapping[str, int]) -> str:
    path = str(Path(made.run).parent / "labels.parquet")
    columns: dict[str, list[object]] = {"key": list(private), "private": list(private.values())}
    columns["annotator"] = ["me"] * len(private)
    write_labels(to_labels(columns, len(private)), path, LabelsOrigin("hand"))
    return path
