"""The ends of a text: of documents whose first word is the label, a bag sees which that is if it knows them."""

from __future__ import annotations

import pytest
from ordered import FIRST_STAGE, ordered

from longtail import load, recipes
from longtail.metrics.ranking import metrics_of
from longtail.options import options_of
from longtail.stages.recipe import options_class


@pytest.mark.parametrize("recipe", ["unidec", "ngame"])
def test_the_first_word_is_told_from_the_last(recipe: str, tmp_path) -> None:
    data, given = ordered(), {"refit": False, "memory": False, "classifier_epochs": 4}
    known = {name: given[name] for name in given if name in options_of(options_class(recipes.RECIPES[recipe]))}
    found = {}
    for ends in (False, True):
        out = tmp_path / str(ends)
        model = recipes.RECIPES[recipe](data, out=out, **known, **FIRST_STAGE | {"ends": ends})
        found[ends] = metrics_of(model.rank(data.test.documents, 1), data.test.targets, ks=[1])["P@1"]
        again = load(out, device="cpu").rank(data.test.documents, 1)
        assert metrics_of(again, data.test.targets, ks=[1])["P@1"] == found[ends]
    assert found[False] < 70  # two labels are as likely
    assert found[True] > 90
