"""Every code block and command of the README and the pages does what the page says.

A page is run in order, in a folder of its own. Blocks of Python share their names. Of a ``console`` block each command
is given; what stands below it is what is printed, but for numbers, spaces and lines in place of which there are dots. A
file that ``cat`` shows is made, if it is not there. A block below ``<!-- not run: why -->`` is passed over; others are
not. Guides and what is explained speak of the data and the run of ``make demo``: small ones stand in for them.

Pages of the lab, those of methods among them, are left out: their commands made figures, on real data and in hours.
`test_documentation` holds them to the options that there are.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyarrow import parquet
from tiny_bert import write_tiny_bert

from longtail import Dataset
from longtail.batches.samplers import SAMPLERS
from longtail.compare.peers import PEERS
from longtail.losses import LOSSES
from longtail.metrics.ranking import METRICS
from longtail.modules.encoders.named import ENCODERS
from longtail.recipes import RECIPES
from longtail.search import INDEXES
from longtail.testing.planted import planted
from longtail.train.trackers import TRACKERS
from longtail.transforms import TRANSFORMS

ROOT = Path(__file__).parents[1]
LAB = {f"docs/explanation/{name}.md" for name in ("benchmarks", "reproducing", "reliability")}
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (
        *(ROOT / "README.md", ROOT / "docs" / "index.md"),
        *(
            page
            for room in ("tutorials", "guides", "reference", "explanation")
            for page in (ROOT / "docs" / room).glob("*.md")
        ),
    )
    if page.relative_to(ROOT).as_posix() not in LAB
)


class Block(NamedTuple):
    line: int
    language: str
    text: str
    left_out: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    found = r"(?:^<!-- not run: ([^\n]+) -->\n)?^```(\w*)\n(.*?)^```$"
    for match in re.finditer(found, page, re.MULTILINE | re.DOTALL):
        yield Block(page.count("\n", 0, match.start(2)) + 1, match[2], match[3], match[1] or "")


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a ``console`` block, and the lines that are to be printed."""
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, *printed = part.rstrip("\n").split("\n")
        yield command, printed


def parts(command: str) -> Iterator[list[str]]:
    """The words of each program of a pipe; the file that the last one writes to stands behind ``>>``."""
    words = shlex.shlex(command, posix=True, punctuation_chars="|")
    words.whitespace_split = True
    for is_pipe, group in groupby(words, "|".__eq__):
        if not is_pipe:
            yield list(group)


def printed_by(command: str, longtail: Callable[..., tuple[int, str, str]], folder: Path) -> str:
    """What a command prints, each program of which reads what the one before it wrote."""
    output, errors = "", ""
    for program, *words in parts(command):
        into = words.index(">>") if ">>" in words else len(words)
        if program == "longtail":
            status, output, said = longtail(*words[:into], folder=folder, stdin=output)
        else:
            assert program in {"cat", "cp", "echo", "grep", "rm"}, f"{command}: say why it is not run"
            done = subprocess.run(
                [program, *words[:into]], cwd=folder, input=output, capture_output=True, text=True, check=False
            )
            status, output, said = done.returncode, done.stdout, done.stderr
        assert status == (1 if command.startswith("longtail data check broken") else 0), f"{command}: {said}"
        errors += said
        if words[into:]:
            with (folder / words[-1]).open("a") as file:
                file.write(output)
            output = ""
    return output + errors


def bare(line: str) -> str:
    """A line without its numbers and shares, and with single spaces and short rules."""
    without = re.sub(r"\d[\d,.]*(?: \([\d.]+ %\))?", "#", line)
    return " ".join(re.sub(r"─+", "─", without).split())


