"""The order of the rooms, and a light start."""

import ast
import re
import subprocess
import sys
from collections.abc import Collection
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from jobs.cli import CONTINUED, EXAMPLES, HEADINGS, VERBS, command_module
from scoring.engines import ENGINES
from tests.jobs.made import privsieve, shard

ROOT = Path(__file__).parent.parent
ROOMS = ("ingest", "scoring", "reports", "jobs", "privsieve")
"""From left to right; each imports only itself and those before it."""
HEAVY = ("ray", "torch", "vllm", "cv2", "onnxruntime", "duckdb", "rapidocr", "scipy")


@cache
def _imports(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    return plain | {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_one_way(room: str) -> None:
    forbidden = (*ROOMS[ROOMS.index(room) + 1 :], "tests")
    files = list((ROOT / room).rglob("*.py"))
    assert files
    for path in files:
        wrong = [name for name in _imports(path) if name.split(".")[0] in forbidden]
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_reports_know_neither_ray_nor_engines() -> None:
    for path in (ROOT / "reports").rglob("*.py"):
        wrong = [n for n in _imports(path) if n.split(".")[0] == "ray" or n.startswith("scoring.engines")]
        assert not wrong, path


@pytest.mark.parametrize("room", ROOMS)
def test_only_one_module_writes_to_the_terminal(room: str) -> None:
    for path in sorted((ROOT / room).rglob("*.py")):
        called = {ast.unparse(n.func) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)}
        direct = called & {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}
        # jobs/__main__.py speaks before any other module can be imported.
        allowed = path in (ROOT / "jobs" / "console" / "terminal.py", ROOT / "jobs" / "__main__.py")
        assert not direct or allowed, f"{path.relative_to(ROOT)} calls {direct}; use jobs.console.terminal"


@cache
def _folder_of(module: str) -> str:
    """The folder of the rooms in which a module, or a name in it, is."""
    parts = module.split(".")
    while not any((ROOT / Path(*parts)).glob("*.py")):
        parts.pop()
    return ".".join(parts)


@cache
def _folders_imported(folder: Path) -> set[str]:
    """Folders of the rooms that the modules of a folder import, but for itself and those below it."""
    own = ".".join(folder.relative_to(ROOT).parts)
    nodes = [node for path in folder.glob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    names |= {f"{n.module}.{a.name}" for n in nodes if isinstance(n, ast.ImportFrom) and n.module for a in n.names}
    folders = {_folder_of(name) for name in names if name.split(".")[0] in ROOMS}
    return {name for name in folders if name != own and not name.startswith(f"{own}.")}


FOLDERS = sorted({path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py")})


@pytest.mark.slow
def test_no_two_folders_import_each_other() -> None:
    names = {".".join(folder.relative_to(ROOT).parts): _folders_imported(folder) for folder in FOLDERS}
    mutual = {tuple(sorted((a, b))) for a, imported in names.items() for b in imported if a in names.get(b, ())}
    assert not {pair for pair in mutual if not _reexports(*pair)}


def _reexports(above: str, below: str) -> bool:
    """A folder may pass on names of one below it, but only in its `__init__.py`."""
    if not below.startswith(f"{above}."):
        return False
    modules = [path for path in (ROOT / Path(*above.split("."))).glob("*.py") if path.name != "__init__.py"]
    names = {name for path in modules for name in _imports(path)}
    return not any(name == below or name.startswith(f"{below}.") for name in names)


@pytest.mark.parametrize("folder", [f for f in FOLDERS if f.parent != ROOT], ids=lambda f: str(f.relative_to(ROOT)))
def test_the_sign_of_a_folder_names_what_it_may_import(folder: Path) -> None:
    if not (folder / "__init__.py").exists():  # scripts
        return
    sign = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    stated = re.search(r"^May import: ([^.]*(?:`[^`]*`[^.`]*)*)\.$", sign, re.MULTILINE)
    assert stated, "it has no line `May import: …`"
    allowed = set(re.findall("`([^`]+)`", stated[1]))
    imported = _folders_imported(folder) - {folder.relative_to(ROOT).parts[0]}  # the top of the own room
    assert not {name for name in imported if not any(name == a or name.startswith(f"{a}.") for a in allowed)}
    assert not {a for a in allowed if not any(name == a or name.startswith(f"{a}.") for name in imported)}, "unused"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: str(f.relative_to(ROOT)))
def test_the_sign_of_a_folder_names_files_that_exist(folder: Path) -> None:
    if not (folder / "__init__.py").exists():  # scripts
        return
    sign = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    files = re.findall(r"[\w/]+\.py\b", sign)
    # Some files that the signs of rooms name are those of every folder below.
    assert not [name for name in files if not (ROOT / name).exists() and not list(folder.rglob(name))]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_its_sign(room: str) -> None:
    sign = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or ""
    assert "May import" in sign or "may import" in sign
    assert "Start at" in sign or "start at" in sign


def test_jobs_know_no_engine_by_name() -> None:
    """What an engine needs, asks and costs it says itself (`scoring.assessment.EngineModule`)."""
    shared = ["scoring.engines", "scoring.engines.canary", "scoring.engines.picture"]
    shared.append("scoring.engines.detectors.covering")  # with which `filter` examines what it covered
    files = ("checkpoint", "adapter")  # which tuning reads and makes
    shared += [f"scoring.engines.vlm.{name}" for name in files]
    for path in (ROOT / "jobs").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        named = [node.value for node in nodes if isinstance(node, ast.Constant) and node.value in ENGINES]
        assert not named, f"{path.relative_to(ROOT)} names {named}"
        wrong = [name for name in _imports(path) if name.startswith("scoring.engines") and name not in shared]
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_help_starts_light() -> None:
    code = f"""
import sys
from jobs.cli import main
try:
    main(["--help"])
except SystemExit as done:
    assert done.code == 0
print("loaded:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "loaded: []" in done.stdout
    assert "scan" in done.stdout


DECODERS = ("PIL", "simplejpeg")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "not_loaded"),
    [
        (["sql", "RUN", "SELECT count(*) FROM images"], ("scipy", "jinja2", "ingest.formats", *DECODERS)),
        (["status", "RUN"], ("duckdb", "scipy", "jinja2", *DECODERS)),
        (["report", "RUN"], ("jinja2", *DECODERS)),
    ],
    ids=lambda given: given[0],
)
def test_asking_a_run_loads_neither_pandas_nor_what_answers_need_not(
    tmp_path: Path, verb: list[str], not_loaded: tuple[str, ...]
) -> None:
    """pandas and the decoders take longer to load than most questions take to answer."""
    run = tmp_path / "run"
    shard(tmp_path / "corpus.tar", 0, 3)
    assert (
        privsieve(
            "scan", tmp_path / "corpus.tar", "--run", run, "--engine", "canned", "--executor", "inline", "--quiet"
        )
        == 0
    )
    arguments = [str(run) if one == "RUN" else one for one in verb]
    heavy = ["pandas", "ray", "torch", "cv2", "onnxruntime", *not_loaded]
    code = f"""
import sys
from jobs.cli import main
try:
    main({arguments!r})
except SystemExit as done:
    assert not done.code
print("loaded:", [name for name in {heavy!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "loaded: []" in done.stdout


@pytest.mark.parametrize("room", ROOMS)
def test_a_wheel_has_every_module(room: str) -> None:
    scripts = ROOT / "jobs" / "demo"  # make the demo corpus; not installed
    folders = {path.parent for path in (ROOT / room).rglob("*.py")} - {scripts}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_commands_are_no_libraries() -> None:
    """A command is a file of `commands/`, which no other module imports: the Python API calls work, too."""
    files = {path.stem for path in (ROOT / "jobs" / "commands").glob("*.py")} - {"__init__"}
    assert files == {*VERBS}
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        wrong = [name for name in _imports(path) if name.startswith("jobs.commands")]
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_every_command_has_a_heading_and_an_example_in_help() -> None:
    assert sorted(verb for verbs in HEADINGS.values() for verb in verbs) == sorted(VERBS)
    groups = {verb for verb in VERBS if hasattr(getattr(command_module(verb), verb), "commands")}
    assert {"audit", "labels"} <= groups
    assert EXAMPLES.keys() == VERBS.keys() - groups
    assert CONTINUED.keys() <= VERBS.keys()


@pytest.mark.slow
def test_no_import_circle() -> None:
    """At any depth: imports inside of functions count too, and those that only type checkers see."""
    modules = {_name(path): path for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    imports = {name: _modules_imported(path, modules.keys()) - {name} for name, path in modules.items()}
    TopologicalSorter(imports).prepare()  # CycleError names the circle


def test_the_map_in_contributing_has_the_first_sentence_of_the_sign_of_every_folder() -> None:
    guide = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    signs = [path for room in ROOMS for path in (ROOT / room).glob("*/__init__.py")]
    assert signs
    for path in signs:
        sign = ast.get_docstring(ast.parse(path.read_text())) or ""
        sentence = " ".join(re.split(r"(?<=\.)\s", sign, maxsplit=1)[0].split())
        assert f" {path.parent.name}/ {sentence} " in guide, f"{path.parent.name}/ {sentence}"


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _modules_imported(path: Path, modules: Collection[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in names}
    return found & set(modules)
