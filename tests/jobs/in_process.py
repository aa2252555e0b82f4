"""A scan in this process, without Ray: as fast as its pictures."""

from pathlib import Path

from ingest.formats import open_source
from ingest.storage.place import place
from jobs.scanning.inline import scan_slices
from jobs.scanning.slice_tasks import ScanSettings
from scoring.assessment import EngineOptions
from scoring.runs.ledger import Ledger
from scoring.runs.record import RunRecord
from scoring.runs.results import results
from scoring.taxonomy import KEYS
from tests.records import run_record


def scan_in_process(source: Path, run: Path, max_frames: int = 1) -> Ledger:
    """Scans with the canned engine what has no result yet; returns what the run had before."""
    corpus = open_source(str(source), None, None)
    engine = {"name": "canned", "protocol": "canned", "assessed": list(KEYS)}
    changes: dict[str, object] = {"source": str(source), "source_format": corpus.format, "category": None}
    changes |= {"max_frames": max_frames, "max_pixels": 10**6}
    record = RunRecord.model_validate(run_record(engine).model_dump() | changes)
    run.mkdir(exist_ok=True)
    (run / "run.json").write_text(record.model_dump_json())
    settings = ScanSettings(corpus, place(str(run)), record, EngineOptions(), code="code")
    earlier = results(place(str(run))).ledger
    for counts in scan_slices(settings, list(corpus.shards), None, earlier):
        assert counts.failure == ""
    return earlier
