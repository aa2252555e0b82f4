"""URLs that hold a credential: what a web server gets to see, and nobody else."""

import json
import pickle
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ingest.errors import StorageError
from ingest.formats import open_source
from ingest.storage.place import place
from ingest.storage.web import URL_VARIABLE, named
from tests.jobs.made import jpeg, privsieve, shard, tar
from tests.making import Capture, Folders, Patch

SECRET = "hush-5f0c2a"
QUERY = f"password={SECRET}%2F1&file=00000.tar"


@pytest.fixture(scope="module")
def server(tmp_path_factory: Folders) -> Iterator[str]:
    """The address of a server that gives a tar to everyone who sends the query as it is."""
    file = tmp_path_factory.mktemp("served") / "00000.tar"
    shard(file, 0, 9)
    content = file.read_bytes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, with_body: bool) -> None:
            asked = urlsplit(self.path)
            if asked.query != QUERY or asked.path not in ("/get", "/00000.tar", "/classes.txt"):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = b"000000001 street\n" if asked.path == "/classes.txt" else content
            span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            part = body[int(span[1]) : int(span[2] or len(body)) + 1] if span else body
            self.send_response(206 if span else 200)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("ETag", '"1"')
            self.end_headers()
            if with_body:
                self.wfile.write(part)

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def _assert_without_secret(folder: Path) -> None:
    for path in folder.rglob("*"):
        assert SECRET not in path.name
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def _in_another_process(*command: object, url: str = "") -> subprocess.CompletedProcess[str]:
    """The command where nothing is known of a query that was given before."""
    environment = {URL_VARIABLE: url} if url else {}
    return subprocess.run(
        [sys.executable, "-m", "jobs", *map(str, command)],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", ["00000.tar", "get"])
def test_a_query_is_sent_and_written_nowhere(server: str, path: str, tmp_path: Path, capsys: Capture) -> None:
    run = tmp_path / "run"
    command = ("scan", f"{server}/{path}?{QUERY}", "--run", run, "--engine", "canned", "--source-format", "webdataset")
    assert privsieve(*command) == 0
    assert "9 images in 1 of 1 shard" in capsys.readouterr().out
    _assert_without_secret(run)
    record = json.loads((run / "run.json").read_text())
    assert re.fullmatch(rf"{server}/{path}\?query-sha256=[0-9a-f]{{16}}", record["source"])
    next((run / "scores").iterdir()).unlink()
    assert privsieve(*command) == 0
    assert privsieve("report", run) == 0
    assert privsieve("scan", f"{server}/{path}?{QUERY}x", *command[2:]) == 2
    output = capsys.readouterr()
    assert f"{server}/{path} does not exist" in output.err
    assert SECRET not in output.out + output.err


@pytest.mark.slow
def test_commands_that_read_pictures_get_the_query_from_a_variable(server: str, tmp_path: Path) -> None:
    url, run = f"{server}/00000.tar?{QUERY}", tmp_path / "run"
    assert privsieve("scan", url, "--run", run, "--engine", "canned") == 0
    command = ("filter", run, "--policy", "research", "--out", tmp_path / "out", "--executor", "inline")
    refused = _in_another_process(*command)
    assert refused.returncode == 2
    assert refused.stderr == (
        f"privsieve: {server}/00000.tar was given with a query, which is not stored; give the whole URL in the "
        f"variable {URL_VARIABLE}, or download the file and scan that\n"
    )
    assert _in_another_process(*command, url=f"{url}&x=1").stderr == refused.stderr
    released = _in_another_process(*command, url=url)
    assert released.returncode == 0
    assert (tmp_path / "out" / "release.json").exists()
    assert SECRET not in released.stdout + released.stderr
    _assert_without_secret(tmp_path)


def test_a_source_sent_to_another_process_still_knows_its_query(server: str) -> None:
    source = open_source(f"{server}/00000.tar?{QUERY}", None, None)
    read = "import pickle, sys; s = pickle.load(sys.stdin.buffer); print(len(list(s.categories(s.shards[0]))))"
    done = subprocess.run([sys.executable, "-c", read], input=pickle.dumps(source), capture_output=True, check=True)
    assert done.stdout == b"9\n"


def test_a_list_of_classes_may_have_a_query_too(server: str, tmp_path: Path, capsys: Capture) -> None:
    tar(tmp_path / "a.tar", {"000000001.jpg": jpeg(1), "000000002.jpg": jpeg(2)})
    command = ("scan", tmp_path / "a.tar", "--engine", "canned")
    assert privsieve(*command, "--run", tmp_path / "run", "--labels", f"{server}/classes.txt?{QUERY}") == 0
    assert privsieve(*command, "--run", tmp_path / "other", "--labels", f"{server}/00000.tar?{QUERY}") == 2
    output = capsys.readouterr()
    assert "00000.tar?query-sha256=" in output.err
    assert SECRET not in output.out + output.err
    _assert_without_secret(tmp_path)


@pytest.mark.parametrize("field", ["password", "auth", "pwd", "jwt", "sas", "hash", "code", "sig", "x"])
def test_no_message_has_the_query(field: str, tmp_path: Path, capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setenv("PRIVSIEVE_RETRY_S", "0")
    url = f"http://127.0.0.1:9/get?{field}={SECRET}&file=00000.tar"
    assert privsieve("scan", url, "--run", tmp_path / "run", "--engine", "canned") == 1
    assert privsieve("scan", url, url, "--run", tmp_path / "run", "--engine", "canned") == 2
    assert privsieve("report", tmp_path / "run", url) == 2
    assert privsieve("scan", url, "--run", tmp_path / "run", "--limit", url) == 2
    assert privsieve("scan", f"simplecache::{url}", "--run", tmp_path / "run", "--engine", "canned") == 2
    output = capsys.readouterr()
    assert len(output.err.splitlines()) == 5
    assert SECRET not in output.out + output.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("query", ["", f"?{QUERY}"])
def test_a_server_that_does_not_answer_is_told_from_one_that_has_no_such_file(
    server: str, query: str, tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("PRIVSIEVE_RETRY_S", "0")
    command = ("--run", tmp_path / "run", "--engine", "canned")
    with socket.socket() as unheard:  # bound and not listening, so that no one else answers there
        unheard.bind(("127.0.0.1", 0))
        silent = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        assert privsieve("scan", f"{silent}/0.tar{query}", *command) == 1
        assert privsieve("report", f"{silent}/run") == 1
    assert privsieve("scan", f"{server}/0.tar{query}", *command) == 2
    secure = server.replace("http:", "https:")
    assert privsieve("scan", f"{secure}/0.tar{query}", *command) == 2
    unanswered = "the server did not answer; tried again without success"
    assert capsys.readouterr().err.splitlines() == [
        f"privsieve: cannot reach {silent}/0.tar: {unanswered}",
        f"privsieve: cannot reach {silent}/run/run.json: {unanswered}",
        f"privsieve: {server}/0.tar does not exist",
        f"privsieve: cannot reach {secure}/0.tar: the server gives no encrypted connection (https)",
    ]


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
    ],
)
def test_users_in_urls_and_queries_of_other_stores_are_refused(url: str, tmp_path: Path, capsys: Capture) -> None:
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


def test_a_run_that_holds_a_query_is_refused_in_one_line(server: str, tmp_path: Path, capsys: Capture) -> None:
    url, run, old = f"{server}/00000.tar?{QUERY}", tmp_path / "run", tmp_path / "old"
    assert privsieve("scan", url, "--run", run, "--engine", "canned") == 0
    shutil.copytree(run, old)
    record = json.loads((old / "run.json").read_text()) | {"source": url}
    (old / "run.json").write_text(json.dumps(record))
    capsys.readouterr()
    for command in (("scan", url, "--run", old, "--engine", "canned"), ("report", old), ("status", old)):
        assert privsieve(*command) == 2
        error = capsys.readouterr().err
        assert error == (
            f"privsieve: {old}/run.json holds the query of a URL, which may be a key and is no longer written; "
            "scan into a new run, and remove this one\n"
        )
