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

    def policy(self, text: str) -> Path:
        """`ODD` in the text stands for the odd characters, as YAML writes them."""
        path = self.folder / f"policy-{ODD}.yaml"
        path.write_text(text.replace("ODD", json.dumps(ODD)[1:-1]))
        return path

    def rules(self, when: str, name: str = "ODD") -> Path:
        return self.policy(
            f'name: "p-ODD"\ndefault: keep\nrules:\n  - {{name: "{name}", when: "{when}", then: drop, reason: "ODD"}}\n'
        )

    def file(self, text: str) -> Path:
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

    def run(self, name: str = "run", engine: dict[str, object] | None = None, limit: int | None = None) -> Path:
        """Rows of two shards, one quarantined for an odd reason."""
        run, made_by = self.folder / f"{name}-{ODD}", {"name": f"canned-{ODD}", "protocol": ODD, "assessed": list(KEYS)}
        if run.exists():
            return run
        (run / "scores").mkdir(parents=True)
        record = run_record(engine or made_by)
        record = record.model_copy(update={"source": str(self.corpus), "limit": limit})
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

    def labels(self, column: str = "private") -> Path:
        """Of the pictures of `run`, by an odd annotator; their classes and labels are odd, too."""
        path = self.folder / f"labels-{ODD}.csv"
        row = f'{0:064x},"{ODD}0","{ODD}","{ODD}","{ODD}",1'
        path.write_text(f"sha256,key,annotator,class,labels,{column}\n{row}\n", newline="")
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
    ("fetch", lambda made: [f"absent-{ODD}", "--out", made.folder / "out"]),
    ("fetch", lambda made: [made.table(), "--out", made.folder / "out"]),
    ("fetch", lambda made: [made.table(), "--out", made.folder / "out", "--where", f"column-{ODD} = 1"]),
    ("fetch", lambda made: [made.table(), "--out", made.corpus]),
    ("plan", lambda made: [f"absent-{ODD}", "--run", made.folder / "new"]),
    ("plan", lambda made: [made.table(), "--run", made.folder / "new", "--category", f"colum-{ODD}"]),
    ("help", lambda made: [ODD]),
    ("doctor", lambda made: ["--engine", ODD]),
    ("doctor", lambda made: ["--engine", "canned", "--source", ODD, "--run", "memory:/x", "--ray-address", ODD]),
    ("scan", lambda made: [f"absent-{ODD}", "--run", made.folder / "new"]),
    ("scan", lambda made: [made.corpus, "--run", made.folder / "new", "--engine", ODD]),
    ("scan", lambda made: [made.corpus, "--run", made.folder / "new", ODD]),
    ("scan", lambda made: [made.corpus, "--run", made.run(), "--engine", "canned"]),
    ("scan", lambda made: [made.corpus, "--run", made.corpus, "--engine", "canned"]),
    ("scan", lambda made: [made.table(), "--run", made.folder / "new", "--engine", "canned"]),
    ("scan", lambda made: [made.corpus, "--run", made.folder / "new", "--engine", "canned", "--dry-run"]),
    (
        "scan",
        lambda made: [
            *(made.corpus, "--run", made.folder / "new", "--engine", "openai", "--model", ODD),
            *("--endpoint", "http://127.0.0.1:9", "--protocol", f"json-{ODD}"),
        ],
    ),
    (
        "scan",
        lambda made: [
            *(made.corpus, "--run", made.folder / "new", "--engine", "openai", "--model", "m", "--dry-run"),
            *("--endpoint", "http://127.0.0.1:9", "--prompt-file", made.file('"ODD": 1\n')),
        ],
    ),
    (
        "scan",
        lambda made: [
            *(made.corpus, "--run", made.folder / "new", "--engine", "openai", "--model", "m", "--dry-run"),
            *("--endpoint", "http://127.0.0.1:9", "--thresholds", made.file('"ODD": 1\n"ODD": 2\n')),
        ],
    ),
    ("scan", lambda made: [made.corpus, "--run", made.folder / "new", "--prompt-file", made.folder / f"no-{ODD}"]),
    ("evaluate", lambda made: [f"absent-{ODD}", "--labels", made.labels()]),
    ("evaluate", lambda made: [made.run(), "--labels", f"absent-{ODD}"]),
    ("evaluate", lambda made: [made.run(), "--labels", made.file("key,ODD\n")]),
    ("review", lambda made: [f"absent-{ODD}"]),
    ("review", lambda made: [made.run(), "--queue", f"category = '{ODD}'"]),
    ("review", lambda made: [made.run(), "--hash-list", made.file(ODD)]),
    ("browse", lambda made: [f"absent-{ODD}"]),
    ("browse", lambda made: [made.run(), "--where", f"category = '{ODD}'"]),
    ("browse", lambda made: [made.run(), "--policy", f"absent-{ODD}"]),
    ("browse", lambda made: [made.run(), "--hash-list", made.file(ODD)]),
    ("tune", lambda made: ["set", made.corpus, "--labels", f"absent-{ODD}", "--target", "binary", "--out", "set"]),
    ("tune", lambda made: ["set", made.corpus, "--labels", "absent", "--target", ODD, "--out", "set"]),
    ("tune", lambda made: ["fit", "set", "--model", "model", "--recipe", "cprt", "--out", "adapter", f"--{ODD}"]),
    ("status", lambda made: [f"absent-{ODD}"]),
    ("status", lambda made: [made.run(), "--all"]),
    ("status", lambda made: [made.busy()]),
    ("status", lambda made: [made.busy(), "--format", "json"]),
    ("report", lambda made: [f"absent-{ODD}"]),
    ("report", lambda made: [made.run()]),
    ("report", lambda made: [made.run(), "--html", made.folder / f"page-{ODD}.html"]),
    ("report", lambda made: [made.run(), "--html", made.folder / f"absent-{ODD}" / "page.html"]),
    ("report", lambda made: [made.run(), "--format", "json"]),
    ("report", lambda made: [made.busy()]),
    ("report", lambda made: [made.busy(), "--format", "csv"]),
    ("report", lambda made: [made.run(), "--by", f"'{ODD}'"]),
    ("report", lambda made: [made.run(), "--by", f"category-{ODD}"]),
    ("report", lambda made: [made.run(), "--private", f"category = '{ODD}'"]),
    ("report", lambda made: [made.run(), "--private", f"'{ODD}'"]),
    ("report", lambda made: [made.run(), "--by-label", ODD]),
    ("explain", lambda made: [f"absent-{ODD}", "key"]),
    ("explain", lambda made: [made.run(), f"{ODD}1", "--shard", f"a-{ODD}.tar"]),
    ("explain", lambda made: [made.run(), f"{ODD}1"]),
    ("explain", lambda made: [made.run(), f"{ODD}3"]),
    ("sql", lambda made: [f"absent-{ODD}", "SELECT 1"]),
    ("sql", lambda made: [made.run(), "SELECT * FROM images"]),
    ("sql", lambda made: [made.busy(), f"SELECT category AS \"name-{ODD}\", '{ODD}' AS x FROM images"]),
    ("sql", lambda made: [made.run(), f'FROM "{ODD}"']),
    ("sql", lambda made: [made.run(), f'SELECT "{ODD}" FROM images']),
    ("sql", lambda made: [made.run(), f"SELECT {ODD}"]),
    ("sql", lambda made: [made.run(), "--shell-setup"]),
    ("calibrate", lambda made: [made.run(), "--labels", made.labels()]),
    ("calibrate", lambda made: [made.run(), "--labels", f"absent-{ODD}"]),
    ("diff", lambda made: [made.run(), made.half()]),
    ("diff", lambda made: [made.run(), made.half(), "--by", f"key-{ODD}"]),
    (
        "filter",
        lambda made: [
            *(made.run(), "--labels", made.labels(), "--out", made.folder / "out", "--policy"),
            made.policy('name: p\ndefault: keep\nrules: []\nguarantee: {recall: 0.5, by: "score-ODD"}\n'),
        ],
    ),
    ("filter", lambda made: [made.run(), "--policy", f"absent-{ODD}", "--out", made.folder / "out"]),
    ("filter", lambda made: [made.run(), "--policy", made.rules("level = 1"), "--out", made.folder, "--dry-run"]),
    (
        "filter",
        lambda made: [
            made.run("blind", {"name": f"e-{ODD}", "protocol": ODD, "assessed": ["gov_ids"]}),
            *("--policy", made.rules("nudity = 1", 'n" , when: level = 1, then: keep, reason: r}\n  - {name: "ODD')),
            *("--out", made.folder / f"out-{ODD}", "--dry-run"),
        ],
    ),
    (
        "filter",
        lambda made: [
            made.run("blind", {"name": f"e-{ODD}", "protocol": ODD, "assessed": ["gov_ids"]}),
            *("--policy", made.rules("nudity = 1"), "--out", made.folder / "out"),
        ],
    ),
    ("filter", lambda made: [made.run(), "--policy", made.rules("level ="), "--out", made.folder / "out"]),
    ("filter", lambda made: [made.run(), "--policy", made.rules("key::INT = 1"), "--out", made.folder / "out"]),
    ("filter", lambda made: [made.run(), "--policy", made.policy('name: p\n"ODD": 1\n'), "--out", "out"]),
    ("filter", lambda made: [made.run(), "--policy", made.policy('name: p\n"ODD": 1\n"ODD": 2\n'), "--out", "out"]),
    ("filter", lambda made: [made.half(), "--policy", made.rules("level = 1"), "--out", made.folder / "out"]),
    ("filter", lambda made: [made.run(), "--policy", made.rules("level = 1"), "--out", made.corpus / "out"]),
    ("release", lambda made: ["takedown", made.release(f"{ODD}.tar"), f"absent-{ODD}"]),
    ("release", lambda made: ["takedown", made.release(f"{ODD}.tar"), made.file("ODD\n")]),
    ("release", lambda made: ["lookup", made.release(f"{ODD}.tar"), f"absent-{ODD}"]),
    ("release", lambda made: ["lookup", made.corpus, f"absent-{ODD}"]),
    ("release", lambda made: ["apply", made.corpus, f"absent-{ODD}", "--dry-run"]),
    ("purge", lambda made: [f"absent-{ODD}"]),
    ("release", lambda made: ["verify", f"absent-{ODD}"]),
    ("release", lambda made: ["verify", made.release(f"{ODD}.tar")]),
    ("audit", lambda made: ["sample", f"absent-{ODD}", "--out", made.folder / "list.csv"]),
    ("audit", lambda made: ["sample", made.run(), "--out", made.folder / "list.csv"]),
    ("audit", lambda made: ["sample", made.run(), "--out", made.folder / "x.csv", "--private", f"column-{ODD} = 1"]),
    ("audit", lambda made: ["apply", made.run(), made.labels()]),
    ("models", lambda made: [f"verb-{ODD}"]),
    ("models", lambda made: ["fetch", f"absent-{ODD}"]),
    ("models", lambda made: ["rm", f"s3://bucket/{ODD}"]),
    ("labels", lambda made: [f"verb-{ODD}"]),
    ("labels", lambda made: ["import", ODD, made.corpus, "--out", made.folder / "l.parquet"]),
    ("labels", lambda made: ["import", "privbench", f"absent-{ODD}", "--out", made.folder / "l.parquet"]),
    ("labels", lambda made: ["import", "privbench", made.pictures(f"{ODD}.jpg"), "--out", made.folder / "l.parquet"]),
    ("labels", lambda made: ["import", "csv", made.labels(), "--out", made.folder / f"{ODD}.parquet"]),
    ("labels", lambda made: ["import", "csv", made.labels(), "--out", made.folder / "l", "--mapping", ODD]),
    ("labels", lambda made: ["import", "csv", made.labels(f"column-{ODD}"), "--out", made.folder / "l.parquet"]),
    ("labels", lambda made: ["consensus", made.run(), made.labels(), "--out", made.folder / f"{ODD}.parquet"]),
    ("labels", lambda made: ["agreement", made.run(), made.labels()]),
    ("labels", lambda made: ["agreement", made.run(), made.labels(), "--format", "json"]),
    ("labels", lambda made: ["agreement", made.run(), made.run()]),
    ("labels", lambda made: ["describe", made.labels()]),
    ("labels", lambda made: ["export", made.run(), "--format", "csv", "--out", made.folder / f"{ODD}.csv"]),
    ("labels", lambda made: ["export", made.run(), "--format", "label-studio", "--out", made.folder / f"{ODD}.json"]),
    ("similarity", lambda made: ["compare", made.pictures(f"{ODD}.jpg"), "--method", ODD]),
    ("screen", lambda made: ["fit", f"absent-{ODD}", "--labels", made.labels(), "--out", made.folder / "screen"]),
    ("screen", lambda made: ["fit", made.corpus, "--labels", made.labels(), "--out", made.folder / f"{ODD}"]),
    ("screen", lambda made: ["evaluate", f"absent-{ODD}", made.corpus, "--labels", made.labels()]),
)


def test_every_verb_is_asked() -> None:
    assert {verb for verb, _ in CASES} == {*VERBS, ODD}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{printable(verb)}" for n, (verb, _) in enumerate(CASES)])
def test_no_control_character_reaches_the_terminal(case: Case, made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    verb, arguments = case
    code = privsieve(verb, *arguments(made))
    out, err = capsys.readouterr()
    reaching = {c for c in out + err if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"}
    assert not reaching
    assert re.search(r"\\(x|u00)9b", out + err) or "--shell-setup" in arguments(made)  # escaped, and not left out
    if code and verb != "doctor":
        assert len(err.splitlines()) == 1
