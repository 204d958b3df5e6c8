"""The list of verbs is there at once, and says what the verbs say of themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

from longtail.cli import VERBS, command_of


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_says_what_the_verb_says(verb: str) -> None:
    assert command_of(verb).get_short_help_str(limit=1000).rstrip(".") == VERBS[verb].help.rstrip(".")


@pytest.mark.parametrize("words", ["--help", "data --help", "data check --help", "no-such-verb"])
def test_what_needs_no_model_does_not_wait_for_pytorch(words: str) -> None:
    program = f"""
import sys
from longtail.cli import main
sys.argv = ["longtail", *{words.split()!r}]
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "AssertionError" not in done.stderr
    assert "Usage: longtail" in done.stdout + done.stderr
