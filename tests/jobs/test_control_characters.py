"""Text that a corpus, a file or a setting holds reaches the terminal only with its control characters escaped."""

import json
import re
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import Fault
from ingest.sample import printable
from jobs.cli import VERBS
from scoring.runs.ledger import result_name
from scoring.table import SCHEMA, Facts, to_table
from scoring.taxonomy import KEYS
from tests.jobs.made import jpeg, privsieve, tar
from tests.making import Capture
from tests.records import run_record
from tests.reports.conftest import answer

ODD = "odd\x1b[31m\x9b\r\x07\u202e"
"""Red letters, the same by one character, back to the start of the line, a bell, and writing from right to left."""


@dataclass(frozen=True)
class Made:
    """A folder whose every name and text is odd; `run` is finished, `half` is not, `busy` is being scanned."""

    folder: Path

    @property
    def corpus(self) -> Path:
        return self.folder / f"corpus-{ODD}"

    def rules(self, when: str) -> Path:
        return self.file(
            f'name: "p-ODD"\ndefault: keep\nrules:\n  - {{name: "ODD", when: "{when}", then: drop, reason: "ODD"}}\n'
        )

    def file(self, text: str) -> Path:
        """`ODD` in the text stands for the odd characters, as YAML writes them."""
        path = self.folder / f"file-{ODD}.yaml"
        path.write_text(text.replace("ODD", json.dumps(ODD)[1:-1]))
        return path

    def release(self, name: str) -> Path:
        """A release that names a file which is not there, and holds one that it does not name."""
        folder = self.folder / f"release-{ODD}"
        folder.mkdir(exist_ok=True)
        written = {"num_images": 1, "rules": {ODD: {"keep": 1}}, "sha256": {name: "0" * 64}}
        (folder / "release.json").write_text(json.dumps(written))
        (folder / f"other-{ODD}.tar").write_bytes(b"")
        return folder

    def table(self) -> Path:
        """Parquet with odd names of columns, as a corpus and as metadata."""
        folder = self.folder / f"table-{ODD}"
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table({f"column-{ODD}": ["x"], f"other-{ODD}": [1]}), folder / f"part-{ODD}.parquet")
        return folder

    def run(self, name: str = "run") -> Path:
        """Rows of two shards, one quarantined for an odd reason."""
        run, made_by = self.folder / f"{name}-{ODD}", {"name": f"canned-{ODD}", "protocol": ODD, "assessed": list(KEYS)}
        if run.exists():
            return run
        (run / "scores").mkdir(parents=True)
        record = run_record(made_by).model_copy(update={"source": str(self.corpus)})
        (run / "run.json").write_text(record.model_dump_json())
        for shard in (f"a-{ODD}.tar", f"b-{ODD}.tar"):
            facts = [Facts(shard, n, f"{ODD}{n}", f"street-{ODD}", 9, f"{n:064x}") for n in range(2)]
            table = to_table(facts, [answer(gov_ids=1), Fault(f"reason-{ODD}", ODD)]).cast(SCHEMA)
            pq.write_table(table, run / "scores" / result_name(shard, 0, True))
        return run

    def pictures(self, name: str) -> Path:
        folder = self.folder / f"pictures-{ODD}"
        folder.mkdir()
        (folder / name).write_bytes(jpeg(0))
        return folder

    def labels(self) -> Path:
        """Of the pictures of `run`, by an odd annotator; their classes and labels are odd, too."""
        path = self.folder / f"labels-{ODD}.csv"
        row = f'{0:064x},"{ODD}0","{ODD}","{ODD}","{ODD}",1'
        path.write_text(f"sha256,key,annotator,class,labels,private\n{row}\n", newline="")
        return path

    def half(self) -> Path:
        run = self.run("half")
        (run / "scores" / result_name(f"b-{ODD}.tar", 0, True)).unlink(missing_ok=True)
        name = result_name(f"b-{ODD}.tar", 0, True)
        (run / "attempts").mkdir(exist_ok=True)
        (run / "attempts" / f"{name}.json").write_text(json.dumps({"deaths": 0, "failure": f"no-{ODD}", "cause": ODD}))
        return run

    def busy(self) -> Path:
        run = self.half()
        lease = {"id": ODD, "host": f"host-{ODD}", "pid": 7, "renewed": time.time()}
        (run / "lease.json").write_text(json.dumps(lease))
        return run


