"""`study reasons`: private pictures are explained again, and the sentences are summed up but stored nowhere."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.engines.chat_server import ChatServer, Reply
from tests.jobs.made import jpeg, privsieve
from tests.studies.made import corpus, sent

SENTENCES = [
    "Yes. A face can be recognised.",
    "Yes. Rosenthal stands on the door.",
    "No. Only trees.",
    "Yes. A passport lies there.",
]


@pytest.mark.slow
def test_sentences_are_summed_up_without_found_text_and_none_is_stored(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.default, server.models = Reply(text="Yes. A face."), ["tiny-vl", "sums"]
    engine = ["--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl", "--quiet"]
    source = corpus(tmp_path / "pictures", len(SENTENCES))
    scan = ["scan", source, "--run", tmp_path / "run", "--executor", "inline"]
    assert privsieve(*scan, *engine, "--protocol", "binary:ours-1,reason") == 0
    server.script = {sent(number): Reply(text=sentence) for number, sentence in enumerate(SENTENCES)}
    server.by_words = {"statements for a privacy officer": Reply(text="Faces and passports.")}
    server.bodies.clear()
    files = {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()}
    capsys.readouterr()
    study = ["study", "reasons", tmp_path / "run", *engine, "--digest-endpoint", server.url, "--digest-model", "sums"]
    assert privsieve(*study) == 0
    assert capsys.readouterr().out.splitlines() == [
        "(none): 4 private pictures, 2 sentences summed up; not sent, since they may repeat text: 1; pictures without "
        "a sentence: 1",
        "  sums: Faces and passports.",
    ]
    (given,) = [body["messages"][1]["content"] for body in server.bodies if body["model"] == "sums"]
    assert sorted(given.splitlines()) == [SENTENCES[0], SENTENCES[3]]
    assert {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()} == files
    assert privsieve(*study, "--ask", "binary:ours-1") == 2
    assert capsys.readouterr().err == (
        "privsieve: --ask binary:ours-1 gives no sentences; choose binary:ours-1,reason or another with reason\n"
    )
    listed = tmp_path / "hashes.txt"
    listed.write_text("".join(f"sha256 {hashlib.sha256(jpeg(number)).hexdigest()}\n" for number in range(3)))
    server.bodies.clear()
    assert privsieve(*study, "--hash-list", listed, "--format", "json") == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert (group["num_sentences"], group["num_left_out"]) == (1, 0)
    assert (group["num_drawn"], group["num_without"], group["num_withheld"]) == (4, 0, 3)
    pictures = [body for body in server.bodies if body["model"] != "sums"]
    assert len(pictures) == 1, "a listed picture is shown to no engine"
