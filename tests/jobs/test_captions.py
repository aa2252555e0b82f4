"""Captions and URLs of a corpus: only kinds and hashes of them leave the reader."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.formats import open_source
from ingest.images.pixels import ImageLimits
from ingest.sample import MAX_CAPTION_BYTES, Sample, caption_of
from jobs.scanning.batch import BatchScorer
from scoring.assessment import EngineOptions, Outcome, View
from scoring.captions import CAPTION_KINDS, caption_kinds
from scoring.engines import ENGINES, canned, engine_module
from scoring.engines.canned import CannedEngine
from scoring.protocols import PROTOCOLS
from tests.engines.chat_server import ChatServer
from tests.ingest.made import parquet_file, samples_of
from tests.jobs.made import jpeg, privsieve, rows, tar
from tests.making import Capture, Patch

MARKER = "Zyxwv Quokkamarker"
URL = "https://example.org/quokkamarker.jpg?id=7"


def _texts_below(folder: Path) -> str:
    """Of all files, the cells of tables included."""
    cells = [json.dumps(row, default=str) for run in folder.parent.glob("run*") for row in rows(run)]
    return "".join(cells) + "".join(f.read_bytes().decode("latin-1") for f in folder.rglob("*") if f.is_file())


def test_a_tar_gives_captions_from_text_and_json_and_hashes_of_urls(tmp_path: Path) -> None:
    members = {
        "0.jpg": jpeg(0),
        "0.txt": b"mail to anna.smith@gmail.com\r\n",
        "0.json": json.dumps({"caption": "not this one", "url": URL}).encode(),
        "1.jpg": jpeg(1),
        "1.json": json.dumps({"caption": "call +1 415 555 0132"}).encode(),
        "2.jpg": jpeg(2),
        "2.txt": b"a dog on a meadow",
        "3.jpg": jpeg(3),
        "3.txt": b" \n",
        "3.json": b'{"caption": ["no text"], "url": 7}',
        "4.jpg": b"<html>",
        "4.txt": b"born on 12 March 1985",
    }
    tar(tmp_path / "0.tar", members)
    found = _scanned(tmp_path / "0.tar", tmp_path / "run")

    kinds = [row["caption_kinds"] for row in found]
    assert kinds == [["email_address"], ["phone_number"], [], None, ["date", "date_of_birth"]]
    assert [row["url_sha256"] for row in found] == [hashlib.sha256(URL.encode()).hexdigest(), *[None] * 4]
    assert [row["phash"] is None for row in found] == [False] * 4 + [True]
    assert {row["stage"] for row in found} == {"full"}


@pytest.mark.parametrize(("caption", "url"), [("caption", "url"), ("text", "URL"), ("TEXT", "url"), ("alt", "URL")])
def test_a_table_gives_captions_and_urls_from_the_usual_columns(tmp_path: Path, caption: str, url: str) -> None:
    table = pa.table({"jpg": [jpeg(1), jpeg(2)], caption: ["to bob@gmail.com", None], url: [None, URL]})
    parquet_file(tmp_path / "a.parquet", table)
    found = _scanned(tmp_path / "a.parquet", tmp_path / "run")

    assert [row["caption_kinds"] for row in found] == [["email_address"], None]
    assert [row["url_sha256"] for row in found] == [None, hashlib.sha256(URL.encode()).hexdigest()]


def test_a_damaged_or_odd_caption_column_costs_no_picture(tmp_path: Path) -> None:
    text = pa.array(["x" * 3000] * 4)
    parquet_file(
        tmp_path / "a.parquet", pa.table({"jpg": [jpeg(n) for n in range(4)], "caption": text, "text": [1] * 4})
    )
    content = (tmp_path / "a.parquet").read_bytes()
    import pyarrow.parquet as pq

    column = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    end = start + column.total_compressed_size
    (tmp_path / "a.parquet").write_bytes(content[:start] + b"\xff" * (end - start) + content[end:])

    samples = samples_of(open_source(str(tmp_path / "a.parquet"), None, None))

    assert [sample.fault for sample in samples] == [None] * 4
    assert [sample.encoded for sample in samples] == [jpeg(n) for n in range(4)]
    assert {sample.caption for sample in samples} == {None}


@settings(max_examples=40)
@given(st.one_of(st.binary(max_size=9000), st.text(max_size=9000)))
def test_any_bytes_become_a_bounded_printable_caption(raw: bytes | str) -> None:
    caption = caption_of(raw)

    if caption is not None:
        assert 0 < len(caption.encode()) <= MAX_CAPTION_BYTES
        assert caption.replace("\n", "").isprintable()
        assert caption == caption.strip()


def test_kinds_are_found_by_the_rules_and_nothing_in_a_plain_caption() -> None:
    caption = (
        "Portrait of Anna Smith, born on 12 March 1985, 12 Main Street, Springfield, IL 62704; "
        "@anna_s or +1 415 555 0132. Server 192.168.17.4, SSN 123-45-6789, IBAN DE89 3704 0044 0532 0130 00, "
        "card 4111 1111 1111 1111, anna@example.org"
    )
    assert set(caption_kinds(caption)) >= set(CAPTION_KINDS) - {"user_name"}
    assert caption_kinds("follow @anna_s there") == ("user_name",)
    assert caption_kinds("a dog runs over a green meadow in the sun") == ()


@pytest.mark.parametrize(
    "piece",
    ["0", "12", "A", "Aa1", "1 A b ", "rue a ", "a@a.", "DE12 ", "1AAAAAAAAAAAAAAAAAAA ", "Anna Smith ", "<", "é"],
)
def test_a_hostile_caption_ends(piece: str) -> None:
    kinds = caption_kinds((piece * MAX_CAPTION_BYTES)[:MAX_CAPTION_BYTES])
    assert set(kinds) <= set(CAPTION_KINDS)


def test_a_sample_does_not_show_its_caption() -> None:
    sample = Sample("0.tar", 0, "0", None, b"", None, caption=MARKER)
    assert MARKER not in repr(sample)
    assert MARKER not in repr(View(None, frozenset(), "", MARKER))  # type: ignore[arg-type]


class _Recorder(CannedEngine):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str | None] = []

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        self.seen += [view.caption for view in views]
        return super().assess(views)


@pytest.mark.parametrize(("uses_caption", "seen"), [(False, None), (True, MARKER)])
def test_only_an_engine_that_declares_it_gets_the_caption(uses_caption: bool, seen: str | None) -> None:
    engine = _Recorder()
    sample = Sample("0.tar", 0, "0", None, jpeg(1), None, caption=MARKER)
    BatchScorer(engine, ImageLimits(), 1, uses_caption).rows([sample])
    assert engine.seen == [seen]


def test_no_shipped_engine_declares_it() -> None:
    assert canned.describe(EngineOptions()).uses_caption is False
    for name in ENGINES:
        source = Path(engine_module(name).__file__ or "").parent  # type: ignore[attr-defined]
        assert not any("uses_caption" in file.read_text() for file in source.rglob("*.py"))


@pytest.fixture
def server(monkeypatch: Patch) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = ChatServer()
    yield running
    running.close()


_CAPTIONS = (
    *(
        ("", "", False),
        ("a letter to", "of 12 Main Street", True),
        ("\x1b[31m", "\u202e", True),
        ("\0'\"", "<b>", False),
    ),
    ("", "", False),
)
"""What stands before and behind the marker, and whether the caption is in JSON."""


def _corpus(folder: Path) -> Path:
    """The last picture is broken; each has the marker in its caption and a URL."""
    members: dict[str, bytes] = {}
    for number, (before, after, in_json) in enumerate(_CAPTIONS):
        caption = f"{before} {MARKER} {after}"
        members[f"{number}.jpg"] = jpeg(number) if number < len(_CAPTIONS) - 1 else b"<html>"
        members[f"{number}.json"] = json.dumps({"url": URL, **({"caption": caption} if in_json else {})}).encode()
        if not in_json:
            members[f"{number}.txt"] = caption.encode("utf-8", "surrogatepass")
    tar(folder / "0.tar", members)
    samples = samples_of(open_source(str(folder / "0.tar"), None, None))
    assert all(MARKER in (sample.caption or "") for sample in samples)
    return folder / "0.tar"


def _refuse_marker(everything: str) -> None:
    assert "phash" in everything
    assert not [word for word in ("quokkamarker", "zyxwv") if word in everything.lower()]


@pytest.mark.slow
def test_no_word_of_a_caption_or_url_is_in_a_run_its_reports_or_what_is_printed(tmp_path: Path, capfd: Capture) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    corpus, run = _corpus(folder), folder / "run"
    assert privsieve("scan", corpus, "--run", run, "--engine", "canned") == 0
    assert privsieve("report", run, "--format", "json", "--html", folder / "report.html") == 0
    corpus.unlink()
    printed = capfd.readouterr()
    _refuse_marker(printed.out + printed.err + _texts_below(folder))


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != "slots"])
def test_no_word_of_a_caption_or_url_is_in_a_request_to_a_model(
    server: ChatServer, tmp_path: Path, capfd: Capture, protocol: str
) -> None:
    """Of each protocol that an endpoint can be asked with; `slots` makes its prompt of the same `View`."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    corpus, model = _corpus(folder), ("--endpoint", server.url, "--model", "tiny-vl", "--protocol", protocol)
    assert privsieve("scan", corpus, "--run", folder / "run", "--engine", "openai", *model) == 0
    corpus.unlink()
    printed = capfd.readouterr()
    _refuse_marker(printed.out + printed.err + _texts_below(folder) + json.dumps(server.bodies))
    assert server.bodies


def _scanned(source: Path, run: Path) -> list[dict[str, object]]:
    assert privsieve("scan", source, "--run", run, "--engine", "canned", "--quiet") == 0
    return rows(run)