def must_print(expected: list[str], printed: str, command: str) -> None:
    """Each line that a page shows is printed, in that order; without dots there is nothing else."""
    left = [bare(line) for line in printed.splitlines() if line.strip()]
    loose = False
    for line in filter(str.strip, expected):
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
def demo(tmp_path_factory, longtail) -> Path:
    """A folder with what pages take to be there: the data and the run of the demo, and files of a reader's own."""
    folder = tmp_path_factory.mktemp("demo")
    theirs = json.loads((ROOT / "examples" / "debian-packages" / "dataset.json").read_text(encoding="utf-8"))
    names = {key: theirs[key] for key in ("name", "description", "licence")}
    dataset = replace(planted(0, documents=520, test_documents=100, labels=64).dataset, **names)
    dataset.write(folder / "examples" / "debian-packages")
    broken = folder / "broken"
    Dataset.from_texts(["a", "b", "c"], [[0], [1], [2]], ["red", "green", "blue"]).write(broken)
    lines = [json.dumps({"title": "a", "target_ind": [label]}) + "\n" for label in (0, 3, 2)]
    (broken / "trn.json.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (broken / "filter_labels_train.txt").write_text("0 1\n1\n")
    few = ("--no-refit", "--batch", 64, "--epochs", 8)
    status, _, errors = longtail(
        "train", "unidec", "examples/debian-packages", *few, "--out", "runs/demo", folder=folder
    )
    assert status == 0, errors
    shutil.copytree(folder / "runs" / "demo", folder / "runs" / "newer")
    write_tiny_bert(folder / "my-model", length=32)
    titles = dataset.test.documents.fields["title"]
    (folder / "new.txt").write_text("".join(f"{titles[i]}\n" for i in range(3)))
    (folder / "new.csv").write_text("sku,title\n1,blue shoes\n2,a tent\n")
    (folder / "texts").mkdir()
    parquet.write_table(pa.table({"title": [titles[i] for i in range(20)]}), folder / "texts" / "part-0.parquet")
    with (folder / "products.csv").open("w", newline="") as file:
        kinds = [("red running shoes", "sport;shoes"), ("two-person tent", "outdoor;camping")]
        csv.writer(file, lineterminator="\n").writerows([("title", "labels"), *kinds * 250])
    return folder


def prepare(name: str, demo: Path, folder: Path) -> None:
    """Put what a page takes to be there into its folder. Tutorials begin with nothing; the README trains the run."""
    if "/tutorials/" not in name:
        shutil.copytree(demo, folder, dirs_exist_ok=True)
    if name == "README.md":
        shutil.rmtree(folder / "runs")


@pytest.fixture
def tables() -> Iterator[None]:
    """What a page adds to a table is gone after it."""
    known: list[dict] = [ENCODERS, INDEXES, LOSSES, METRICS, PEERS, RECIPES, SAMPLERS, TRACKERS, TRANSFORMS]
    kept = [dict(table) for table in known]
    yield
    for table, rows in zip(known, kept, strict=True):
        table.clear()
        table.update(rows)


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_says(
    name: str, demo: Path, longtail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / name
    left = [block for block in blocks(page.read_text(encoding="utf-8")) if not block.left_out]
    if any(block.language in {"python", "console"} for block in left):
        prepare(name, demo, tmp_path)
    monkeypatch.chdir(tmp_path)
    module = ModuleType("a_page")
    monkeypatch.setitem(sys.modules, "a_page", module)
    for block in left:
        if block.language == "python":
            code = compile("\n" * block.line + block.text, str(page), "exec")
            exec(code, vars(module))
        elif block.language == "console":
            for command, expected in commands(block.text):
                if (shown := re.fullmatch(r"cat (\S+)", command)) and not Path(shown[1]).exists():
                    Path(shown[1]).write_text("".join(f"{line}\n" for line in expected))
                must_print(expected, printed_by(command, longtail, tmp_path), f"{name}, {command}")
        else:
            assert block.language in {"json", "text"}, (
                f"{name}, line {block.line}: say why a {block.language} is not run"
            )


@pytest.mark.parametrize("name", PAGES)
def test_no_code_stands_outside_of_the_blocks(name: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    code = r"^ {4,}(?:\$ |(?:[A-Z_]+=\S+ )?(?:longtail|python3?|pip|make|from|import) ).*"
    assert re.findall(code, text, re.MULTILINE) == []


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
    page = "a\n<!-- not run: it serves -->\n```sh\ny\n```\n```python\nx = 1\n```\n"
    page += "<!-- not run: it asks -->\n```sh\nz\n```\n"
    assert [tuple(block) for block in blocks(page)] == [
        (3, "sh", "y\n", "it serves"),
        (6, "python", "x = 1\n", ""),
        (10, "sh", "z\n", "it asks"),
    ]
    assert list(commands("$ a \\\n  'b c'\nd\n$ e\n")) == [("a    'b c'", ["d"]), ("e", [])]
    assert list(parts("echo 'a b' | longtail c=d >> e  # f")) == [["echo", "a b"], ["longtail", "c=d", ">>", "e"]]
