"""`review` of a run on S3: pictures are read there, and an answer that was acknowledged lies there."""

from pathlib import Path

import pytest

from scoring.labels.table import read_labels
from tests.jobs.made import privsieve
from tests.reviewing.made import Person, served
from tests.storage.conftest import BUCKET, Proxy, corpus, upload


@pytest.mark.slow
def test_answers_lie_in_the_store_when_they_are_acknowledged(store: Proxy, tmp_path: Path) -> None:
    source, run = upload(corpus(tmp_path / "corpus", "webdataset"), f"s3://{BUCKET}/corpus"), f"s3://{BUCKET}/run"
    assert privsieve("scan", source, "--run", run, "--engine", "canned", "--quiet") == 0
    with served(run, reviewer="ana") as server:
        ana = Person(server.address)
        store.first(1, 503, "PUT", "/reviews/")
        for count, number in enumerate(ana.next()[:2], 1):
            assert ana.say(number, "public", seconds=1.0).status == 200
            labels = read_labels(f"{run}/reviews")
            assert (labels.num_rows, set(labels["private"].to_pylist())) == (count, {0})
        assert store.faults == 1
    with served(run, reviewer="ana") as server:
        assert len(server.page.asking.left("ana")) == len(server.page.asking.hashes) - 2
