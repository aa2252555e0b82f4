"""Names that tests share for what pytest gives them."""

import pytest

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
Folders = pytest.TempPathFactory
Request = pytest.FixtureRequest
