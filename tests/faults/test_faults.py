"""A part of what `make faults` does: every verb under some faults of each kind, and files of each kind broken."""

from __future__ import annotations

import random
import sys
from collections import defaultdict

import pytest
from faults.calls import baseline, faults, judged
from faults.files import Files, cases
from faults.lab import NOT_HAPPENED, VERBS, Lab
from faults.layer import COMPILER, REASON
from faults.power import POLICIES, judged_after_power_loss

pytestmark = pytest.mark.skipif(not (COMPILER and sys.platform == "linux"), reason=REASON)
SOME = [verb for verb in VERBS if verb.name == "train dpr" or verb.name.split()[0] not in {"train", "compare"}]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    opened = Lab.opened(tmp_path_factory.mktemp("faults") / "lab")
    yield opened
    opened.close()


def wrong_with_the_first(judge, cases):
    """What is wrong with what comes of the first case that happens, or nothing."""
    for case in cases:
        if (said := judge(case)) != NOT_HAPPENED:
            return said and f"{case}: {said}"
    return NOT_HAPPENED


@pytest.mark.parametrize("verb", SOME, ids=lambda verb: verb.name)
def test_a_verb_is_done_or_says_one_line_and_is_done_when_it_is_given_again(lab, verb):
    expected, draw = baseline(lab, verb), random.Random(verb.name)
    by_kind = defaultdict(list)
    for what, fault in faults(verb, expected.calls):
        by_kind[what].append(fault)
    for what, some in by_kind.items():
        drawn = [draw.choice(some), draw.choice(some), some[0]]  # what only a write can have comes to the next one
        wrong = wrong_with_the_first(lambda fault: judged(lab, verb, fault, expected), drawn)
        assert not wrong, (what, wrong)
    for policy in POLICIES:
        call = draw.randint(1, expected.calls + 1)
        assert not judged_after_power_loss(lab, verb, call, policy, expected), (policy, call)
    assert not judged_after_power_loss(lab, verb, expected.calls + 1, "nothing", expected)


def test_a_file_that_is_not_as_it_was_written_is_refused_or_changes_nothing(lab):
    files, by_kind, draw = Files(lab), defaultdict(list), random.Random(0)
    for case in cases(lab):
        by_kind[case.shelf, case.damage.name.split(" at ")[0]].append(case)
    for some in by_kind.values():
        wrong = wrong_with_the_first(files.judged, draw.sample(some, len(some)))
        assert not wrong, wrong
