"""The checks of scikit-learn for estimators, on texts that are made of the numbers that they give."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

from longtail.sklearn import LongtailClassifier


class OfNumbers(LongtailClassifier):
    """Reads a row of numbers as words, of which near numbers share some, so that checks made for numbers can be run."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string, tags.input_tags.dict = True, False, False
        tags.no_validation = False
        return tags

    def _words(self, X, *, first):
        rows = validate_data(self, X, reset=first)
        return [" ".join(f"c{j}at{v // 1} c{j}by{(v + 0.5) // 1}" for j, v in enumerate(row.tolist())) for row in rows]

    def fit(self, X, y):
        return super().fit(self._words(X, first=True), y)

    def partial_fit(self, X, y, classes=()):
        return super().partial_fit(self._words(X, first=not hasattr(self, "model_")), y, classes)

    def predict(self, X):
        return super().predict(self._checked(X))

    def decision_function(self, X):
        return super().decision_function(self._checked(X))

    def score(self, X, y, sample_weight=None):
        return super().score(self._checked(X), y, sample_weight)

    def _checked(self, X):
        check_is_fitted(self, "model_")
        return self._words(X, first=False)


FAST = OfNumbers("dpr", epochs=1, width=16, device="cpu")
OTHERS = {
    "check_classifiers_train": OfNumbers("dpr", epochs=4, width=64, batch=16, device="cpu"),  # has to learn something
    "check_no_attributes_set_in_init": OfNumbers(),  # options of a recipe are no arguments of the signature
}
LEFT_OUT = {
    "check_classifier_multioutput": "labels are predicted by probability or number: a score above 0 says nothing",
    "check_classifiers_multilabel_representation_invariance": "a list of lists is lists of labels, and no matrix",
    "check_classifiers_multilabel_output_format_predict_proba": "dpr has no probabilities; test_estimator.py has them",
    "check_supervised_y_2d": "a matrix with one column is the indicator of one label",
    "check_decision_proba_consistency": "a probability depends on how frequent a label is, too",
    "check_array_api_input": "texts are in no array of another library",
}
CHECKS = {getattr(check, "func", check).__name__: check for _, check in estimator_checks_generator(FAST)}


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in LEFT_OUT])
def test_an_estimator_of_texts_is_one_of_scikit_learn(name):
    CHECKS[name](OTHERS.get(name, FAST))


def test_nothing_is_left_out_that_is_not_there():
    assert LEFT_OUT.keys() <= CHECKS.keys()
    assert len(CHECKS) > 50
