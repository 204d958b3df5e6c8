"""The page in a real browser: ranking, why, finding, correcting and changing labels, by keyboard, checked by axe."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from longtail import Dataset, recipes
from longtail.model import LabelSet, load
from longtail.model.catalogue import Correction
from longtail.model.label_set import NewLabel

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,  # a real browser takes minutes on a busy machine: `make bench`
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
WAIT = 60_000  # milliseconds


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=2 * WAIT)
        yield opened
        opened.close()


@pytest.fixture
def run(run_with_memory):
    """That of the server in these tests."""
    return run_with_memory


@pytest.fixture
def address(run, start_server):
    server = start_server(run)
    server.wait_until_ready()
    return f"http://127.0.0.1:{server.port}/"


@pytest.fixture
def words(run):
    """A text that no label has, of words that the model knows."""
    titles = load(run, device="cpu").labels.fields["title"]
    return f"{titles[0].split()[0]} {titles[50].split()[-1]}"


def opened(browser, address, *, width=1280, height=900, dark=False, bypass_csp=False):
    """The page, and what it complained of or asked another host for; who evaluates code has to bypass its CSP."""
    scheme = "dark" if dark else "light"
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", bypass_csp=bypass_csp
    )
    page.set_default_timeout(WAIT)
    problems = []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request", lambda request: None if request.url.startswith((address, "data:")) else problems.append(request.url)
    )
    page.goto(address)
    page.get_by_text(re.compile(r"· \d+ labels")).wait_for()
    return page, problems


def shot(page, name):
    """Keep a picture of the page where LONGTAIL_SCREENSHOTS says."""
    if folder := os.environ.get("LONGTAIL_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def focused(page):
    """The place that has the focus: the name or the id of an element."""
    element = page.locator(":focus")
    return element.get_attribute("id") or element.get_attribute("name") or element.inner_text()


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def test_labels_are_ranked_as_one_types_and_explained(browser, address, words):
    page, problems = opened(browser, address)
    page.keyboard.type(words)  # the text has the focus
    results = page.locator("#results > li")
    results.nth(9).wait_for()
    assert results.count() == 10
    first = page.locator("#results button.label").first
    page.locator("input[value=encoder]").check()
    page.get_by_text("by the encoder score").wait_for()
    first.focus()
    page.keyboard.press("Enter")
    page.get_by_text("Identifier: ").wait_for()
    assert page.get_by_label("Longer text").is_hidden()  # which the model does not read
    assert page.locator(".why .word").count() == 2
    assert 1 <= page.locator(".why .scored li").count() <= 5  # documents that are remembered with the label
    assert first.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Enter")
    assert page.locator(".why").count() == 0
    page.locator("#text").fill("")
    results.first.wait_for(state="detached")
    assert problems == []
    page.close()


def test_a_model_of_two_fields_is_given_both(browser, start_server, tmp_path):
    documents = [{"title": "red", "content": "warm colour"}, {"title": "blue", "content": "cold colour"}] * 4
    dataset = Dataset.from_texts(documents, [[0], [1]] * 4, ["fire", "sea"])
    recipes.dpr(dataset, out=tmp_path / "run", fields=("title", "content"), epochs=1, width=8, device="cpu")
    server = start_server(tmp_path / "run")
    server.wait_until_ready()
    page, problems = opened(browser, f"http://127.0.0.1:{server.port}/")
    page.get_by_label("Longer text").fill("cold")
    with page.expect_request("**/v1/predict") as asked:
        page.locator("#text").fill("blue")
    assert asked.value.post_data_json["texts"] == [{"title": "blue", "content": "cold"}]
    page.locator("#results > li").nth(1).wait_for()
    page.locator("#token").fill("let me")
    page.locator("#results button[name=right]").first.click()
    page.locator("#results [aria-pressed=true]").wait_for()
    page.locator("#kept summary").click()
    page.locator("#corrections li").first.wait_for()
    page.locator("#results [aria-pressed=true]").wait_for()
    assert problems == []
    page.close()


def test_a_correction_is_made_and_taken_back_with_the_keyboard_alone(browser, run, address, words):
    page, problems = opened(browser, address)
    page.keyboard.type(words)
    page.locator("#results > li").nth(9).wait_for()
    wrong, right = (page.locator("#results button.label").nth(i).get_attribute("title") for i in (0, 1))
    press(page, "Tab", "Tab", "Tab", "Tab")  # the score, how many, the first label, that it is right
    assert focused(page) == "right"
    press(page, "Enter")
    page.get_by_text("changes need the server's token").wait_for()
    assert focused(page) == "token"
    page.keyboard.type("let me")
    page.locator("#results button[name=wrong]").first.focus()
    press(page, "Enter")
    page.get_by_text("is wrong for this text, and not given to it any more").wait_for()
    page.locator(f"#results > li[data-uid='{wrong}']").wait_for(state="detached")
    assert focused(page) == "wrong"  # of the next label
    press(page, "Shift+Tab", "Space")
    page.get_by_text("is right for this text, and remembered").wait_for()
    page.locator("#results [aria-pressed=true]").wait_for()
    assert focused(page) == "right"
    labels = LabelSet(run, device="cpu")
    said = {one.uid: (one.is_right, dict(one.document)) for one in labels.snapshot.corrections.kept.values()}
    assert said == {wrong: (False, {"title": words}), right: (True, {"title": words})}
    labels.close()
    page.locator("#kept summary").focus()
    press(page, "Enter")
    page.locator("#corrections li").nth(1).wait_for()
    press(page, "Tab", "Tab", "Enter")  # the older of both
    page.locator(f"#results > li[data-uid='{wrong}']").wait_for()
    page.locator("#corrections li").nth(1).wait_for(state="detached")
    press(page, "Enter")
    page.get_by_text("There are none.").wait_for()
    page.locator("#results [aria-pressed=true]").wait_for(state="detached")
    assert [problem for problem in problems if "401" not in problem] == []  # the browser logs that one itself
    page.close()


def test_the_list_of_corrections_has_more_than_the_server_gives_at_a_time(browser, run, address):
    labels = LabelSet(run, device="cpu")
    uid = labels.snapshot.base.labels.uids[0]
    labels.correct([Correction({"title": f"text {i}"}, uid, False) for i in range(1_001)])
    labels.close()
    page, problems = opened(browser, address)
    page.locator("#token").fill("let me")
    page.locator("#kept summary").click()
    page.locator("#corrections li").nth(1_000).wait_for()
    assert page.locator("#corrections li q").all_inner_texts() == [f"text {i}" for i in reversed(range(1_001))]
    assert problems == []
    page.close()


def test_a_label_that_is_missing_is_found_and_marked_and_escape_closes_what_is_open(browser, run, address, words):
    labels = LabelSet(run, device="cpu")
    labels.add([NewLabel("mine", "zebra crossing")])
    labels.close()
    page, problems = opened(browser, address)
    page.locator("#token").fill("let me")
    page.locator("#text").fill(words)
    page.get_by_role("button", name="A label is missing").click()
    assert focused(page) == "query"
    page.keyboard.type("zebra")
    found = page.locator("#found button.label")
    found.wait_for()
    press(page, "Tab", "Enter")
    page.get_by_text("Nearest labels, by its text").wait_for()
    assert "added · 0 documents" in found.inner_text()
    page.locator("#results button.label").first.click()
    page.get_by_text("Identifier: ").wait_for()
    found.focus()
    press(page, "Escape")
    assert page.locator("#found .why").count() == 0
    assert page.locator("#results .why").count() == 1
    assert found.get_attribute("aria-expanded") == "false"
    press(page, "Tab", "Enter")  # it is right for the text
    page.get_by_text("zebra crossing is right for this text, and remembered").wait_for()
    page.locator("#results li[data-uid=mine] [aria-pressed=true]").wait_for()
    page.locator("#text").focus()
    press(page, "Escape")
    assert page.locator(".why").count() == 0
    page.reload()
    page.locator("#token").fill("let me")
    page.locator("#text").fill(words)
    page.locator("#kept summary").click()
    page.locator("#results li[data-uid=mine] [aria-pressed=true]").wait_for()  # as was said before
    page.locator("#corrections button").focus()
    press(page, "Escape")
    assert page.locator("#kept").get_attribute("open") is None
    assert problems == []
    page.close()


def test_a_label_is_added_and_removed_with_the_token(browser, address, words):
    page, problems = opened(browser, address)
    page.locator("#text").fill(words)
    page.locator("input[value=encoder]").check()
    page.get_by_text("Add or replace a label").click()
    page.locator("#uid").fill("mine/1")
    page.locator("#title").fill(words)
    page.locator("#examples").fill("one example\n\nanother")
    page.locator("#title").press("Enter")
    page.get_by_text("changes need the server's token").wait_for()
    page.locator("#token").fill("let me")
    page.locator("#title").press("Enter")
    page.get_by_text("Added mine/1.").wait_for()
    page.locator("#results li", has_text=words).first.wait_for()
    page.get_by_text("120 of the model, 0 of these hidden, 1 added").wait_for()
    page.locator("#query").fill("mine/1")
    page.locator("#found button.label").click()
    page.get_by_role("button", name="Remove this label").click()
    page.get_by_text("Removed mine/1.").wait_for()
    page.locator("#results li", has_text=words).first.wait_for(state="detached")
    assert [problem for problem in problems if "401" not in problem] == []
    page.close()


@pytest.mark.parametrize(("name", "width"), [("desktop", 1400), ("phone", 360)])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_use_it_and_nothing_is_cut_off(browser, run, address, words, name, width, dark):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    epochs = [{"stage": "joint", "epoch": i, "terms": {"encoder": 1 / i, "classifier": 2 / i}} for i in (1, 2, 3)]
    log = [{"plan": {"rows": 600}}, {"stage": "joint", "graphs": {}}, *epochs]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, log)))
    page, problems = opened(browser, address, width=width, dark=dark, bypass_csp=True)

    def check(state):
        found = axe.Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], state
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shot(page, f"{name}-{'dark' if dark else 'light'}-{state}")

    page.locator("#measured svg").wait_for()
    assert "joint, 3 epochs" in page.locator("#measured svg").inner_html()
    check("empty")
    page.locator("#text").fill(words)
    page.locator("#results button.label").first.click()
    page.get_by_text("Identifier: ").wait_for()
    page.locator("#query").fill(words.split()[0])
    page.locator("#found button.label").first.click()
    page.get_by_text("Nearest labels, by its text").wait_for()
    check("why")
    page.locator("#token").fill("let me")
    page.locator("#results button[name=wrong]").nth(3).click()
    page.get_by_text("is wrong for this text").wait_for()
    page.locator("#results button[name=right]").nth(2).click()
    page.locator("#results [aria-pressed=true]").wait_for()
    for summary in page.locator("summary").all():
        summary.click()
    page.locator("#corrections li").nth(1).wait_for()
    check("corrected")
    evaluation = {"n": 50, "kinds": {kind: {"P@1": 50.0, "P@5": 20.25} for kind in ("encoder", "fused", "memory")}}
    (run / "evaluation.json").write_text(json.dumps(evaluation))
    page.reload()
    page.get_by_text("Metrics on 50 test documents").wait_for()
    check("evaluated")
    assert problems == []
    page.close()
