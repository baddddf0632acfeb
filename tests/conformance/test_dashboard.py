"""The dashboard of `serve` in Chromium: its console, its policy, how soon it is seen, and whether axe finds it accessible."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.suites import axe, suites
from tests.support.chromium import BrowserPage, browser_page
from tests.support.many_ranks import HOSTILE, many_ranks
from tests.support.serving import Serving, serving

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]

FIRST_VIEW_MILLISECONDS = 1000
LOADS = 7
"""The fastest of them counts: other work on the machine only makes a view later."""

PAGES = {
    "overview": "/?since=15m",
    "chain": "/chains/11111111?since=1h",
    "past chain": "/chains/55555555?since=1h",
    "workload": "/workload?since=15m&workload=pid%3D1003",
    "mistake": "/?since=soon",
}
_LOOP_SECONDS = 0.1
_SEEN = """\
new Promise(resolve => new PerformanceObserver((list, observer) => {
  for (const one of list.getEntriesByName('first-contentful-paint')) resolve(one.startTime);
}).observe({type: 'paint', buffered: true}))"""
_SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A node with 256 ranks, one with a hostile name, behind TLS and tokens."""
    folder = tmp_path_factory.mktemp("dashboard")
    with serving(many_ranks(folder), folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser(server: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserPage]:
    """Signed in, as a person does it."""
    with browser_page(tmp_path_factory.mktemp("profile")) as page:
        page.open(f"{server.url}/sign-in")
        page.evaluate(f"document.getElementById('token').value = {json.dumps(server.tokens['admin'])}")
        page.submit("form.sign-in button")
        yield page


@pytest.fixture
def plain(browser: BrowserPage) -> Iterator[BrowserPage]:
    """Without scripts."""
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    yield browser
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def show(browser: BrowserPage, *, width: int, scheme: str) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    scheme_feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.call("Emulation.setEmulatedMedia", features=[scheme_feature])


def texts(browser: BrowserPage, selector: str) -> list[str]:
    expression = f"Array.from(document.querySelectorAll({json.dumps(selector)}), one => one.textContent)"
    found: list[str] = browser.evaluate(expression)
    return found


class TestBrowser:
    def test_form_signs_in(self, server: Serving, browser: BrowserPage) -> None:
        """The cookie is kept, the script of a page does not see it, and no token is in a URL."""
        browser.open(f"{server.url}{PAGES['overview']}")

        assert texts(browser, ".viewer") == ["admin"]
        assert browser.evaluate("document.cookie") == ""
        assert server.tokens["admin"] not in browser.evaluate("location.href")

    @pytest.mark.parametrize("name", [one for one in PAGES if one != "mistake"])
    def test_console_is_empty_and_nothing_is_refused(self, server: Serving, browser: BrowserPage, name: str) -> None:
        browser.open(f"{server.url}{PAGES[name]}")

        assert texts(browser, "h1")
        assert browser.complaints == []

    def test_refused_script_would_be_noticed(self, server: Serving, browser: BrowserPage) -> None:
        """What the test above looks for."""
        browser.open(f"{server.url}{PAGES['overview']}")
        browser.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: '1'}))")
        browser.evaluate("new Promise(resolve => setTimeout(resolve))")

        assert any("script-src" in one for one in browser.complaints)

    def test_hostile_name_is_text(self, server: Serving, browser: BrowserPage) -> None:
        browser.open(f"{server.url}{PAGES['overview']}")

        assert any(HOSTILE in one for one in texts(browser, "h1"))
        assert texts(browser, "main img") == []

    def test_commands_have_buttons_that_copy_them(self, server: Serving, browser: BrowserPage) -> None:
        browser.open(f"{server.url}{PAGES['chain']}")
        browser.evaluate("document.querySelector('button.copy').click()")
        copied = browser.evaluate(
            "new Promise(resolve => setTimeout(() => resolve(document.querySelector('.copy').textContent)))"
        )

        assert texts(browser, ".commands code") == ["taskset -acp 0-3 100", "renice -n 19 -p 777"]
        assert len(texts(browser, "button.copy")) == 2
        assert copied in ("Copied", "Selected")

    def test_update_keeps_the_page_whole(self, server: Serving, browser: BrowserPage) -> None:
        browser.open(f"{server.url}{PAGES['overview']}")
        before = texts(browser, "h2")
        browser.evaluate("live.refresh()")

        assert texts(browser, ".live [role=status]")[0].startswith("Updated at ")
        assert texts(browser, "h2") == before != []
        assert len(texts(browser, "button.copy")) == 2
        assert browser.complaints == []

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            ("new Response('', {status: 401})", "The session has ended: load the page again to sign in"),
            ("new Response('', {status: 503})", "The server does not answer: this page may be out of date"),
            ("Promise.reject(new TypeError())", "The server does not answer: this page may be out of date"),
        ],
    )
    def test_page_that_is_out_of_date_is_marked(
        self, server: Serving, browser: BrowserPage, answer: str, text: str
    ) -> None:
        """And keeps what was known."""
        browser.open(f"{server.url}{PAGES['overview']}")
        before = texts(browser, "h1")
        browser.evaluate(f"window.fetch = async () => {answer}; live.refresh()")

        assert texts(browser, ".live [role=status]") == [text]
        assert texts(browser, "h1") == before != []

    def test_updates_can_be_paused(self, server: Serving, browser: BrowserPage) -> None:
        browser.open(f"{server.url}{PAGES['overview']}")
        browser.evaluate("document.querySelector('.live button').click()")
        browser.evaluate("document.activeElement.blur(); live.refresh()")

        assert texts(browser, ".live [role=status]") == ["Updates are paused"]

    def test_page_is_complete_without_scripts(self, server: Serving, plain: BrowserPage) -> None:
        plain.open(f"{server.url}{PAGES['overview']}")

        assert "53 % of its time to cpu_contention" in texts(plain, "h1")[0]
        assert len(texts(plain, ".grid:not(.scale) a")) == 256
        assert texts(plain, "button.copy") == []


