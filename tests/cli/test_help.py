"""The list of verbs is there at once, and says what the verbs say of themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import longtail as package
from longtail.cli.verbs import VERBS, command_of


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_says_what_the_verb_says(verb: str) -> None:
    assert command_of(verb).get_short_help_str(limit=1000).rstrip(".") == VERBS[verb].help.rstrip(".")


@pytest.mark.parametrize("words", ["--help", "data --help", "data check --help", "no-such-verb"])
def test_what_needs_no_model_does_not_wait_for_pytorch(words: str) -> None:
    program = f"""
import gc, sys
from longtail.cli import main
sys.argv = ["longtail", *{words.split()!r}]
try:
    main()
finally:
    assert "torch" not in sys.modules
    assert gc.isenabled()
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "AssertionError" not in done.stderr
    assert ("No such command" if words == "no-such-verb" else "Usage: longtail") in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "found", "others"),
    [
        ("tr", {"train"}, {"list"}),
        ("data ", {"check", "import"}, {"train"}),
        ("data import --sep", {"--separator"}, {"--out"}),
        ("train unidec --ep", set(), {"--epochs"}),
    ],
)
def test_a_shell_completes_verbs_and_what_needs_no_pytorch(words: str, found: set[str], others: set[str]) -> None:
    program = """
import sys
from longtail.cli import main
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    given = {"_LONGTAIL_COMPLETE": "complete_bash", "COMP_WORDS": f"longtail {words}"}
    given["COMP_CWORD"] = str(len(given["COMP_WORDS"].split(" ")) - 1)
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, env={**os.environ, **given}
    )
    assert done.stderr == ""
    assert found <= set(done.stdout.split())
    assert not others & set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_shell_is_told_how_to_complete() -> None:
    """The shell is the one that asks, whatever started the tests."""
    asked = f"{shlex.quote(sys.executable)} -m longtail --show-completion; exit $?"
    done = subprocess.run(["bash", "-c", asked], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_LONGTAIL_COMPLETE=complete_bash" in done.stdout


def test_verbs_are_grouped_by_what_they_are_for(longtail) -> None:
    output = longtail("--help")[1]
    panels = dict.fromkeys(verb.panel for verb in VERBS.values())
    places = [output.index(f"─ {panel} ─") for panel in panels]
    assert places == sorted(places)


def test_the_version_stands_in_one_place(longtail) -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert longtail("--version") == (0, f"longtail {package.__version__}\n", "")
    assert package.__version__ not in project


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("trian", "No such command 'trian'. Did you mean 'train'? See longtail --help"),
        ("data chek", "No such command 'chek'. Did you mean 'check'? See longtail data --help"),
        ("data check", "Missing argument 'folder'. See longtail data check --help"),
        ("evaluate run --json", "Option '--json' requires an argument. See longtail --help"),
        ("data check x --write-filter", "No such option: --write-filter (Possible options: --write-filters)."),
        ("data split x --out y --rows many", "Invalid value for '--rows': "),
        ("data describe x y", "Got unexpected extra argument"),
    ],
)
def test_arguments_that_are_wrong_are_one_line(longtail, words: str, line: str) -> None:
    status, output, errors = longtail(*words.split())
    assert (status, output) == (1, "")
    assert errors.startswith(f"longtail: {line}")
    assert errors.count("\n") == 1


def test_help_and_nothing_at_all_are_no_errors(longtail) -> None:
    for words in (["--help"], ["data", "--help"], ["data", "check", "--help"]):
        status, output, errors = longtail(*words)
        assert (status, errors) == (0, "")
        assert f"Usage: longtail {' '.join(words[:-1])}".strip() in output
    status, output, errors = longtail()
    assert status == 2
    assert "Usage: longtail" in output + errors


def test_importing_sets_no_environment_variable() -> None:
    program = """
import os
before = dict(os.environ)
import longtail, longtail.cli, longtail.recipes
assert dict(os.environ) == before, os.environ.keys() - before.keys()
"""
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.mark.parametrize("given", [None, "ACTIVE"])
def test_the_command_line_lets_threads_sleep_unless_it_is_told(given: str | None) -> None:
    program = """
import os, sys
from longtail.cli import main
sys.argv = ["longtail", "--version"]
try:
    main()
finally:
    print(os.environ["OMP_WAIT_POLICY"])
"""
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    environment |= {"OMP_WAIT_POLICY": given} if given else {}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == (given or "PASSIVE")


def test_predicting_does_not_wait_for_what_it_does_not_use() -> None:
    """Each of these costs from 0.2 s to seconds."""
    heavy = {"scipy.optimize", "faiss", "fastapi", "matplotlib", "pyarrow"}
    program = f"import sys, longtail.cli.predict; found = {heavy!r} & set(sys.modules); assert not found, found"
    subprocess.run([sys.executable, "-c", program], check=True)
