"""A Russian passport, whose writing only Tesseract can read. The program is one that prints what is given here."""

import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ingest.errors import EngineError
from jobs.scanning.engine_host import _refuse_other_packages
from scoring import tesseract
from scoring.assessment import Assessment, Engine, EngineOptions, View
from scoring.engines import detectors
from tests.engines.pages import picture, value
from tests.making import Patch

pytest.importorskip("rapidocr", reason="the detectors extra is not installed")

PASSPORT = Path(__file__).parent / "writing" / "passport.png"

PROGRAM = """#!{python} -S
import sys
if "--version" in sys.argv:
    print("tesseract 9.1\x1b[2J")
elif "--list-langs" in sys.argv:
    print("List of available languages (4):", "ell", "eng", "osd", "rus", sep=chr(10))
else:
    language = sys.argv[sys.argv.index("-l") + 1]
    rows = int(sys.stdin.buffer.read().split(maxsplit=3)[2]) // 64
    passport = "ПАСПОРТ/Дата рождения 12.03.1985/Номер 45 08 123456/Действителен до 01.02.2030"
    print("level")
    for row, line in enumerate(passport.split("/")[:rows]):
        for word in line.split():
            confidence = {confidence} if language == "rus" else 30
            print(5, 1, 1, 1, 1, 1, 0, {top}, 90, 40, confidence, word, sep=chr(9))
"""


def program(confidence: float | str = 96, top: str = "64 * row + 12") -> str:
    return PROGRAM.format(python=sys.executable, confidence=confidence, top=top)


@pytest.fixture(autouse=True)
def known_anew() -> Iterator[None]:
    tesseract.version.cache_clear()
    yield
    tesseract.version.cache_clear()


def install(folder: Path, monkeypatch: Patch, program: str) -> None:
    path = folder / "tesseract"
    path.write_text(program, "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(tesseract.PROGRAM_VARIABLE, str(path))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def engine() -> Engine:
    return detectors.load(EngineOptions())


def answer(engine: Engine) -> Assessment:
    (outcome,) = engine.assess([View(picture(PASSPORT), frozenset(), "00")])
    assert isinstance(outcome, Assessment), outcome
    return outcome


def test_a_passport_is_found_by_what_tesseract_reads(engine: Engine, tmp_path: Path, monkeypatch: Patch) -> None:
    assert np.isnan(value(answer(engine), "gov_ids"))
    tesseract.version.cache_clear()
    install(tmp_path, monkeypatch, program())
    read = answer(engine)
    assert value(read, "gov_ids") == value(read, "non_unique_id") == 1
    assert {"identity document with its data", "date of birth"} <= set(read.evidence)
    assert np.isnan(value(read, "contact_details"))  # what was not found can still be there


@pytest.mark.parametrize(
    "bad",
    [
        program(70),
        "#!/bin/sh\nexit 1\n",
        *[program(confidence=confidence) for confidence in ("'x'", "'nan'", "'inf'")],
        *[program(top=top) for top in ("'x'", "999_999", "-999_999", "'9' * 400")],
        program(top="'9' * 2**23"),
    ],
)
def test_what_tesseract_reads_badly_or_not_at_all_stays_unread(
    engine: Engine, bad: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    install(tmp_path, monkeypatch, bad)
    assert np.isnan(value(answer(engine), "gov_ids"))


def test_a_run_holds_the_version_and_languages_and_no_machine_with_others_takes_part(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    without = detectors.describe(EngineOptions()).versions
    assert without["tesseract"] == "none"
    tesseract.version.cache_clear()
    install(tmp_path, monkeypatch, program())
    assert detectors.describe(EngineOptions()).versions["tesseract"] == "9.1 ell rus"
    with pytest.raises(EngineError, match=r"tesseract is none where the engine was described, and 9\.1 ell rus here"):
        _refuse_other_packages(without)


@pytest.mark.slow
def test_a_program_that_hangs_is_ended_with_its_children_and_not_asked_again(
    engine: Engine, tmp_path: Path, monkeypatch: Patch
) -> None:
    hangs = f"""#!/bin/sh
case $1 in
  --version) echo tesseract 9.1 ;;
  --list-langs) printf 'ell\\nrus\\n' ;;
  *) sleep 600 & echo $! >> {tmp_path}/children; wait ;;
esac
"""
    install(tmp_path, monkeypatch, hangs)
    assert tesseract.languages() == ["ell", "rus"]
    monkeypatch.setattr(tesseract, "LIMIT_S", 3.0)
    assert np.isnan(value(answer(engine), "gov_ids"))
    (child,) = (tmp_path / "children").read_text().split()
    waited_until_s = time.monotonic() + 60
    while is_alive(int(child)):
        assert time.monotonic() < waited_until_s
        time.sleep(0.05)


@pytest.mark.parametrize("name", ["no-such-program", "true", "\x1b[2J"])
def test_a_variable_that_names_no_tesseract_is_refused_in_one_line(name: str, monkeypatch: Patch) -> None:
    monkeypatch.setenv(tesseract.PROGRAM_VARIABLE, name)
    with pytest.raises(EngineError, match=r'^PRIVSIEVE_TESSERACT="[!-~]+" is no Tesseract with a language of another'):
        detectors.describe(EngineOptions())


@pytest.mark.slow
def test_the_real_program_reads_the_passport(engine: Engine, monkeypatch: Patch) -> None:
    installed = shutil.which("tesseract")
    monkeypatch.setenv(tesseract.PROGRAM_VARIABLE, installed or "")
    if "rus" not in tesseract.languages():
        pytest.skip("Tesseract with its language rus is not installed")
    assert value(answer(engine), "gov_ids") == 1
