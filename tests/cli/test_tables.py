"""What there is of each kind is listed, and what is added from outside is found in lists and in help."""

from __future__ import annotations

import subprocess
import sys

import pytest

from longtail.cli.tables import TABLES


@pytest.mark.parametrize("kind", TABLES)
def test_each_row_has_a_line(kind):
    rows = TABLES[kind]()
    assert rows
    assert all(about and "\n" not in about for about in rows.values())


def test_a_kind_that_there_is_not_is_one_line(longtail):
    status, _, errors = longtail("list", "wizards")
    assert status == 1
    assert errors.startswith("longtail: list: expected one of recipes, encoders, losses, ")


def test_toys_from_outside_are_listed_and_a_loss_is_a_choice_in_the_help_of_a_recipe():
    program = """
import sys
from longtail.batches.samplers import SAMPLERS
from longtail.cli import main
from longtail.compare.peers import PEERS
from longtail.losses import LOSSES
from longtail.metrics.ranking import METRICS
from longtail.modules.encoders.named import ENCODERS
from longtail.search import INDEXES
from longtail.transforms import TRANSFORMS
for table in (LOSSES, METRICS, ENCODERS, INDEXES, TRANSFORMS, SAMPLERS, PEERS):
    table["toy"] = next(iter(table.values()))
for words in ("list", "train dpr --help", "compare --help"):
    sys.argv = ["longtail", *words.split()]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
    print("-- said")
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    listed, recipe, compare, _ = done.stdout.split("-- said")
    assert listed.count("toy ") == 7
    assert "toy" in recipe.partition("--loss ")[2].partition("[default")[0]
    assert "toy" in compare
