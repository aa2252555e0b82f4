"""`privsieve filter` by a policy with a guarantee, as a user calls it, on 120 small pictures."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privsieve as api
from jobs.releases.filtering import FilterRequest, plan_filter, run_filter
from jobs.releases.record import ReleaseIdentity
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.jobs.made import privsieve, rows
from tests.jobs.releases import KEEP_ALL, NO_RULES, by_severity, decided, guaranteed, labels_of, released

FLAG = (
    "name: p\ndefault: flag\nquarantined: drop\nrules:\n  - {name: ids, when: gov_ids = 1, then: drop, reason: an ID}\n"
)
EXEMPT = "name: p\ndefault: keep\nrules:\n  - {name: consent, when: \"key < '00010'\", then: keep, reason: consent}\n"


def test_a_guarantee_drops_from_its_threshold_on_and_says_what_it_costs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled = by_severity(run)[40:]
    labels, out = labels_of(tmp_path, [r["key"] for r in labelled]), tmp_path / "release"
    args = ("filter", run, "--policy", guaranteed(tmp_path), "--labels", labels, "--out", out)
    assert privsieve(*args, "--dry-run") == 0
    text = capsys.readouterr().out
    # Of 80 the exact bound allows one: its score is below that of the second.
    threshold = float(str(labelled[1]["s_lex"]))
    num = sum(float(str(r["s_lex"])) >= threshold for r in by_severity(run))
    promise = (
        "at least 95 % of the private pictures of the run are dropped, with 90 % confidence; a picture with copies "
        "counts once, and is dropped if all of them are; nothing is promised for a single category"
    )
    assert f"guarantee: {promise}\n" in text
    assert f"  threshold  s_lex >= {threshold:g}\n" in text
    assert (
        f"  price      {num} of 121 images ({100 * num / 121:.4g} %) in addition to those that the policy drops\n"
        in text
    )
    assert (
        "  proof      80 private labelled pictures: 1 was missed (1 allowed). If the true recall were below 95 %, a "
        "result this good would occur in at most 8.6 % of samples.\n"
    ) in text
    assert "  assumes    the labelled private pictures are a random sample of the private pictures of the run" in text
    assert privsieve(*args) == 0
    released(out)
    record = json.loads((out / "release.json").read_text())
    assert record["policy"] == "guarantee-only"
    assert record["rules"]["(guarantee)"] == {"drop": num}
    assert record["rules"]["(quarantined)"] == {"drop": 1}
    promised = record["guarantee"]
    assert promised["promise"] == promise
    assert (promised["by"], promised["threshold"], promised["num_dropped"]) == ("s_lex", threshold, num)
    assert (promised["num_private_labelled"], promised["num_missed_allowed"]) == (80, 1)
    assert promised["share_dropped"] == num / 121
    assert 0.05 < promised["failure_probability"] <= 0.1
    dropped = {key for key, (_, rule) in decided(out).items() if rule == "(guarantee)"}
    assert dropped == {r["key"] for r in by_severity(run) if float(str(r["s_lex"])) >= threshold}
    reasons = pq.read_table(out / "not-for-publication/decisions.parquet").filter(
        pa.compute.field("rule") == "(guarantee)"
    )["reason"]
    assert reasons.unique().to_pylist() == [f"s_lex is {threshold:g} or more, which the guarantee drops"]


def test_too_few_labels_are_refused_with_the_number_that_is_missing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = labels_of(tmp_path, [r["key"] for r in by_severity(run)[:44]])
    args = ("filter", run, "--labels", labels, "--out", tmp_path / "out", "--policy")
    assert privsieve(*args, guaranteed(tmp_path)) == 2
    assert capsys.readouterr().err == (
        "privsieve: recall 0.95 with confidence 0.9 needs at least 45 labelled private pictures with none missed; "
        "there are 44, so 1 is missing\n"
    )
    assert privsieve(*args, guaranteed(tmp_path, confidence=0.95)) == 2
    assert "needs at least 59 labelled private pictures with none missed; there are 44, so 15 are missing" in (
        capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


def test_a_private_picture_without_a_score_counts_as_what_happens_to_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kept in quarantine it is missed at any threshold; dropped it is caught."""
    keys = [*(r["key"] for r in by_severity(run)[-44:]), "99999"]
    args = ("filter", run, "--labels", labels_of(tmp_path, keys), "--dry-run", "--out", tmp_path / "a", "--policy")
    assert privsieve(*args, guaranteed(tmp_path)) == 0
    assert "45 private labelled pictures: 0 were missed (0 allowed)." in capsys.readouterr().out
    assert privsieve(*args, guaranteed(tmp_path, KEEP_ALL)) == 2
    message = capsys.readouterr().err
    assert "1 labelled private picture of 45 stays at any threshold, and recall 0.95 with confidence 0.9 allows 0" in (
        message
    )
    assert "allows 0: it has no s_lex, or a rule of the policy keeps it; let the policy drop it, by " in message
    assert message.count("\n") == 1


