"""Plans on paper beside what was measured, and the page that shows them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import constants  # noqa: E402
import sizes  # noqa: E402
import torch  # noqa: E402

from longtail.on_paper.work import KINDS  # noqa: E402

RUNS = sizes.grown()


def test_there_are_runs_to_compare_with() -> None:
    assert len(RUNS) >= 3


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['recipe']}-{run['labels']}")
def test_a_plan_is_within_half_as_much_again_of_what_was_measured(run) -> None:
    for name, (said, measured) in sizes.compared(run).items():
        assert 1 / 1.5 < said / measured < 1.5, (name, said, measured)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['recipe']}-{run['labels']}")
def test_so_are_its_larger_parts(run) -> None:
    plan, whole = sizes.planned(run), run["training"]["processor_seconds"]
    for name, measured in ((name, part["processor_seconds"]) for name, part in run["parts"].items()):
        part = plan.run.get({"learning on held-out documents": "fusion"}.get(name, name))
        if part is not None and measured > 0.25 * whole:
            assert 1 / 1.5 < part.times * part.seconds / measured < 1.5, name


def test_the_page_has_what_the_script_writes() -> None:
    page = sizes.PAGE.read_text(encoding="utf-8")
    assert set(sizes.TABLES) == {name for _, name, _ in sizes.BLOCK.findall(page)}
    assert sizes.made(page) == page, "run python benchmarks/sizes.py"


def test_constants_are_measured_by_the_names_that_a_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, small in (("ROWS", 2000), ("TOKENS", 64), ("TEXTS", 500)):
        monkeypatch.setattr(constants, name, small)
    found = constants.measured(torch.device("cpu"), 1)
    assert set(found) < set(KINDS)
    assert all(value > 0 for value in found.values())
    slow = constants.rate(100, lambda: sum(range(200_000)), torch.device("cpu"), 1)
    assert slow < constants.rate(100, lambda: None, torch.device("cpu"), 1)
