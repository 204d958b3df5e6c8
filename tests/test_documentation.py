"""The pages: what they lead to and what they name is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import longtail
from longtail.cli.verbs import VERBS, command_of
from longtail.compare.methods import Method
from longtail.recipes import RECIPES
from longtail.transforms import TRANSFORMS

ROOT = Path(__file__).parents[1]
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
}
MADE = re.findall(r'"(reference/\w+\.md)":', (ROOT / "docs" / "stage.py").read_text(encoding="utf-8"))
"""Pages that there are in the site alone, whose build holds links to their headings."""
OF_OTHERS = {"no-deps", "constraint", "help", "version", "logdir", "install-completion", "show-completion"}
OF_OTHERS |= {"nproc-per-node", "nnodes", "max-restarts"}  # of torchrun
OURS = {"unlabelled"}  # transforms that no paper has


def anchors(text: str) -> set[str]:
    """What headings are called in a link."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def options(command) -> set[str]:
    """Of a verb and of the verbs below it, without dashes."""
    below = (options(one) for one in getattr(command, "commands", {}).values())
    own = (name for one in command.params for name in (*one.opts, *one.secondary_opts))
    return {name.lstrip("-") for name in own}.union(*below)


@pytest.fixture(scope="module")
def known() -> set[str]:
    scripts = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("benchmarks", "examples", "tests/faults")
        for path in (ROOT / folder).rglob("*.py")
    )
    return OF_OTHERS.union(
        re.findall(r"(?:\(?\"--|\(\")([a-z0-9-]+)\"", scripts), *(options(command_of(v)) for v in VERBS)
    )


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of ours that is a line of its own, without what a shell does with it."""
    for line in re.sub(r" *\\\n\s*", " ", text).splitlines():
        for part in re.split(r" && | \| ", line.partition(" # ")[0]):
            if found := re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*longtail ([a-z].*)", part):
                yield shlex.split(found[1], comments=True)


@pytest.mark.parametrize("page", PAGES)
def test_a_link_leads_to_a_file_and_a_heading_that_are_there(page: str) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", PAGES[page]):
        path, _, heading = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if target.resolve().relative_to(ROOT).as_posix().removeprefix("docs/") in MADE:
            continue
        assert target.exists(), link
        assert not heading or heading in anchors(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("page", PAGES)
def test_files_of_this_project_that_a_page_names_are_there(page: str) -> None:
    named = re.findall(r"`((?:docs|tests|benchmarks|longtail)/[\w/-]+\.(?:md|py))", PAGES[page])
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_pages_that_the_code_names_are_there() -> None:
    named = {
        (path.relative_to(ROOT).as_posix(), name)
        for folder in ("longtail", "benchmarks", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"(?<![\w/`\"])docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 30
    assert [(path, name) for path, name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_options_that_a_page_names_are_there(page: str, known: set[str]) -> None:
    assert set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", PAGES[page])) - known == set()


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_a_page_shows_have_the_options_of_their_verb(page: str) -> None:
    for verb, *words in commands(PAGES[page]):
        command = command_of(verb)
        command = getattr(command, "commands", {}).get(words[0] if words else "", command)  # a recipe, or a part
        given = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
        assert given <= {*options(command), "help"}, (verb, words)
        for word in words[1:] if verb == "compare" else []:
            if re.fullmatch(r"([\w.-]+=)?[a-z_]+(:.+)?", word) and re.split("[=:]", word)[0] != word:
                Method.parse(word)


def test_every_published_method_of_the_code_has_a_row_in_the_list_of_methods() -> None:
    section = PAGES["docs/explanation/methods/common.md"].partition("## Which methods are here")[2]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| ")]
    assert {here for _, here, _ in rows[1:]} == {"v", "part", "peer", "no"}
    there = {name for _, here, where in rows if here == "v" for name in re.findall(r"`(?:--augment )?(\w+)", where)}
    assert (RECIPES.keys() | TRANSFORMS.keys()) - OURS <= there


def test_the_readme_shows_the_run_that_its_picture_shows() -> None:
    shown = dict(
        re.findall(r"^ (P@1|R@5) .* (\d+\.\d+)\.*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    picture = (ROOT / "docs" / "picture.svg").read_text(encoding="utf-8")
    assert shown.keys() == {"P@1", "R@5"}
    for metric, value in shown.items():
        assert f">{float(value):.1f}<" in picture, f"{metric} {value}: make the picture and the README of one run"


def test_commands_are_found_in_a_page() -> None:
    text = "    $ longtail train x \\\n        --out y && longtail evaluate y  # so\n`longtail list` is no line.\n"
    assert list(commands(text)) == [["train", "x", "--out", "y"], ["evaluate", "y"]]


@pytest.mark.parametrize("page", PAGES)
def test_code_that_is_not_run_names_what_the_package_has_too(page):
    """Modules are attributes of the package only once something has imported them, so that a page has to."""
    for code in re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL):
        for module, names in re.findall(r"^from (longtail[\w.]*) import (.+)$", code, re.MULTILINE):
            assert {name for name in re.findall(r"\w+", names) if not hasattr(import_module(module), name)} == set()
        run = re.sub(r"^ *(?:from|import) .*$|#.*$", "", code, flags=re.MULTILINE)
        assert set(re.findall(r"(?<![\w.])longtail\.(\w+)", run)) <= {*longtail.__all__}
