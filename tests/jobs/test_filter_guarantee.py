"""`privsieve filter` by a policy with a guarantee, as a user calls it, on 120 small pictures."""

import json
from collections.abc import Sequence
from pathlib import Path

from jobs.releases.filtering import FilterRequest, run_filter
from jobs.releases.record import ReleaseIdentity
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.jobs.made import privsieve, rows
from tests.jobs.releases import by_severity, decided, guaranteed, labels_of
from tests.making import Capture

FLAG = (
    "name: p\ndefault: flag\nquarantined: drop\nrules:\n  - {name: ids, when: gov_ids = 1, then: drop, reason: an ID}\n"
)
EXEMPT = "name: p\ndefault: keep\nrules:\n  - {name: consent, when: \"key < '00010'\", then: keep, reason: consent}\n"


def test_pictures_on_which_people_differ_are_counted_as_they_lower_the_threshold(
    run: Path, tmp_path: Path, capsys: Capture
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
    found = run_filter(FilterRequest(str(run), flag, str(out), labels=labels)).release.guarantee
    assert found is not None
    assert found.threshold is not None
    ids = {r["key"] for r in rows(run) if r["gov_ids"] == 1}
    assert {key for key, (_, rule) in decided(out).items() if rule == "ids"} == ids
    expected = {r["key"] for r in by_severity(run) if float(str(r["s_lex"])) >= found.threshold} - ids
    assert {key for key, (_, rule) in decided(out).items() if rule == "(guarantee)"} == expected
    exempt = tmp_path / "exempt"
    run_filter(FilterRequest(str(run), exempting, str(exempt), labels=labels))
    assert {decided(exempt)[f"{n:05d}"] for n in range(10)} == {("keep", "consent")}


def test_an_interrupted_guarantee_is_continued_with_the_same_labels_only(
    run: Path, tmp_path: Path, capsys: Capture
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
