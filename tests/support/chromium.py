"""A real browser without a window, driven over its DevTools protocol: two pipes, with messages that end in a zero byte.

What its console would show, and what the policy of a page has refused, is kept for the test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

import pytest

_COMMAND: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    "--remote-debugging-pipe",
)
_FROM_US, _TO_US = 3, 4  # descriptors that --remote-debugging-pipe reads and writes
_WATCH: Final = "addEventListener('securitypolicyviolation', one => console.error(`refused: ${one.violatedDirective}`))"
_SECONDS: Final = 60


class BrowserPage:
    """A page of a browser. complaints: errors and warnings of its console, and refusals of its policy, since the last load."""

    def __init__(self, process: subprocess.Popen[bytes], to_browser: int, from_browser: FileIO) -> None:
        self._process = process
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._numbers = count(1)
        self._session = ""
        self._received = b""
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []

    @classmethod
    def attached(cls, process: subprocess.Popen[bytes], to_browser: int, from_browser: FileIO) -> Self:
        page = cls(process, to_browser, from_browser)
        target = page.call("Target.createTarget", url="about:blank")["targetId"]
        page._session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Security"):
            page.call(f"{domain}.enable")
        page.call("Security.setIgnoreCertificateErrors", ignore=True)  # the server has made its own
        page.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        return page

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method of the protocol."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        while True:
            found = self._message()
            if found.get("id") == number:
                assert "error" not in found, f"{method}: {found['error']}"
                result: dict[str, Any] = found["result"]
                return result

    def open(self, url: str) -> None:
        """Returns when the page and its files are loaded."""
        self.complaints.clear()
        self._events.clear()
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def wait_for(self, event: str) -> None:
        while not any(one["method"] == event for one in self._events):
            self._message()

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, when it is there."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def submit(self, selector: str) -> None:
        """Returns when the page that the form leads to is loaded."""
        self._events.clear()
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")
        self.wait_for("Page.loadEventFired")

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            received = self._from_browser.read(1 << 20)
            assert received, f"the browser has ended with status {self._process.poll()}"
            self._received += received
        raw, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(raw)
        if "method" in found:
            self._events.append(found)
            self._note(found["method"], found["params"])
        return found

    def _note(self, event: str, details: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(details["exceptionDetails"]["text"])
        elif event == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([one.get("value") for one in details["args"]]))
        elif event == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{details['entry']['text']} ({details['entry'].get('url', '')})")


@contextmanager
def browser_page(folder: Path) -> Iterator[BrowserPage]:
    """folder: for the browser's profile. Skips the test where there is no Chromium."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium on PATH")
    read_by_browser, to_browser = os.pipe()
    from_browser, written_by_browser = os.pipe()
    # The browser has the pipes as the descriptors that it expects.
    as_expected = f'exec "$@" {_FROM_US}<&{read_by_browser} {_TO_US}>&{written_by_browser}'
    process = subprocess.Popen(
        ["bash", "-c", as_expected, "bash", program, *_COMMAND, f"--user-data-dir={folder}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(read_by_browser, written_by_browser),
        start_new_session=True,
    )
    os.close(read_by_browser)
    os.close(written_by_browser)
    try:
        with FileIO(from_browser) as answers:
            yield BrowserPage.attached(process, to_browser, answers)
    finally:
        os.close(to_browser)  # it ends with the pipe
        try:
            process.wait(_SECONDS)
        finally:
            process.kill()
            process.wait()