class TestFirstView:
    @pytest.mark.parametrize("name", ["overview", "chain"])
    def test_is_seen_within_a_second(self, server: Serving, browser: BrowserPage, name: str) -> None:
        """With 256 ranks. Other work on the machine makes everything slower, as it does a loop beside each load."""
        views = []
        for _ in range(LOADS):
            before = _slowdown()
            browser.open(f"{server.url}{PAGES[name]}")
            views.append((browser.evaluate(_SEEN), max(before, _slowdown())))
        print(f"{name}: first contentful paint after ms, and the slowdown then: {views}")

        assert min(view / slowdown for view, slowdown in views) <= FIRST_VIEW_MILLISECONDS


def _slowdown() -> float:
    """Wall time that a second of CPU time takes here now."""
    began, began_cpu = time.perf_counter(), time.thread_time()
    while time.thread_time() - began_cpu < _LOOP_SECONDS:
        pass
    return max((time.perf_counter() - began) / (time.thread_time() - began_cpu), 1.0)


class TestAccessibility:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("width", [1280, 400])
    @pytest.mark.parametrize("name", PAGES)
    def test_axe_finds_nothing_serious(
        self, server: Serving, browser: BrowserPage, name: str, width: int, scheme: str
    ) -> None:
        show(browser, width=width, scheme=scheme)
        browser.open(f"{server.url}{PAGES[name]}")

        assert _findings(browser) == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_form_for_a_token_is_accessible(self, server: Serving, browser: BrowserPage, scheme: str) -> None:
        show(browser, width=1280, scheme=scheme)
        browser.open(f"{server.url}/sign-in")

        assert _findings(browser) == []

    def test_axe_would_notice_a_picture_without_a_text(self, server: Serving, browser: BrowserPage) -> None:
        browser.open(f"{server.url}{PAGES['overview']}")
        browser.evaluate("document.querySelector('main').append(new Image())")

        assert [one["id"] for one in _findings(browser)] == ["image-alt"]


def _findings(browser: BrowserPage) -> list[dict[str, Any]]:
    """Serious and critical ones, each with the elements that it is about."""
    browser.evaluate(f"{axe(suites())}; undefined")
    found = browser.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then(one => JSON.stringify(one.violations))"
    )
    return [
        {"id": one["id"], "elements": [node["html"] for node in one["nodes"]][:5]}
        for one in json.loads(found)
        if one["impact"] in _SERIOUS
    ]