def test_pictures_on_which_people_differ_are_counted_as_they_lower_the_threshold(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of them lie below the private ones: as private ones they would be missed. A third lies above."""
    scored = by_severity(run)
    keys = [str(r["key"]) for r in scored[20:] for _ in range(2)]
    others = [str(scored[place]["key"]) for place in (0, 5) for _ in range(2)] + [keys[-1], keys[-1]]
    keys = keys[:-2] + others
    columns: dict[str, Sequence[object]] = {
        "key": keys,
        "annotator": ["ana", "ben"] * (len(keys) // 2),
        "private": [1] * (len(keys) - len(others)) + [1, 0] * (len(others) // 2),
    }
    write_labels(to_labels(columns, len(keys)), str(tmp_path / "two.parquet"), LabelsOrigin("hand"))
    policy = guaranteed(tmp_path, accept_all=True)
    args = ("filter", run, "--policy", policy, "--out", tmp_path / "out", "--dry-run", "--labels")
    assert privsieve(*args, tmp_path / "two.parquet") == 0
    text = capsys.readouterr().out
    # One of 99 may stay, and one of 101: then it is the lowest of the undecided, and the next lowest is dropped.
    assert f"  threshold  s_lex >= {scored[5]['s_lex']}\n" in text
    assert "  proof      101 private labelled pictures: " in text
    assert "  undecided  3 labelled pictures: people differ, or cannot say. The promise holds whichever are" in text
    assert "the proof takes 2 as private" in text
    assert privsieve(*args, labels_of(tmp_path, keys[:-6:2])) == 0
    assert f"  threshold  s_lex >= {scored[21]['s_lex']}\n" in capsys.readouterr().out


def test_the_guarantee_drops_what_a_policy_flags_and_leaves_what_a_rule_keeps(run: Path, tmp_path: Path) -> None:
    labels = str(labels_of(tmp_path, [r["key"] for r in by_severity(run)]))
    out = tmp_path / "flags"
    flag, exempting = (str(guaranteed(tmp_path, policy, 0.8)) for policy in (FLAG, EXEMPT))
    found = run_filter(FilterRequest(str(run), str(out), flag, labels=labels)).release.guarantee
    assert found is not None
    assert found.threshold is not None
    ids = {r["key"] for r in rows(run) if r["gov_ids"] == 1}
    assert found.num_dropped_by_policy == len(ids) > 0
    assert {key for key, (_, rule) in decided(out).items() if rule == "ids"} == ids
    expected = {r["key"] for r in by_severity(run) if float(str(r["s_lex"])) >= found.threshold} - ids
    assert {key for key, (_, rule) in decided(out).items() if rule == "(guarantee)"} == expected
    exempt = tmp_path / "exempt"
    run_filter(FilterRequest(str(run), str(exempt), exempting, labels=labels))
    assert {decided(exempt)[f"{n:05d}"] for n in range(10)} == {("keep", "consent")}


def test_a_policy_that_drops_enough_needs_no_threshold(run: Path, tmp_path: Path) -> None:
    labels = str(labels_of(tmp_path, [r["key"] for r in by_severity(run)[:45]]))
    policy = str(guaranteed(tmp_path, "name: p\nrules: []\ndefault: drop\n"))
    found = run_filter(FilterRequest(str(run), str(tmp_path / "out"), policy, labels=labels)).release.guarantee
    assert found is not None
    assert found.threshold is None
    assert (found.num_dropped, found.num_dropped_by_policy) == (0, 45)


def test_an_interrupted_guarantee_is_continued_with_the_same_labels_only(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ordered, out = by_severity(run), tmp_path / "out"
    labels = labels_of(tmp_path, [r["key"] for r in ordered[40:]])
    others = labels_of(tmp_path, [r["key"] for r in ordered[30:]], "others")
    args = ("filter", run, "--policy", guaranteed(tmp_path), "--out", out, "--labels")
    assert privsieve(*args, labels) == 0
    finished = json.loads((out / "release.json").read_text())
    begun = {name: finished[name] for name in ReleaseIdentity.model_fields}
    (out / "release.unfinished.json").write_text(json.dumps(begun))
    (out / "release.json").unlink()
    assert privsieve(*args, others, "--resume") == 2
    assert "was begun with another run, policy or guarantee" in capsys.readouterr().err
    assert privsieve(*args, labels, "--resume") == 0
    assert json.loads((out / "release.json").read_text()) == finished


def test_any_number_of_the_row_can_have_the_threshold(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = labels_of(tmp_path, [r["key"] for r in by_severity(run)])
    args = ("filter", run, "--labels", labels, "--out", tmp_path / "out", "--dry-run", "--policy")
    assert privsieve(*args, guaranteed(tmp_path, recall=0.5, by="greatest(biometrics, nudity) + score")) == 0
    assert "threshold  greatest(biometrics, nudity) + score >= " in capsys.readouterr().out
    for by, message in (
        ("key", "gives VARCHAR; a column or expression that gives a number is wanted"),
        ("scor", 'did you mean "score"?'),
        ("prob_private", "labelled private pictures of 120 stay at any threshold"),
    ):
        assert privsieve(*args, guaranteed(tmp_path, recall=0.5, by=by)) == 2
        assert message in capsys.readouterr().err


def test_a_guarantee_that_drops_every_image_is_refused_and_says_which_pictures_make_it_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scored = by_severity(run)
    lowest = [f"{r['shard']}/{r['key']}" for r in scored if r["s_lex"] == scored[0]["s_lex"]]
    labels = labels_of(tmp_path, [r["key"] for r in scored])
    out = tmp_path / "out"
    args = ("filter", run, "--labels", labels, "--out", out, "--policy")
    why = (
        f"every scored image is dropped: {len(lowest)} of 120 labelled private pictures have the lowest s_lex of the "
        f"run, {scored[0]['s_lex']} ({', '.join(lowest[:3])} and {len(lowest) - 3} more), and 2 may be missed"
    )
    for options in ((), ("--dry-run",)):
        assert privsieve(*args, guaranteed(tmp_path), *options) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"privsieve: {why}; more labels, a lower recall or an engine that sees why")
        assert error.endswith("can keep some images; accept_all: true below guarantee goes on all the same\n")
        assert not out.exists()
    assert privsieve(*args, guaranteed(tmp_path, accept_all=True)) == 0
    text = capsys.readouterr().out
    assert f"\n{why}\n" in text
    assert "of 121 images 0 were kept, 0 kept and flagged, 121 dropped" in text
    with pytest.raises(api.PolicyError, match="every scored image is dropped"):
        api.filter(run, guaranteed(tmp_path), tmp_path / "api", labels=labels)
    found = api.filter(run, guaranteed(tmp_path, accept_all=True), tmp_path / "api", labels=labels)
    assert found.counts.actions() == {"keep": 0, "flag": 0, "redact": 0, "drop": 121}


def test_a_policy_that_drops_every_image_by_itself_is_not_refused(run: Path, tmp_path: Path) -> None:
    policy = str(guaranteed(tmp_path, "name: p\nrules: []\ndefault: drop\n"))
    labels = str(labels_of(tmp_path, [r["key"] for r in by_severity(run)]))
    found = run_filter(FilterRequest(str(run), str(tmp_path / "out"), policy, labels=labels))
    assert found.counts.actions()["drop"] == 121


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("guarantee: {recall: 0.95}", (), "guarantee and --labels go together"),
        ("", ("--labels", "x"), "guarantee and --labels go together"),
        ("guarantee: {recall: 1}", ("--labels", "x"), "guarantee recall: input should be less than 1"),
        ("guarantee: {recal: 0.9}", ("--labels", "x"), 'guarantee: unknown key "recal" (did you mean "recall"?)'),
        ("guarantee: 0.95", ("--labels", "x"), "guarantee is the number 0.95; guarantee has the keys recall, confid"),
        ("guarantee: {recall: 0.9, drawn: odd}", ("--labels", "x"), '"odd" is not a known way; there are: audit, even'),
    ],
)
def test_a_guarantee_that_cannot_be_is_one_line(
    run: Path,
    tmp_path: Path,
    policy: str,
    options: Sequence[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "p.yaml").write_text(NO_RULES + policy)
    assert privsieve("filter", run, "--policy", tmp_path / "p.yaml", "--out", tmp_path / "out", *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


COVER = (
    "name: p\ndefault: keep\nquarantined: drop\n{more}rules:\n"
    "  - {{name: all, when: level > 0 AND level < 3, then: redact, cover: [faces], reason: private}}\n"
)


@pytest.mark.parametrize(
    ("more", "verify", "counts"),
    [
        ("", "canned", False),
        ("residual_max_level: 3\n", None, False),
        ("residual_max_level: 2\n", "canned", False),
        ("residual_max_level: 3\ncover_method: blur\n", "canned", False),
        ("residual_max_level: 3\n", "canned", True),
    ],
)
def test_a_covered_picture_counts_only_if_a_second_look_judged_all_that_is_private(
    run: Path, tmp_path: Path, more: str, verify: str | None, counts: bool
) -> None:
    """The detectors judge only some of levels 1 and 2; another engine must judge the rest."""
    more += f"verify: {{engine: {verify}}}\n" if verify else ""
    policy = guaranteed(tmp_path, COVER.format(more=more), accept_all=True)
    private = [r["key"] for r in rows(run) if r["level"] in (1, 2)]
    assert len(private) >= 45
    labels = str(labels_of(tmp_path, private))
    planned = plan_filter(FilterRequest(str(run), str(tmp_path / "out"), str(policy), labels=labels))
    assert planned.guarantee is not None
    assert planned.guarantee.covered_counts is counts
    assert ("or cleared by the second look once covered" in planned.guarantee.promise) is counts
    assert (planned.guarantee.threshold is None) is counts
    assert (planned.plan.counts.actions()["redact"] == len(private)) is counts
