"""What a user types and reads is what the texts say."""

from pathlib import Path

import pytest

from tests.sessions.session import TEXTS, Session, run, sessions

SESSIONS = [session for file in sorted(TEXTS.glob("*.txt")) for session in sessions(file)]


@pytest.mark.parametrize(
    "session",
    [
        pytest.param(one, id=f"{one.text}: {one.name}", marks=[pytest.mark.slow] if one.is_slow else [])
        for one in SESSIONS
    ],
)
def test_a_session_prints_what_its_text_says(session: Session, tmp_path: Path) -> None:
    assert session.written(run(session, tmp_path)).splitlines() == session.written(list(session.printed)).splitlines()
