"""A fusion that is learned on documents that were held out."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from longtail import Dataset, recipes
from longtail.data.dataset import Propensity
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.metrics.propensity import inverse_propensity
from longtail.stages.held_out import FusionOptions, fuse, hold_out, worth_of
from longtail.testing.planted import planted
from longtail.topk import FloatArray
from longtail.train.log import LOG, Log, read_log
from longtail.train.run import Run


def test_a_fusion_is_not_led_astray_by_labels_that_no_scorer_finds() -> None:
    """One label without training points is found, and is true; 200 others like it are found by no scorer.

    What is learned from the one alone puts all of them first.
    """
    n, seen, unseen = 200, 400, 200
    titles = [f"common word{i}" for i in range(n)]
    texts = Texts.of(titles)
    model = recipes.dpr(Dataset.from_texts(titles, [[i] for i in range(n)], titles), epochs=0)
    x = model.encode(texts)[:, :-1]  # (n, D), all of them alike
    rng = np.random.default_rng(0)
    bias = np.repeat([[0], [-3]], [seen, 1 + unseen], 0)

    def noisy() -> FloatArray:
        near = x[np.arange(seen) % n] + 4 * rng.normal(size=(seen, x.shape[1])) / x.shape[1] ** 0.5
        return np.concatenate([near, x[:1], np.zeros((unseen, x.shape[1]))]).astype(np.float32)

    z, w = noisy(), np.concatenate([noisy(), bias], 1).astype(np.float32)
    frequency = np.repeat([5, 0], [seen, 1 + unseen])
    labels = Texts.of([str(label) for label in range(len(z))])
    model = replace(model, labels=labels, vectors={"encoder": z, "classifier": w}, ids=np.arange(len(z)))
    truth = csr_of_lists([[seen], *([i, i + n] for i in range(1, n))], len(z))
    train = Split(texts.take(np.arange(5)), csr_of_lists([np.flatnonzero(frequency)] * 5, len(z)))
    fused = fuse(Run(), model, Split(texts, truth), train, FusionOptions(memory=False))

    def right(kind: str) -> int:
        first = fused.search(fused.encode(texts), 1, kind=kind).ids[:, 0]
        return int(np.asarray(truth[np.arange(n), first]).sum())

    assert right("fused") >= right("encoder") > n / 2


def test_what_a_hit_is_worth_by_hand() -> None:
    validation = csr_of_lists([[0, 1], [0], [0, 2]], 4)
    targets = csr_of_lists([[0]] * 5 + [[1]], 4)
    assert worth_of("precision", validation, targets, None) is None
    coverage = worth_of("coverage", validation, targets, None)
    np.testing.assert_allclose(coverage, [1 / 3, 1, 1, 1])
    for constants, A, B in ((Propensity(0.6, 2.6), 0.6, 2.6), (None, 0.55, 1.5)):
        np.testing.assert_array_equal(
            worth_of("tail", validation, targets, constants), inverse_propensity(targets, A, B)
        )


def test_a_memory_that_is_dropped_or_not_tried_is_said_with_the_figures(tmp_path) -> None:
    """Labels that are true at random: what a neighbour has says nothing."""
    n = 240
    titles, rng = [f"word{i}" for i in range(n)], np.random.default_rng(0)
    data = Dataset.from_texts(titles, [[int(i) % 60] for i in rng.permutation(n)], titles)
    model, said = recipes.dpr(data, epochs=0), io.StringIO()
    fused, run = replace(model, vectors=dict(model.vectors) | {"classifier": model.vectors["encoder"]}), Run()
    run.log = Log(tmp_path / LOG, Console(file=said, width=400))
    for documents in (150, 20):
        held_out, rest = (data.train.take(rows) for rows in np.split(np.arange(n), [documents]))
        assert fuse(run, fused, held_out, rest, FusionOptions()).kinds[-1] == "fused"
    dropped, related, untried = said.getvalue().splitlines()
    figures = r"the mean of P@1, P@3 and P@5, [\d.]+ with it and [\d.]+ without \(± [\d.]+\)"
    tail = r"first places, rare labels worth more, [\d.]+ and [\d.]+ \(± [\d.]+\)"
    assert re.fullmatch(rf"memory dropped: {figures}; {tail}; on 150 held-out documents", dropped)
    assert re.fullmatch(rf"related-labels dropped: {figures}; {tail}; on 150 held-out documents", related)
    noted = [line["memory"] for line in read_log(tmp_path / LOG) if "memory" in line]
    assert [(one["kept"], one["documents"]) for one in noted] == [(False, 150), (False, 20)]
    assert f"{noted[0]['with']} with it and {noted[0]['without']} without" in dropped
    assert untried == "memory not tried: too little to learn from; on 20 held-out documents"


def test_a_recipe_fuses_by_what_is_preferred() -> None:
    """Training is the same, and the fusion is that which is learned with the preference."""
    data = planted(0, documents=800, test_documents=16, labels=64).dataset
    small = {"width": 8, "epochs": 1, "validation": 0.2, "refit": False, "device": "cpu"}
    plain = recipes.unidec(data, **small)
    (rest, held_out), differs = hold_out(data, 0.2, 0), []
    for given in ({"prefer": "tail"}, {"prefer": "coverage"}, {"tail_price": 0.0}, {"tail_price": 5.0}):
        trained = recipes.unidec(data, **given, **small)
        np.testing.assert_array_equal(trained.vectors["classifier"], plain.vectors["classifier"])
        expected = fuse(Run(), plain, held_out, rest.train, FusionOptions(**given), propensity=data.propensity)
        np.testing.assert_array_equal(trained.fusion.weights, expected.fusion.weights)
        differs.append(not np.array_equal(trained.fusion.weights, plain.fusion.weights))
    assert any(differs[:2])
    assert all(differs[2:])
    assert FusionOptions(tail_price=5.0).price == 0.05
    assert [FusionOptions(prefer=prefer, tail_price=5.0).price for prefer in ("tail", "coverage")] == [0, 0]
    with pytest.raises(BadInput, match="prefer: expected one of precision, tail, coverage, found head"):
        recipes.unidec(data, prefer="head", **small)
