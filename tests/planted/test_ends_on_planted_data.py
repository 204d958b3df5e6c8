"""The ends of a text: of documents whose first word is the label, a bag sees which that is if it knows them."""

from __future__ import annotations

import numpy as np
import pytest
from ordered import FIRST_STAGE, NAMES, ordered
from stopping import stopped_in_the_middle

from longtail import load, recipes
from longtail.metrics.ranking import metrics_of
from longtail.model.label_set import LabelSet, NewLabel
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


def test_a_run_that_was_stopped_goes_on_to_the_same_and_sees_the_ends_of_a_label_that_came(tmp_path) -> None:
    data, given = ordered(), {**FIRST_STAGE, "ends": True, "refit": False, "memory": False}
    whole = recipes.unidec(data, **given)
    stopped_in_the_middle(lambda run: recipes.unidec(data, out=run, **given), tmp_path / "run")
    again = recipes.unidec(data, out=tmp_path / "run", **given)
    np.testing.assert_array_equal(again.vectors["encoder"], whole.vectors["encoder"])
    np.testing.assert_array_equal(again.fusion.weights, whole.fusion.weights)
    texts = [f"{one} unknown {other}" for one, other in (NAMES[:2], NAMES[1::-1])]  # of which nothing but ends differs
    labels = LabelSet(tmp_path / "run", device="cpu")
    labels.add([NewLabel(uid, text) for uid, text in zip(("forth", "back"), texts, strict=True)])
    found = labels.refresh().predict(texts, k=1, kind="encoder")
    labels.close()
    assert [top[0].uid for top in found] == ["forth", "back"]
