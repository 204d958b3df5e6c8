"""The rules of the house, read from the source: which room may import which, and what no file may hold."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import longtail

ROOT = Path(longtail.__file__).parent
ORDER = (  # a room imports from its own and from those above it
    {"topk", "errors", "ending", "files", "hashes", "locks", "arrays", "cards"}
    | {"devices", "memory", "threads", "units", "options", "calls"}
    | {"ranks", "shards"},
    *({room} for room in ("data", "text", "search", "batches", "losses", "modules", "train", "metrics")),
    *({room} for room in ("model", "transforms", "stages", "recipes", "on_paper", "testing")),
    *({room} for room in ("sklearn", "report", "hub", "bulk", "compare", "serve", "cli", "__main__")),
)
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
WITHOUT_TEST_SPLIT = {"transforms", "batches", "losses", "modules", "train", "stages", "recipes"}
PICKLES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
FUNCTION_LINES, FILE_LINES, PAGE_LINES = 70, 320, 150

FILES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
every_file = pytest.mark.parametrize("name", FILES)


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(source)))


@pytest.fixture(scope="module", autouse=True)
def no_trees_are_kept() -> Iterator[None]:
    """Of all files they are half a million objects, among which each later collection of garbage would look."""
    yield
    nodes.cache_clear()


def room(name: str) -> str:
    """The room of a file: the first part of its path."""
    return name.partition("/")[0].removesuffix(".py")


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Line and full name of whatever is imported, also within functions and where only types are checked."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def rooms_used(source: str) -> Iterator[tuple[int, str]]:
    """Line and room of each import from longtail, and of each ``longtail.<room>`` in an expression."""
    for line, name in imported(source):
        package, _, rest = name.partition(".")
        if package == "longtail" and rest:
            yield line, rest.split(".")[0]
        elif name.startswith("."):
            yield line, name
    for node in nodes(source):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "longtail":
            yield node.lineno, node.attr


def arrows_down(name: str, source: str) -> list[str]:
    """What a file imports from a room further down, or in a way that hides the room."""
    allowed = {other for other, rank in RANK.items() if rank <= RANK[room(name)]} | {"__version__"}
    return [f"{name}:{line} uses {used}" for line, used in rooms_used(source) if used not in allowed]


def calls(source: str) -> Iterator[tuple[ast.Call, str]]:
    """Each call, and the dotted name of what is called."""
    return ((node, ast.unparse(node.func)) for node in nodes(source) if isinstance(node, ast.Call))


def pickles(source: str) -> list[str]:
    """Whatever reads or writes pickles."""
    found = [f"line {line}: {name}" for line, name in imported(source) if name.split(".")[0] in PICKLES]
    for call, name in calls(source):
        loads = name in {"torch.load", "torch.save", "torch.package"} or name.endswith((".read_pickle", ".to_pickle"))
        allows = any(word.arg == "allow_pickle" and ast.unparse(word.value) != "False" for word in call.keywords)
        if loads or allows:
            found.append(f"line {call.lineno}: {name}")
    return found


def cuda_calls(source: str) -> list[str]:
    return [f"line {call.lineno}: {name}" for call, name in calls(source) if name.endswith(".cuda")]


def uses_of_test_split(source: str) -> list[str]:
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in nodes(source)
        if isinstance(node, ast.Attribute) and node.attr == "test"
    ]


def optimizer_steps(source: str) -> list[int]:
    return [call.lineno for call, name in calls(source) if name.split(".")[-2:] == ["optimizer", "step"]]


def long_functions(source: str) -> list[str]:
    functions = [node for node in nodes(source) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    lines = {function.name: (function.end_lineno or 0) - function.lineno + 1 for function in functions}
    return [f"{name}: {length} lines" for name, length in lines.items() if length > FUNCTION_LINES]


@pytest.mark.parametrize(
    "name", [name for name in FILES if name != "__init__.py"]
)  # the package's own file names everything
def test_no_arrow_points_down_the_order_of_rooms(name: str) -> None:
    assert room(name) in RANK, f"{room(name)} has no place in the order of rooms"
    assert arrows_down(name, FILES[name]) == []


def modules(files: dict[str, str]) -> dict[str, set[str]]:
    """Which modules each module imports; a name that a package gives is the package's."""
    names = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in files}
    graph: dict[str, set[str]] = {}
    for module, name in names.items():
        full = {used.partition("longtail.")[2] for _, used in imported(files[name]) if used.startswith("longtail.")}
        found = {used if used in names else used.rpartition(".")[0] for used in full}
        graph[module] = (found & names.keys()) - {module}
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, in order; nothing where there is no circle."""
    done: set[str] = set()

    def follow(module: str, path: list[str]) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        done.add(module)
        return next(filter(None, (follow(other, [*path, module]) for other in sorted(graph[module]))), [])

    return next(filter(None, (follow(module, []) for module in graph)), [])


def test_no_modules_import_each_other() -> None:
    """Not within a room either. The package's own file is left out: it names what it imports at first use."""
    assert circle(modules({name: source for name, source in FILES.items() if name != "__init__.py"})) == []
    planted = {"data/a.py": "from longtail.data.b import x", "data/b.py": "import longtail.data.c", "data/c.py": ""}
    assert circle(modules(planted)) == []
    closed = planted | {"data/c.py": "def f():\n    from longtail.data import a"}
    assert circle(modules(closed)) == ["data.a", "data.b", "data.c"]


