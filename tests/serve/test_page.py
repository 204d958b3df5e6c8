"""The page in a real browser: typing, explaining, adding and removing, with the keyboard alone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

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
def address(run, start_server):
    server = start_server(run)
    server.wait_until_ready()
    return f"http://127.0.0.1:{server.port}/"


@pytest.fixture
def words(run):
    """A text that no label has, of words that the model knows."""
    from longtail.model import load

    titles = load(run, device="cpu").labels.fields["title"]
    return f"{titles[0].split()[0]} {titles[50].split()[-1]}"


def opened(browser, address, *, width=1280, height=900, dark=False, bypass_csp=False):
    """The page, and what it complained of or asked another host for; who evaluates code has to bypass its CSP."""
    scheme = "dark" if dark else "light"
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=bypass_csp)
    page.set_default_timeout(WAIT)
    problems = []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request", lambda request: None if request.url.startswith((address, "data:")) else problems.append(request.url)
    )
    page.goto(address)
    page.get_by_text("120 labels", exact=False).first.wait_for()
    return page, problems


def shot(page, name):
    """Keep a picture of the page where LONGTAIL_SCREENSHOTS says."""
    if folder := os.environ.get("LONGTAIL_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


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
    page.get_by_text("Scores: encoder").wait_for()
    assert page.locator(".why .word").count() == 2
    assert first.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Enter")
    assert page.locator(".why").count() == 0
    page.locator("#text").fill("")
    results.first.wait_for(state="detached")
    assert problems == []
    page.close()


def test_a_label_is_added_and_removed_with_the_token(browser, address, words):
    page, problems = opened(browser, address)
    page.locator("#text").fill(words)
    page.locator("input[value=encoder]").check()
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
    page.locator("#query").fill(words)
    remove = page.get_by_role("button", name=f"Remove {words}")
    remove.wait_for()
    remove.focus()
    page.keyboard.press("Enter")
    page.get_by_text("Removed mine/1.").wait_for()
    page.locator("#results li", has_text=words).first.wait_for(state="detached")
    assert [problem for problem in problems if "401" not in problem] == []  # the browser logs that one itself
    page.close()


@pytest.mark.parametrize(("name", "width"), [("desktop", 1280), ("phone", 360)])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_is_cut_off(browser, run, address, words, name, width, dark):
    epochs = [{"stage": "joint", "epoch": i, "terms": {"encoder": 1 / i, "classifier": 2 / i}} for i in (1, 2, 3)]
    log = [{"plan": {"rows": 600}}, {"stage": "joint", "graphs": {}}, *epochs]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, log)))
    page, problems = opened(browser, address, width=width, dark=dark, bypass_csp=True)
    page.locator("#text").fill(words)
    page.locator("#results button.label").first.click()
    page.get_by_text("Scores: encoder").wait_for()
    page.locator("#query").fill(words.split()[0])
    page.locator("#found li").first.wait_for()
    page.locator("#plot svg").wait_for()
    assert "joint, 3 epochs" in page.locator("#plot svg").inner_html()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shot(page, f"{name}-{'dark' if dark else 'light'}")
    assert problems == []
    page.close()