@pytest.fixture
def made(tmp_path: Path) -> Made:
    made = Made(tmp_path / f"folder-{ODD}")
    made.corpus.mkdir(parents=True)
    for name in ("a", "b"):
        tar(made.corpus / f"{name}-{ODD}.tar", {f"{ODD}{n}.jpg": jpeg(n) for n in range(2)})
    return made


Case = tuple[str, Callable[[Made], list[object]]]

CASES: tuple[Case, ...] = (
    (ODD, lambda made: []),
    ("fetch", lambda made: [made.table(), "--out", made.folder / "out", "--where", f"column-{ODD} = 1"]),
    ("plan", lambda made: [f"absent-{ODD}", "--run", made.folder / "new"]),
    ("help", lambda made: [ODD]),
    ("doctor", lambda made: ["--engine", ODD]),
    ("scan", lambda made: [made.corpus, "--run", made.folder / "new", "--engine", ODD]),
    ("scan", lambda made: [made.corpus, "--run", made.run(), "--engine", "canned"]),
    ("scan", lambda made: [made.table(), "--run", made.folder / "new", "--engine", "canned"]),
    ("evaluate", lambda made: [made.run(), "--labels", made.file("key,ODD\n")]),
    ("review", lambda made: [f"absent-{ODD}"]),
    ("browse", lambda made: [f"absent-{ODD}"]),
    ("tune", lambda made: ["set", made.corpus, "--labels", f"absent-{ODD}", "--target", "binary", "--out", "set"]),
    ("status", lambda made: [made.run(), "--all"]),
    ("status", lambda made: [made.busy()]),
    ("report", lambda made: [made.run()]),
    ("report", lambda made: [made.run(), "--html", made.folder / f"page-{ODD}.html"]),
    ("report", lambda made: [made.busy(), "--format", "csv"]),
    ("explain", lambda made: [made.run(), f"a-{ODD}.tar/{ODD}1"]),
    ("sql", lambda made: [made.run(), "SELECT * FROM images"]),
    ("sql", lambda made: [made.busy(), f"SELECT category AS \"name-{ODD}\", '{ODD}' AS x FROM images"]),
    ("sql", lambda made: [made.run(), f'SELECT "{ODD}" FROM images']),
    ("calibrate", lambda made: [made.run(), "--labels", made.labels()]),
    ("diff", lambda made: [made.run(), made.half()]),
    ("filter", lambda made: [made.run(), "--policy", made.rules("level = 1"), "--out", made.folder, "--dry-run"]),
    ("filter", lambda made: [made.run(), "--policy", made.rules("key::INT = 1"), "--out", made.folder / "out"]),
    ("filter", lambda made: [made.run(), "--policy", made.file('name: p\n"ODD": 1\n'), "--out", "out"]),
    ("release", lambda made: ["takedown", made.release(f"{ODD}.tar"), made.file("ODD\n")]),
    ("purge", lambda made: [f"absent-{ODD}"]),
    ("release", lambda made: ["verify", made.release(f"{ODD}.tar")]),
    ("audit", lambda made: ["sample", made.run(), "--out", made.folder / "list.csv"]),
    ("models", lambda made: [f"verb-{ODD}"]),
    ("labels", lambda made: ["import", "privbench", made.pictures(f"{ODD}.jpg"), "--out", made.folder / "l.parquet"]),
    ("labels", lambda made: ["import", "csv", made.labels(), "--out", made.folder / f"{ODD}.parquet"]),
    ("labels", lambda made: ["describe", made.labels()]),
    ("similarity", lambda made: ["compare", made.pictures(f"{ODD}.jpg"), ODD]),
    ("screen", lambda made: ["fit", f"absent-{ODD}", "--labels", made.labels(), "--out", made.folder / "screen"]),
)


def test_every_verb_is_asked() -> None:
    assert {verb for verb, _ in CASES} == {*VERBS, ODD}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{printable(verb)}" for n, (verb, _) in enumerate(CASES)])
def test_no_control_character_reaches_the_terminal(case: Case, made: Made, capsys: Capture) -> None:
    verb, arguments = case
    code = privsieve(verb, *arguments(made))
    out, err = capsys.readouterr()
    reaching = {c for c in out + err if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"}
    assert not reaching
    assert re.search(r"\\(x|u00)9b", out + err) or "--shell-setup" in arguments(made)  # escaped, and not left out
    if code and verb != "doctor":
        assert len(err.splitlines()) == 1
