"""A folder on S3 is removed; if the store refuses, one line says so."""

import pytest

from ingest.errors import StorageError
from ingest.storage.place import place
from ingest.storage.removal import remove_tree
from tests.storage.conftest import BUCKET, Proxy


def test_a_folder_is_gone_also_where_the_store_stumbles(store: Proxy) -> None:
    folder = place(f"s3://{BUCKET}/release")
    for name in ("a", "b/c", "b/d"):
        folder.at(name).write(b"x")
    place(f"s3://{BUCKET}/release-2/kept").write(b"x")
    store.first(2, 503, method="POST")
    remove_tree(folder)
    assert store.faults == 2
    assert not folder.exists()
    assert place(f"s3://{BUCKET}/release-2").names() == ["kept"]
    remove_tree(folder)


def test_a_store_that_refuses_is_one_line(store: Proxy) -> None:
    folder = place(f"s3://{BUCKET}/release")
    folder.at("a").write(b"x")
    store.first(100, 403, method="POST")
    with pytest.raises(StorageError, match=f"cannot remove {BUCKET}/release: ") as caught:
        remove_tree(folder)
    assert "\n" not in str(caught.value)