@every_file
def test_no_pickle(name: str) -> None:
    assert pickles(FILES[name]) == []


@every_file
def test_nothing_is_nailed_to_a_device(name: str) -> None:
    assert cuda_calls(FILES[name]) == []


@pytest.mark.parametrize("name", [name for name in FILES if room(name) in WITHOUT_TEST_SPLIT])
def test_training_cannot_reach_the_test_split(name: str) -> None:
    assert uses_of_test_split(FILES[name]) == []


@every_file
def test_files_and_functions_are_short(name: str) -> None:
    assert len(FILES[name].splitlines()) <= FILE_LINES
    if room(name) != "recipes":  # a recipe is a page
        assert long_functions(FILES[name]) == []
    elif not name.endswith("papers.py"):  # what papers set
        assert len(FILES[name].splitlines()) <= PAGE_LINES


def test_the_core_verbs_need_no_server_and_no_comparison() -> None:
    modules = "longtail.cli.predict, longtail.cli.evaluate, longtail.report.compose"
    program = f"import sys, {modules}; print(*(name for name in sys.modules if name.startswith('longtail.')))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    loaded = {name.split(".")[1] for name in done.stdout.split()}
    assert "model" in loaded
    assert not loaded & {"serve", "compare"}


def test_one_place_takes_the_step() -> None:
    steps = {name: len(optimizer_steps(source)) for name, source in FILES.items() if optimizer_steps(source)}
    assert steps == {"train/fit.py": 1}


def test_the_rules_have_teeth() -> None:
    """Each finds what it is for."""
    lazy = "def f():\n    from longtail.recipes.dpr import dpr\n"
    assert arrows_down("train/fit.py", lazy) == ["train/fit.py:2 uses recipes"]
    assert arrows_down("cli/train.py", lazy) == []
    assert arrows_down("topk.py", "import longtail.text.bag") == ["topk.py:1 uses text"]
    assert arrows_down("text/bag.py", "from longtail import Dataset") == ["text/bag.py:1 uses Dataset"]
    assert arrows_down("text/bag.py", "import longtail\nlongtail.load('x')") == ["text/bag.py:2 uses load"]
    assert arrows_down("text/bag.py", "from . import sparse") == ["text/bag.py:1 uses ..sparse"]
    assert arrows_down("stages/text.py", "import longtail\nlongtail.__version__") == []
    assert pickles("import pickle") == ["line 1: pickle"]
    assert pickles("x = torch.load(path)") == ["line 1: torch.load"]
    assert pickles("x = np.load(path, allow_pickle=True)") == ["line 1: np.load"]
    assert pickles("x = np.load(path, allow_pickle=False)") == []
    assert cuda_calls("x.cuda()\ntorch.cuda.is_available()") == ["line 1: x.cuda"]
    assert uses_of_test_split("d = dataset.test.targets") == ["line 1: dataset.test"]
    assert optimizer_steps("self.optimizer.step()\nlog.step(1)\noptimizer.step(closure)") == [1, 3]
    assert long_functions("def f():\n" + "    x = 1\n" * 70) == ["f: 71 lines"]
