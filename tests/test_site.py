"""The site: its reference says all that the code has, every page has a place, and it builds without a warning."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

import longtail.errors
from longtail.batches.samplers import SAMPLERS
from longtail.cli.verbs import VERBS, command_of
from longtail.compare.peers import PEERS
from longtail.losses import LOSSES
from longtail.metrics.ranking import METRICS
from longtail.modules.encoders.named import ENCODERS
from longtail.options import options_of
from longtail.recipes import RECIPES
from longtail.search import INDEXES
from longtail.serve.app import api, operation
from longtail.stages.recipe import options_class
from longtail.transforms import TRANSFORMS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def staged(tmp_path_factory) -> Path:
    """The pages that the site is built of."""
    spec = importlib.util.spec_from_file_location("stage", ROOT / "docs" / "stage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("site") / "build" / "docs"
    module.stage(folder)
    return folder


def sections(page: Path) -> dict[str, str]:
    """The text below each heading, up to the next one."""
    parts = re.split(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_reference_has_every_option_of_every_recipe(staged: Path) -> None:
    said = sections(staged / "reference" / "recipes.md")
    for name, recipe in RECIPES.items():
        shared = re.findall(r"\[([^\]]+)\]\(#", said[name])
        rows = set(re.findall(r"^\| `--([a-z0-9-]+)`", "".join(said[one] for one in (name, *shared)), re.MULTILINE))
        assert {option.replace("_", "-") for option in options_of(options_class(recipe))} <= rows, name


def all_flags(command) -> Iterator[str]:
    """The options of a verb and of those below it."""
    for one in command.params:
        yield from one.opts
    for inner in getattr(command, "commands", {}).values():
        yield from all_flags(inner)


def verbs(name: str, command) -> Iterator[tuple[str, list[str]]]:
    """Each verb with its flags and arguments, those below it included."""
    yield name, [flag for one in command.params for flag in (*one.opts, *one.secondary_opts)]
    for below, inner in getattr(command, "commands", {}).items():
        if name != "longtail train":
            yield from verbs(f"{name} {below}", inner)


def test_the_reference_has_every_option_of_every_verb(staged: Path) -> None:
    said = sections(staged / "reference" / "commands.md")
    for verb in VERBS:
        for name, flags in verbs(f"longtail {verb}", command_of(verb)):
            assert [flag for flag in flags if f"`{flag}`" not in said[name]] == [], name
    assert {"--out", "--dry-run", "--threads"} <= set(re.findall("`(--[a-z-]+)`", said["longtail train"]))


def test_the_reference_has_every_name_of_every_table(staged: Path) -> None:
    said = sections(staged / "reference" / "kinds.md")
    tables = {"Encoders": ENCODERS, "Losses": LOSSES, "Transforms": TRANSFORMS, "Samplers": SAMPLERS}
    for title, table in {**tables, "Indexes": INDEXES, "Peers": PEERS, "Metrics": METRICS}.items():
        assert re.findall(r"^\| `([\w-]+)", said[title], re.MULTILINE) == list(table), title
    assert "`margin=0.3`" in said["Losses"]


def test_the_reference_has_every_route_with_every_field(staged: Path) -> None:
    said = sections(staged / "reference" / "http.md")
    routes = [route for router in (api, operation) for route in router.routes if isinstance(route, APIRoute)]
    assert {f"{method} {route.path_format}" for route in routes for method in route.methods} <= said.keys()
    assert {"`texts`", "`threshold`", "`at_most`"} <= set(re.findall("`[a-z_]+`", said["PredictRequest"]))


@pytest.fixture(scope="module")
def sources() -> dict[str, ast.Module]:
    """The trees of all modules, by name."""
    return {
        ".".join(("longtail", *path.relative_to(ROOT / "longtail").with_suffix("").parts)): ast.parse(path.read_bytes())
        for path in (ROOT / "longtail").rglob("*.py")
    }


def test_the_reference_has_every_error(staged: Path, sources: dict[str, ast.Module]) -> None:
    said = sections(staged / "reference" / "errors.md")["In Python"]
    classes = {
        node.name: (f"{module}.{node.name}", {ast.unparse(base) for base in node.bases})
        for module, tree in sources.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    kinds = {"LongtailError"}
    while more := {name for name, (_, bases) in classes.items() if bases & kinds} - kinds:
        kinds |= more
    rows = re.findall(r"^\| `([\w.]+)` \| .+ \| .+ \|$", said, re.MULTILINE)
    assert sorted(rows) == sorted(classes[name][0] for name in kinds - {"LongtailError"})
    assert len(rows) >= 8
    named = {name for name, kind in vars(longtail.errors).items() if isinstance(kind, type) and name in kinds}
    assert named == set(re.findall(r"^::: longtail\.errors\.(\w+)$", said, re.MULTILINE))


def test_the_reference_has_every_name_that_an_error_begins_with(staged: Path, sources: dict[str, ast.Module]) -> None:
    options = {flag.lstrip("-").replace("-", "_") for verb in VERBS for flag in all_flags(command_of(verb))}
    begun = {
        node.args[0].value
        for tree in sources.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"BadInput", "BadValue"}
        if node.args and isinstance(node.args[0], ast.Constant)
    }
    rows = re.findall(
        r"^\| (`[^|]+`) \|", sections(staged / "reference" / "errors.md")["What a line begins with"], re.MULTILINE
    )
    assert len(begun) > 40
    assert begun - options - {"dataset.json"} == set(re.findall(r"`([^`]+)`", "".join(rows)))


def test_every_page_has_its_place_in_the_site(staged: Path) -> None:
    listed = re.findall(
        r"^ +- (?:[\w ]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(page.relative_to(staged).as_posix() for page in staged.rglob("*.md"))


def test_the_site_builds_without_a_warning_and_asks_no_other_host_for_anything(staged: Path) -> None:
    pytest.importorskip("zensical", reason="the site is built with Python 3.11 or later")
    home = staged.parents[1]
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("paths: [.]", f"paths: [{ROOT}]")
    (home / "mkdocs.yml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=home, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout + done.stderr
    pages = [page.read_text(encoding="utf-8") for page in (home / "build" / "site").rglob("*.html")]
    assert len(pages) > len(list(staged.rglob("*.md")))  # and one for what is not there
    loaded = "".join(pages)
    assert re.findall(r"<(?:script|img|iframe)[^>]* src=\"https?:[^\"]*", loaded) == []
    assert set(re.findall(r"<link[^>]* href=\"https?:[^\"]*", loaded)) == set()
    assert 'class="doc doc-object' in loaded  # of docstrings
