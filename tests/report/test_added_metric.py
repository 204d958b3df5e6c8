"""A metric is a function and a row: one from outside is in every place that shows metrics."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from longtail.metrics.places import Ratio
from longtail.metrics.ranking import METRICS, Metric
from longtail.metrics.summary import Ranked, measure
from longtail.report.compose import about, report_of_rows
from longtail.report.judge import Judge, as_json, differences, judged
from longtail.report.markdown import markdown
from longtail.report.outcome import Outcome
from longtail.report.terminal import summary
from longtail.testing.planted import planted
from longtail.topk import TopK
from longtail.train.cost import Cost

LINE = "toy: 1 where the first k hold any <true> label"
NAMES = ["toy@1", "toy@3", "toy@5"]


def any_hit(pairs, k):
    """A success rate."""
    return Ratio((pairs.per_document(pairs.hits(k)) > 0).astype(np.float64), np.ones(pairs.n))


@pytest.fixture
def dataset(monkeypatch):
    """A data set while there is the toy."""
    row = Metric(any_hit, LINE, differences=(3,), summary=(3,), cost=(3,), card=(3,), best="any label found")
    monkeypatch.setitem(METRICS, "toy", row)
    monkeypatch.setitem(METRICS, "R", replace(METRICS["R"], cost=()))  # a page has room for two
    monkeypatch.setitem(METRICS, "P", replace(METRICS["P"], cost=()))
    return planted(0, documents=120, test_documents=30, labels=40).dataset


def ranking(truth, seed):
    generator, (n, L) = np.random.default_rng(seed), truth.shape
    ids = generator.permuted(np.tile(np.arange(L), (n, 1)), axis=1)[:, :10]
    return TopK(ids, np.zeros(ids.shape, np.float32))


def share_of(top, truth, k):
    """The toy, as a loop."""
    rows = truth.toarray()
    return 100 * np.mean([rows[i, top.ids[i, :k]].any() for i in range(len(rows))])


def test_it_is_in_the_evaluation(dataset):
    truth, train = dataset.test.targets, dataset.train.targets
    top = ranking(truth, 0)
    ranked = Ranked(np.zeros((len(truth.indptr) - 1, 1), np.float32), {"encoder": top}, {"encoder": 1.0})
    found = measure(ranked, truth, train, [dataset.propensity], headline="encoder", generator=np.random.default_rng(0))
    assert found.kinds["encoder"]["toy@5"] == pytest.approx(share_of(top, truth, 5))
    assert found.as_dict()["kinds"]["encoder"].keys() >= set(NAMES)
    assert found.as_dict()["intervals"]["encoder"].keys() >= set(NAMES)
    assert all(name in str(found) for name in NAMES)


def test_it_is_in_every_table_of_a_comparison(dataset):
    judge, settings = Judge.of(dataset), {"arguments": {}, "versions": {"longtail": "1"}}
    rows = {}
    for seed, label in enumerate(("one", "two")):
        top = ranking(judge.test.targets, seed)
        outcome = Outcome({"encoder": top}, {"encoder": 1.0}, 2**20, Cost(1.0, 2**27), settings, 0, "longtail", [])
        rows[label] = judged("dpr", {}, [outcome], judge)
    results = {
        **about(dataset, dataset.fingerprint(), judge),
        "rows": {label: as_json(row) for label, row in rows.items()},
        "differences": {"two": differences(rows["one"], rows["two"])},
        "failed": {},
        "stopped": {},
    }
    kept = json.loads(json.dumps(results))
    top = rows["one"].outcomes[0].tops["encoder"]
    assert kept["rows"]["one"]["kinds"]["encoder"]["toy@3"]["mean"] == pytest.approx(
        share_of(top, judge.test.targets, 3)
    )
    assert kept["differences"]["two"].keys() >= set(NAMES)
    accuracy, difference = (line for line in markdown(results).splitlines() if "toy@3" in line)
    assert accuracy.endswith("| toy@1 | toy@3 | toy@5 |")
    assert difference.endswith("| toy@3 |")
    console = Console(width=200)
    with console.capture() as captured:
        console.print(summary(results))
    assert "toy@3" in captured.get()
    narrow = Console(width=80)
    with narrow.capture() as captured:
        narrow.print(summary({**results, "rows": {"a name that is longer than there is room": results["rows"]["one"]}}))
    assert "…" not in captured.get()
    assert f"{kept['rows']['one']['kinds']['encoder']['P@1']['mean']:.2f}" in captured.get()
    page = report_of_rows(results, rows, dataset, judge)
    assert page.count('<th title="toy: 1 where the first k hold any &lt;true&gt; label">') == 3 + 1
    assert "toy@3, any label found" in page
    assert "toy@3, in percent, against training time" in page
