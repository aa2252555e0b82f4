"""A run on S3 is compacted there, its corpus lying on the local disk."""

from pathlib import Path

import pytest
import s3fs

from ingest.storage.place import place
from reports.run.warehouse import open_warehouse
from tests.jobs.made import SHARDS, compact_run, made_run
from tests.storage.conftest import BUCKET, Proxy


@pytest.mark.slow
def test_a_run_on_s3(store: Proxy, tmp_path: Path) -> None:
    url = f"s3://{BUCKET}/runs/compact"
    where = place(url)
    assert isinstance(where.fs, s3fs.S3FileSystem)
    where.fs.put(str(made_run(tmp_path, SHARDS)), where.path, recursive=True)
    store.first(3, 503, method="DELETE")
    compact_run(url, 100)
    assert store.faults == 3
    assert where.at("scores").names() == []
    assert [name[:6] for name in where.at("compact").names()] == ["00000-", "00001-", "00002-", "shards"]
    asked = 'SELECT count(*), count(DISTINCT (shard, "index")) FROM images'
    assert list(open_warehouse(url).select(asked)[1]) == [(225, 225)]
