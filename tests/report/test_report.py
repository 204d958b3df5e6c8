"""The report: examples, plots, and a page that is whole and needs nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from whole_page import Whole

from longtail.data.texts import Texts
from longtail.report.compose import about
from longtail.report.compose import report_of_rows as report
from longtail.report.examples import MethodRanking, examples
from longtail.report.figures import graph_curves, noted_of_graphs, training_curves
from longtail.report.html_page import page, series_of
from longtail.report.judge import Judge, as_json, differences, judged
from longtail.report.outcome import Outcome
from longtail.report.svg import Point, curves, pareto, scatter
from longtail.testing.planted import planted
from longtail.topk import TopK
from longtail.train.cost import Cost
from longtail.train.log import LOG, read_log
from longtail.units import duration, size

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
HOSTILE = '</script><b>"&'


def embedded(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture(scope="module")
def dataset():
    data = planted(0, documents=120, test_documents=30, labels=40).dataset
    titles = list(data.labels.fields["title"])
    return replace(data, labels=Texts.of([HOSTILE + titles[0], *titles[1:]]), name="A & B")


@pytest.fixture(scope="module")
def judge(dataset):
    return Judge.of(dataset)


def run_of(folder, judge, label, kinds, seed=0):
    """A run with a random ranking a score kind."""
    generator, n, L = np.random.default_rng(seed), *judge.test.targets.shape
    orders = {kind: generator.permuted(np.tile(np.arange(L), (n, 1)), axis=1)[:, :10] for kind in kinds}
    tops = {kind: TopK(ids, np.zeros(ids.shape, np.float32)) for kind, ids in orders.items()}
    settings = {"arguments": {"batch": 64}, "versions": {"longtail": "1"}}
    milliseconds = dict.fromkeys(kinds, 0.5)
    cost = Cost(seed + 9, 2**27)
    return label, Outcome(tops, milliseconds, 2**21, cost, settings, 0, "longtail train dpr", read_log(folder / LOG))


def results_of(runs, dataset, judge, failed=(), stopped=()):
    rows = {label: judged("dpr", {}, [outcome], judge) for label, outcome in runs}
    first = next(iter(rows.values()), None)
    return rows, {
        **about(dataset, dataset.fingerprint(), judge),
        "rows": {label: as_json(row) for label, row in rows.items()},
        "differences": {label: differences(first, row) for label, row in list(rows.items())[1:]},
        "failed": dict(failed),
        "stopped": dict(stopped),
    }


def test_the_page_of_a_comparison_is_whole_and_needs_nothing_else(tmp_path, dataset, judge):
    log = [{"stage": "encoder", "step": 1, "graphs": {"<link>.labels": {"edges": 1234, "of": 4936, "weight": 0.5}}}]
    log += [{"stage": "encoder", "epoch": i, "step": i, "pool": 3, "terms": {"<triplet>": 1 / i}} for i in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in log))
    runs = [run_of(tmp_path, judge, "one", ["encoder", "fused"]), run_of(tmp_path, judge, HOSTILE, ["peer"], 1)]
    rows, results = results_of(runs, dataset, judge, {"three": {"0": "no <memory>"}}, {"four": {"1": "over <10m>"}})
    text = report(results, rows, dataset, judge)
    whole = Whole(text)
    for wanted in (
        "A & B",
        ", seed 0, failed: no <memory>",
        ", seed 1, stopped: over <10m>; a larger budget lets it go on",
        "Head to tail",
        "Examples",
        HOSTILE,
        "<triplet>",
        "<link>.labels",
        "25.0 %",
        "64",
        "9 s",
        "2.0 MiB",
    ):
        assert any(wanted in found for found in whole.texts), wanted
    for tag, name, value in whole.attributes:
        assert name not in {"src", "onclick", "onload"}
        assert name != "href" or value.startswith("#"), tag
    assert "url(" not in text
    assert "import" not in text
    anchors = [value for _, name, value in whole.attributes if name == "href"]
    assert {anchor[1:] for anchor in anchors} <= {value for _, name, value in whole.attributes if name == "id"}
    for row in results["rows"].values():
        for of in row["kinds"].values():
            assert f"{of['nDCG@5']['mean']:.2f}" in whole.texts
    assert embedded(text)["methods"] == ["one", HOSTILE]


def test_the_page_of_one_run_compares_its_score_kinds(tmp_path, dataset, judge):
    rows, results = results_of([run_of(tmp_path, judge, "one", ["encoder", "fused"])], dataset, judge)
    text = report(results, rows, dataset, judge)
    Whole(text)
    assert [one.name for one in series_of(results["rows"])] == ["encoder", "fused"]
    assert embedded(text)["methods"] == ["encoder", "fused"]
    assert "Accuracy against cost" not in text
    assert "shortest" not in text
    rows, results = results_of([run_of(tmp_path, judge, "one", ["encoder"])], dataset, judge)
    text = report(results, rows, dataset, judge)
    Whole(text)
    assert embedded(text)["methods"] == ["one"]
    assert 'id="first"' not in text


def test_the_page_of_a_comparison_in_which_all_failed_says_so(dataset, judge):
    _, results = results_of([], dataset, judge, {"one": {"0": "no memory"}})
    text = page(results, {}, {})
    assert "no memory" in Whole(text).texts[-1]
    assert "<script" not in text


def test_without_propensities_there_is_no_psp_on_the_page(tmp_path, dataset):
    data = replace(dataset, propensity=None)
    judge = Judge.of(data)
    runs = [run_of(tmp_path, judge, label, ["encoder"], seed) for seed, label in enumerate(("one", "two"))]
    rows, results = results_of(runs, data, judge)
    text = report(results, rows, data, judge)
    Whole(text)
    assert "PSP" not in text
    assert "R@5 against training time" in text


def test_examples_are_documents_on_which_one_is_ahead_with_the_rankings_of_all(dataset, judge):
    n = len(judge.test)
    generator = np.random.default_rng(0)
    tops = [generator.permuted(np.tile(np.arange(40), (n, 1)), axis=1)[:, :10] for _ in range(3)]
    quality = [np.arange(n) % 2.0, np.arange(n) % 3.0, np.full(n, 5.0)]
    methods = [
        MethodRanking(f"m{i}", TopK(ids, np.zeros(ids.shape, np.float32)), each)
        for i, (ids, each) in enumerate(zip(tops, quality, strict=True))
    ]
    found = examples(methods, judge, dataset.labels, each=4)
    assert found["methods"] == ["m0", "m1", "m2"]
    assert set(found["views"]) == {"random", *(f"{i},{j}" for i in range(3) for j in range(3) if i != j)}
    assert found["views"]["0,2"] == []
    assert found["wins"][0][1] == pytest.approx(100 * np.mean(quality[0] > quality[1]))
    assert found["wins"][2] == [100, 100, 0]
    titles = list(judge.test.documents.fields["title"])
    truth = judge.test.targets.toarray()
    for name, view in found["views"].items():
        assert len(view) <= 4
        for at in view:
            row = titles.index(found["documents"][at]["text"])
            assert found["documents"][at]["true"] == np.flatnonzero(truth[row]).tolist()
            assert found["documents"][at]["tops"] == [ids[row, :5].tolist() for ids in tops]
            if name != "random":
                i, j = map(int, name.split(","))
                assert quality[i][row] > quality[j][row]
    shown = {i for one in found["documents"] for ids in (one["true"], *one["tops"]) for i in ids}
    frequency = dataset.train.targets.toarray().sum(0)
    assert found["labels"] == {i: (dataset.labels.fields["title"][i], frequency[i]) for i in sorted(shown)}


def test_pareto_by_hand():
    assert pareto([(3, 5), (1, 2), (2, 1), (4, 5), (2, 4), (1, 1)]) == [(1, 2), (2, 4), (3, 5)]
    assert pareto([(1, 1)]) == [(1, 1)]


def positions(drawing, kind):
    return [tuple(map(float, pair)) for pair in re.findall(rf'class="{kind}".*?cx="([\d.]+)" cy="([\d.]+)"', drawing)]


def test_a_scatter_plot_puts_points_where_they_belong():
    points = [Point("a", 10, 20, 19, 21, 0), Point("b", 100, 40, 38, 41, 1), Point("c & d", 1000, 30, 29, 31, 12)]
    drawing = scatter(points, ticks={10.0: "ten", 1000.0: "thousand"}, write=str, cost="time", metric="P@1")
    (ax, ay), (bx, by), (cx, cy) = positions(drawing, "dot")
    assert bx - ax == pytest.approx(cx - bx, abs=0.2)  # logarithmic
    assert (ay - cy) == pytest.approx(cy - by, abs=0.2)
    assert ">ten<" in drawing
    assert "c &amp; d: P@1 30.00, time 1000" in drawing
    assert "--c:var(--s2)" in drawing  # ten colours
    front = re.search(r'class="front" points="([^"]*)"', drawing)[1].split(" ")
    assert front == [f"{ax:.1f},{ay:.1f}", f"{bx:.1f},{ay:.1f}", f"{bx:.1f},{by:.1f}"]
    same = scatter([points[0]] * 2, ticks={10.0: "ten"}, write=str, cost="time", metric="P@1")
    assert len(positions(same, "dot")) == 2


def test_labels_of_a_scatter_plot_do_not_cover_each_other():
    points = [Point(f"method {i}", 10 + i / 10, 50 + i / 50, 50, 51, i) for i in range(5)]
    drawing = scatter(points, ticks={10.0: "ten"}, write=str, cost="time", metric="P@1")
    at = re.findall(r'class="label" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">([^<]+)<', drawing)
    assert len({(round(float(y)), anchor) for _, y, anchor, _ in at}) == 5


def test_a_crowded_scatter_plot_names_the_best_and_leaves_no_name_on_another():
    points = [Point(f"method {i:02}", 10 + i / 10, 50 - i / 50, 50 - i / 50, 51, i) for i in range(25)]
    drawing = scatter(points, ticks={10.0: "ten"}, write=str, cost="time", metric="P@1")
    at = re.findall(r'class="label" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">([^<]+)<', drawing)
    assert 3 <= len(at) < 25
    assert at[0][3] == "method 00"  # alone on the front: the cheapest and the best
    assert all(f"<title>method {i:02}: P@1" in drawing for i in range(25))
    width = 5.8 * len("method 00")
    lefts = {"start": 0.0, "middle": width / 2, "end": width}
    boxes = [(float(x) - lefts[anchor], float(y)) for x, y, anchor, _ in at]
    for i, (x, y) in enumerate(boxes):
        for left, base in boxes[:i]:
            shared = max(0.0, width - abs(x - left)) * max(0.0, 13 - abs(y - base))
            assert shared <= 0.1 * width * 13 + 1


def test_curves_are_drawn_for_every_number_that_a_run_logs_by_epoch():
    log = [
        {
            "stage": "encoder",
            "epoch": e,
            "step": e,
            "seconds": 1,
            "terms": {"a": e, "b": 2},
            "graph_weights": {"tag": 1},
        }
        for e in (1, 2, 3)
    ]
    log += [{"stage": "classifiers", "epoch": 1, "terms": {"a": 1}}, {"note": "no epoch"}]
    text = training_curves({"one": log})
    Whole(text)
    assert text.count("<svg") == 2
    assert "encoder: graph weights" in text
    assert "classifiers" not in text
    assert training_curves({"one": log[-2:]}) == ""
    drawing = curves({"a": [(1, 0.0), (2, 4.0), (3, 2.0)]}, title="epoch")
    (_, low), (_, high), (_, middle) = positions(drawing, "dot")
    assert middle == pytest.approx((low + high) / 2, abs=0.2)
    assert curves({"a": [(1, 0.0)]}, title="epoch").count("<circle") == 1


def test_what_bandits_and_pruning_did_is_drawn_and_said():
    """Notes come before the epoch that they are of; pruned edges may come back."""
    weights, edges = (0.03, 0.04, 0.06), (200, 50, 120)
    log = []
    for done, (weight, left) in enumerate(zip(weights, edges, strict=True)):
        graphs = {"link.documents": {"edges": left, "of": 400, "weight": weight}}
        if done != 1:
            graphs["link.labels"] = {"edges": 0, "of": 0, "weight": weight}
        log += [{"stage": "encoder", "step": 8 * done + 1, "graphs": graphs}]
        log += [{"stage": "encoder", "epoch": done + 1, "step": 8 * done + 8, "terms": {"triplet": 1.0}}]
    noted = noted_of_graphs(log)
    assert [(done, one["edges"], one["weight"]) for done, one in noted["link.documents"]] == [
        (0, 200, 0.03),
        (1, 50, 0.04),
        (2, 120, 0.06),
    ]
    assert [done for done, _ in noted["link.labels"]] == [0, 2]
    text = graph_curves({"a & b": noted})
    Whole(text)
    assert text.count("<svg") == 2
    assert "link.documents, epoch 2: 0.06" in text
    assert "link.documents, epoch 1: 12.5" in text
    assert "link.labels, epoch 0: 0<" in text
    assert training_curves({"one": log}).count("<svg") == 1
    older = noted_of_graphs([{"stage": "encoder", "step": 1, "graphs": {"a": {"edges": 7, "weight": 1}}}])
    assert older["a"] == [(0, {"edges": 7, "of": 7, "weight": 1})]


def test_long_names_are_short_on_the_page_and_are_spelt_out_once(tmp_path, dataset, judge):
    long = ["dpr:epochs=3,loss=sup_con,batch=64", "dpr:epochs=4,loss=sup_con,batch=64"]
    runs = [run_of(tmp_path, judge, label, ["encoder"], seed) for seed, label in enumerate(["dpr", *long])]
    rows, results = results_of(runs, dataset, judge)
    text = report(results, rows, dataset, judge)
    whole = Whole(text)
    assert embedded(text)["methods"] == ["dpr", "dpr 2", "dpr 3"]
    assert [value for tag, _, value in whole.attributes if tag == "dt"] == long
    assert list(results["rows"]) == ["dpr", *long]


def test_times_and_sizes_for_people():
    assert [duration(x) for x in (0.123, 9.5, 42, 600, 7200)] == ["0.12 s", "9.5 s", "42 s", "10.0 min", "2.0 h"]
    assert [size(x) for x in (100, 2**20, 2**31)] == ["0.1 KiB", "1.0 MiB", "2.00 GiB"]


def test_the_page_runs_its_own_script_alone_and_asks_for_nothing(tmp_path, dataset, judge):
    rows, results = results_of([run_of(tmp_path, judge, HOSTILE, ["encoder"], 0)], dataset, judge)
    page = report(results, rows, dataset, judge)
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'",
        "img-src data:",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{allowed}'",
    ]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_the_page_in_a_browser_is_as_wide_as_the_screen_and_shows_examples(tmp_path, dataset, judge):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    has_axe = find_spec("axe_playwright_python") is not None
    axe = import_module("axe_playwright_python.sync_playwright") if has_axe else None
    log = [{"stage": "encoder", "graphs": {"link.labels": {"edges": 99 - i, "of": 99, "weight": 0.1}}} for i in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in log))
    long = "ramen:graphs=link,graph_weights=bandit:0.03,epochs=30"
    runs = [
        run_of(tmp_path, judge, name, ["encoder", "fused"], seed) for seed, name in enumerate([long, "two", HOSTILE])
    ]
    rows, results = results_of(runs, dataset, judge, {"three": {"0": "no memory"}}, {"four": {"1": "over 10m"}})
    (tmp_path / "report.html").write_text(report(results, rows, dataset, judge), encoding="utf-8")
    problems = []
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=120_000)
        for width, scheme in ((360, "dark"), (360, "light"), (1280, "light"), (1280, "dark")):
            size = {"width": width, "height": 900}
            shown = browser.new_page(viewport=size, color_scheme=scheme, bypass_csp=axe is not None)
            shown.set_default_timeout(60_000)
            shown.on("console", lambda message: problems.append(message.text))
            shown.on("pageerror", lambda error: problems.append(str(error)))
            shown.goto((tmp_path / "report.html").as_uri())
            shown.locator("#documents .example").nth(7).wait_for()
            shown.locator("#first").select_option("2")
            shown.locator("#documents h4", has_text=HOSTILE).first.wait_for()
            assert shown.evaluate("document.documentElement.scrollWidth") == width
            if axe is not None:
                found = axe.Axe().run(shown).response["violations"]
                assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
            if folder := os.environ.get("LONGTAIL_SCREENSHOTS"):
                shown.screenshot(path=Path(folder) / f"report-{width}-{scheme}.png", full_page=True)
            shown.close()
        browser.close()
    assert problems == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_seed_that_kept_no_memory_counts_by_what_it_predicts_with(tmp_path, dataset, judge, order):
    known = ["encoder", "fused"], ["encoder", "fused", "memory"]
    outcomes = [run_of(tmp_path, judge, "one", known[i], seed=i)[1] for i in order]
    row = judged("unidec", {}, outcomes, judge)
    alone = [judged("unidec", {}, [outcome], judge) for outcome in outcomes]
    assert row.headline == "memory"
    for name, values in row.by_seed["memory"].items():
        assert values == [one.by_seed[one.headline][name][0] for one in alone]
    rows = {"one": row}
    start = about(dataset, dataset.fingerprint(), judge)
    results = {**start, "rows": {"one": as_json(row)}, "differences": {}, "failed": {}, "stopped": {}}
    assert "memory" in report(results, rows, dataset, judge)
