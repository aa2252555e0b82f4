"""Files of web servers, and URLs that hold a credential, which nobody gets to see."""

import json
import socket
from pathlib import Path

import pytest

from ingest.errors import StorageError
from ingest.storage.place import place
from ingest.storage.web import named
from tests.jobs.made import privsieve, shard
from tests.making import Capture, Patch
from tests.weights.served import serving

SECRET = "hush-5f0c2a"


@pytest.mark.slow
def test_a_tar_of_a_web_server_is_scanned_and_released(tmp_path: Path, capsys: Capture) -> None:
    shard(tmp_path / "00000.tar", 0, 9)
    with serving(tmp_path) as server:
        assert privsieve("scan", server.url("00000.tar"), "--run", tmp_path / "run", "--engine", "canned") == 0
        assert "9 images in 1 of 1 shard" in capsys.readouterr().out
        command = ("filter", tmp_path / "run", "--policy", "research", "--out", tmp_path / "out")
        assert privsieve(*command, "--executor", "inline") == 0
    assert (tmp_path / "out" / "release.json").exists()


def test_a_server_that_does_not_answer_is_told_from_one_that_has_no_such_file(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("PRIVSIEVE_RETRY_S", "0")
    command = ("--run", tmp_path / "run", "--engine", "canned")
    with socket.socket() as unheard, serving(tmp_path) as server:
        unheard.bind(("127.0.0.1", 0))  # and not listening, so that no one else answers there
        silent = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        secure = server.address.replace("http:", "https:")
        assert privsieve("scan", f"{silent}/0.tar", *command) == 1
        assert privsieve("report", f"{silent}/run") == 1
        assert privsieve("scan", f"{server.address}/0.tar", *command) == 2
        assert privsieve("scan", f"{secure}/0.tar", *command) == 2
    unanswered = "the server did not answer; tried again without success"
    assert capsys.readouterr().err.splitlines() == [
        f"privsieve: cannot reach {silent}/0.tar: {unanswered}",
        f"privsieve: cannot reach {silent}/run/run.json: {unanswered}",
        f"privsieve: {server.address}/0.tar does not exist",
        f"privsieve: cannot reach {secure}/0.tar: the server gives no encrypted connection (https)",
    ]


def test_no_message_has_the_query(tmp_path: Path, capsys: Capture) -> None:
    url = f"http://127.0.0.1:9/get?sig={SECRET}&file=00000.tar"
    assert privsieve("scan", url, url, "--run", tmp_path / "run", "--engine", "canned") == 2
    assert privsieve("report", tmp_path / "run", url) == 2
    assert privsieve("scan", url, "--run", tmp_path / "run", "--limit", url) == 2
    assert privsieve("models", "fetch", url) == 2
    output = capsys.readouterr()
    assert len(output.err.splitlines()) == 4
    assert SECRET not in output.out + output.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "url",
    [
        f"http://{SECRET}@host/00000.tar",
        f"https://me:{SECRET}@host/00000.tar",
        f"sftp://{SECRET}@host/00000.tar",
        f"simplecache::http://{SECRET}@host/00000.tar",
        f"s3://{SECRET}@bucket/00000.tar",
        f"s3://bucket/00000.tar?password={SECRET}",
        f"gs://bucket/00000.tar?a=1&jwt={SECRET}",
        f"https://host/00000.tar?{SECRET}",
        f"simplecache::http://host/get?x={SECRET}",
    ],
)
def test_users_and_queries_in_urls_are_refused(url: str, tmp_path: Path, capsys: Capture) -> None:
    assert privsieve("scan", url, "--run", tmp_path / "run", "--engine", "canned") == 2
    assert privsieve("report", url) == 2
    (tmp_path / "run.yaml").write_text(json.dumps({"source": url}))
    assert privsieve("scan", "--config", tmp_path / "run.yaml", "--run", tmp_path / "run") == 2
    output = capsys.readouterr()
    assert output.err.count("the URL holds a ") == len(output.err.splitlines()) == 3
    assert SECRET not in output.out + output.err
    with pytest.raises(StorageError, match=r"^the URL holds a "):
        place(url)
    assert SECRET not in named(url)


def test_a_container_of_azure_is_no_user() -> None:
    with pytest.raises(StorageError, match=r"the driver for abfs:// is not installed"):
        place("abfs://pictures@account.dfs.core.windows.net/shards")


@pytest.mark.parametrize("text", ["a/b?c=d", "SELECT 'http://me@h/x?y'", "key::INTEGER > 3", "file:///a@b/c?d=e", ""])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert named(text) == text
