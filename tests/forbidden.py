"""What a user without permission sees, also where the tests run as root, whom no file mode stops."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that others can enter; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextmanager
def forbidden(path: Path) -> Iterator[None]:
    """Inside the block nobody may read the path, which lies in a `public_folder`."""
    mode, is_root = path.stat().st_mode, os.geteuid() == 0
    path.chmod(0)
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        path.chmod(mode)
