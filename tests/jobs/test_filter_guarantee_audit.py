"""A guarantee by the labels of an audit."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.audits import write_drawn
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import KEEP_ALL, by_severity, guaranteed, labels_of
from tests.making import Capture

NUM = 120
"""Scored pictures of `run`."""


@pytest.mark.slow
def test_the_audit_sample_is_thinned_to_equal_probabilities(run: Path, tmp_path: Path, capsys: Capture) -> None:
    """Every second picture was drawn ten times as likely: about a tenth of these remain."""
    scored = by_severity(run)
    probabilities = [0.1 if n % 2 else 1.0 for n in range(len(scored))]
    names = {name: [r[name] for r in scored] for name in ("shard", "index")}
    sample = run / "audit" / "sample.parquet"
    drawn = pa.table({**names, "inclusion_probability": probabilities})
    write_drawn(str(run), drawn, NUM + 1, least=0.1)
    labels = labels_of(tmp_path, [r["key"] for r in scored])
    plain = ("filter", run, "--labels", labels, "--out", tmp_path / "out", "--dry-run", "--policy")
    args = (*plain, guaranteed(tmp_path, accept_all=True))
    try:
        assert privsieve(*args) == 0
        text = capsys.readouterr().out
        assert "(of 120 of the audit, thinned to equal probabilities)" in text
        num = int(text.partition("proof      ")[2].partition(" ")[0])
        assert 60 <= num <= 75
        assert privsieve(*args) == 0
        assert capsys.readouterr().out == text  # nobody can try until the draw is lucky
        assert privsieve(*plain, guaranteed(tmp_path, accept_all=True, drawn="evenly")) == 0
        assert "120 private labelled pictures: " in capsys.readouterr().out
        assert privsieve(*plain, guaranteed(tmp_path, KEEP_ALL)) == 2
        assert "quarantined images are kept, and the audit sample holds none of them" in capsys.readouterr().err
        write_drawn(str(run), drawn, NUM, least=0.1)
        assert privsieve(*args) == 2
        assert "was drawn from another state of the run; draw it again" in capsys.readouterr().err
        write_drawn(str(run), drawn, NUM + 1, least=0.05)
        capsys.readouterr()
        assert privsieve(*plain, guaranteed(tmp_path, accept_all=True, confidence=0.5)) == 0
        # The design could have drawn a picture with .05: half of those that .1 leaves remain.
        fewer = int(capsys.readouterr().out.partition("proof      ")[2].partition(" ")[0])
        assert 25 <= fewer <= 45
        write_drawn(str(run), drawn.slice(0, 60), NUM + 1, least=0.1)
        assert privsieve(*args) == 2
        said = capsys.readouterr().err
        assert "60 labelled pictures of 120 are not of the audit sample of this run; say --drawn" in said
        assert "(in a policy drawn: audit or drawn: evenly below guarantee)" in said
        sample.write_bytes(b"PAR1")
        assert privsieve(*args) == 2
        assert "sample.parquet is damaged; draw a new sample" in capsys.readouterr().err
    finally:
        sample.unlink()


def test_an_audit_counts_pictures_and_the_worst_of_their_copies(tmp_path: Path, capsys: Capture) -> None:
    """Sixty pictures and forty copies of the first, all drawn. One copy has a label, and a rule keeps another."""
    (tmp_path / "crawl").mkdir()
    pictures = {f"{n:05d}.jpg": jpeg(n) for n in range(60)} | {f"copy-{n:02d}.jpg": jpeg(0) for n in range(40)}
    tar(tmp_path / "crawl" / "00000.tar", pictures)
    scan_in_process(tmp_path / "crawl", tmp_path / "run")
    scored = by_severity(tmp_path / "run")
    columns = {name: [r[name] for r in scored] for name in ("shard", "index", "sha256")}
    drawn = pa.table(columns | {"inclusion_probability": [1.0] * 100})
    write_drawn(str(tmp_path / "run"), drawn, 100, least=1.0)
    labels = labels_of(tmp_path, [*(f"{n:05d}" for n in range(1, 60)), "copy-07"])
    args = ("filter", tmp_path / "run", "--dry-run", "--out", tmp_path / "a", "--labels")
    policy = guaranteed(tmp_path, recall=0.9, accept_all=True)
    assert privsieve(*args, labels, "--policy", policy) == 0
    proof = "60 private labelled pictures (of 60 of the audit, thinned to equal probabilities): "
    assert f"  proof      {proof}" in capsys.readouterr().out
    rule = "{name: consent, when: \"key = 'copy-30'\", then: keep, reason: consent}"
    exempting = guaranteed(tmp_path, f"name: p\ndefault: drop\nrules:\n  - {rule}\n", 0.9, accept_all=True)
    assert privsieve(*args, labels, "--policy", exempting) == 0
    assert f"  proof      {proof}1 was missed" in capsys.readouterr().out
    differ = labels_of(tmp_path, [f"{n:05d}" for n in range(60)], "differ")
    table = pq.read_table(differ)
    no = table.slice(0, 1).to_pylist()[0] | {"key": "copy-07", "private": 0}
    both = to_labels({name: [*table[name].to_pylist(), no[name]] for name in ("key", "annotator", "private")}, 61)
    write_labels(both, str(differ), LabelsOrigin("hand"))
    assert privsieve(*args, differ, "--policy", policy) == 0
    assert "  undecided  1 labelled picture: people differ, or cannot say" in capsys.readouterr().out


def test_other_seeds_of_the_audit_leave_other_pictures(run: Path, tmp_path: Path, capsys: Capture) -> None:
    scored = by_severity(run)
    names = {name: [r[name] for r in scored] for name in ("shard", "index", "sha256")}
    drawn = pa.table({**names, "inclusion_probability": [0.8] * len(scored)})
    labels = labels_of(tmp_path, [r["key"] for r in scored])
    policy = guaranteed(tmp_path, recall=0.5)
    args = ("filter", run, "--policy", policy, "--labels", labels, "--out", tmp_path / "o", "--dry-run")
    proofs = set()
    try:
        for seed in range(4):
            write_drawn(str(run), drawn, NUM + 1, least=0.4, seed=seed)
            assert privsieve(*args) == 0
            proofs.add(capsys.readouterr().out.partition("proof      ")[2].partition(" private")[0])
    finally:
        (run / "audit" / "sample.parquet").unlink()
    assert len(proofs) > 1
    assert all(40 <= int(num) <= 80 for num in proofs)
