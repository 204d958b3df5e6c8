"""A part of what `make faults` does: every verb under some faults of each kind, and files of each kind broken."""

from __future__ import annotations

import random
import sys
from collections import defaultdict

import pytest
from faults.calls import baseline, faults, judged
from faults.files import Files, cases
from faults.lab import VERBS, Lab
from faults.layer import COMPILER, REASON
from faults.power import POLICIES, judged_after_power_loss

pytestmark = pytest.mark.skipif(not (COMPILER and sys.platform == "linux"), reason=REASON)
SOME = [
    verb
    for verb in VERBS
    if verb.name in {"train dpr", "train oak"} or verb.name.split()[0] not in {"train", "compare"}
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    opened = Lab.opened(tmp_path_factory.mktemp("faults") / "lab")
    yield opened
    opened.close()


@pytest.mark.parametrize("verb", SOME, ids=lambda verb: verb.name)
def test_a_verb_is_done_or_says_one_line_and_is_done_when_it_is_given_again(lab, verb):
    expected, draw = baseline(lab, verb), random.Random(verb.name)
    by_kind = defaultdict(list)
    for what, fault in faults(expected.calls):
        by_kind[what].append(fault)
    for what, some in by_kind.items():
        fault = draw.choice(some)
        said = judged(lab, verb, fault, expected)
        assert said in {"", "the fault did not happen"}, (what, fault.target, said)
    for policy in POLICIES:
        call = draw.randint(1, expected.calls + 1)
        assert not judged_after_power_loss(lab, verb, call, policy, expected), (policy, call)
    assert not judged_after_power_loss(lab, verb, expected.calls + 1, "nothing", expected)


def test_a_file_that_is_not_as_it_was_written_is_refused_or_changes_nothing(lab):
    files, by_kind, draw = Files(lab), defaultdict(list), random.Random(0)
    for case in cases(lab):
        by_kind[case.shelf, case.damage.name.split(" at ")[0]].append(case)
    for some in by_kind.values():
        case = draw.choice(some)
        assert not files.judged(case), case
