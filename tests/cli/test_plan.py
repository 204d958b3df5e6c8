"""``longtail plan``: what it prints and refuses; its reckoning is tested in tests/on_paper."""

from __future__ import annotations

import json

import pytest

SIZE = ("--documents", "5e8", "--labels", "1e8", "--words", "6", "--world", "64", "--device", "h200")


def test_a_plan_has_memory_steps_and_the_run_and_what_would_not_fit(longtail):
    status, said, errors = longtail("plan", "unidec", *SIZE, "--price", "2.5")
    assert (status, errors) == (0, "")
    for part in (
        "memory of a process",
        "a step of a process",
        "the run",
        "tables, whole",
        "hard negatives",
        "evaluation",
    ):
        assert part in said
    lines = [line for line in said.splitlines() if line.startswith("does not fit: ")]
    assert len(lines) == 4
    assert "at 2.5 an hour" in said
    assert "the largest batch whose steps fit: " in said


def test_figures_for_a_program(longtail):
    found = json.loads(longtail("plan", "renee", *SIZE, "--encoder", "distilbert", "--json", "-")[1])
    assert found["fits"] is False
    assert found["largest_batch"] > 512
    assert found["price"] is None
    assert found["memory"]["a step of joint"]["in all"]["device"] > 0
    assert set(found["steps"]) == {"start", "joint"}
    assert found["run"]["joint"]["seconds"] < found["seconds"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("astec", *SIZE), "recipe: there is no plan on paper for astec; there is for unidec, depsl, ngame"),
        (("unidec", *SIZE[:-1], "tpu"), "--device: there is no plan on paper for tpu; there is for cpu"),
        (("unidec", *SIZE, "--encoder", "bert"), "--encoder: there is no plan on paper for bert"),
        (("unidec", *SIZE, "--batch", "0"), "--batch: expected at least 1, found 0"),
        (("unidec", *SIZE, "--constants", "nowhere.json"), "nowhere.json: expected"),
        (("unidec", "--labels", "5"), "Missing option '--documents'"),
        (("unidec", *SIZE, "--world", "0"), "Invalid value for '--world'"),
    ],
)
def test_what_is_refused_is_refused_in_a_line(words, said, longtail):
    status, out, errors = longtail("plan", *words)
    assert (status, out) == (1, "")
    assert errors.startswith("longtail: ")
    assert said in errors
    assert errors.count("\n") == 1
