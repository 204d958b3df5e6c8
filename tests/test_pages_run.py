"""Every code block and command of the tutorials, and of guides that are fenced, does what the page says.

A page is run in order, in a folder of its own. Blocks of Python share their names. Of a ``console`` block each command
is given; what stands below it is what is printed, but for numbers, spaces and lines in place of which there are dots.
A block below ``<!-- not run: why -->`` is passed over; others are not.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from warm import Warm

ROOT = Path(__file__).parents[1]
OLDER = {  # guides whose blocks speak of a run that was trained on real data
    "docs/guides/encoders.md",  # of a language model
    "docs/guides/probabilities.md",
    "docs/guides/serving.md",
}
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (*(ROOT / "docs" / "tutorials").glob("*.md"), *(ROOT / "docs" / "guides").glob("*.md"))
    if page.relative_to(ROOT).as_posix() not in OLDER
)


class Block(NamedTuple):
    line: int
    language: str
    text: str
    left_out: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    found = r"(?:^<!-- not run: (.+) -->\n)?^```(\w*)\n(.*?)^```$"
    for match in re.finditer(found, page, re.MULTILINE | re.DOTALL):
        yield Block(page.count("\n", 0, match.start(2)) + 1, match[2], match[3], match[1] or "")


def commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each command of a ``console`` block, and the lines that are to be printed."""
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, *printed = part.rstrip("\n").split("\n")
        yield shlex.split(command), printed


def bare(line: str) -> str:
    """A line without its numbers, and with single spaces."""
    return " ".join(re.sub(r"\d[\d,.]*", "#", line).split())


def must_print(expected: list[str], printed: str, command: str) -> None:
    """Each line that a page shows is printed, in that order; without dots there is nothing else."""
    left = [bare(line) for line in printed.splitlines() if line.strip()]
    loose = False
    for line in expected:
        if line.strip() == "...":
            loose = True
            continue
        shown, dots = bare(line.removesuffix("...")), line.endswith("...")
        at = next((i for i, one in enumerate(left) if one == shown or (dots and one.startswith(shown))), None)
        assert at is not None, f"{command}: expected {shown!r} in {printed}"
        assert loose or at == 0, f"{command}: expected {shown!r} as the next line of {left}"
        left, loose = left[at + 1 :], False
    assert loose or not left, f"{command}: printed more: {left}"


@pytest.fixture(scope="module")
def run_longtail(tmp_path_factory):
    warm = Warm(tmp_path_factory.mktemp("warm"))
    yield warm.run
    warm.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_says(name: str, run_longtail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / name
    monkeypatch.chdir(tmp_path)
    module = ModuleType("a_page")
    monkeypatch.setitem(sys.modules, "a_page", module)
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.left_out:
            continue
        if block.language == "python":
            code = compile("\n" * block.line + block.text, str(page), "exec")
            exec(code, vars(module))
        elif block.language == "console":
            for (program, *words), expected in commands(block.text):
                assert program == "longtail", f"line {block.line}: only longtail is run, found {program}"
                status, output, errors = run_longtail(*words, folder=tmp_path)
                assert status == 0, f"{name}: longtail {' '.join(words)}: {errors}"
                must_print(expected, output + errors, " ".join(words))
        else:
            assert block.language in {"json", "text"}, (
                f"{name}, line {block.line}: say why a {block.language} is not run"
            )


def test_tutorials_have_blocks_that_are_run() -> None:
    for name in PAGES:
        if name.startswith("docs/tutorials/") and not name.endswith("index.md"):
            assert [one for one in blocks((ROOT / name).read_text(encoding="utf-8")) if not one.left_out], name


def test_what_is_printed_is_held_to_the_page() -> None:
    must_print(["wrote a: 1 document", "...", "in all ..."], "wrote a: 23 document\nx\n\nin all 2 s\n", "it")
    for expected in (["wrote b"], ["wrote a", "...", "never"], []):
        with pytest.raises(AssertionError):
            must_print(expected, "wrote a\nx\n", "it")


def test_blocks_are_found() -> None:
    page = "a\n```python\nx = 1\n```\n<!-- not run: it serves -->\n```sh\ny\n```\n"
    assert [tuple(block) for block in blocks(page)] == [(2, "python", "x = 1\n", ""), (6, "sh", "y\n", "it serves")]
    assert list(commands("$ longtail a \\\n  'b c'\nd\n$ e\n")) == [(["longtail", "a", "b c"], ["d"]), (["e"], [])]
