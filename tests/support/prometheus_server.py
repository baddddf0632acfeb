"""A Prometheus server of any version, and its HTTP API."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.exporter_process import Exporter
from tests.support.requirements import need_command
from tests.support.server_process import Server, listening
from tests.support.traced import eventually

# The first scrape comes some seconds after the start, spread by a hash of the target, and a busy machine adds to that.
# The order of the two messages differs.
ANNOUNCEMENT = r'\A(?=.*Server is ready to receive web requests).*msg="Listening on"[^\n]* address=(\S+)'

CONFIGURATION = """\
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: gpustall
    honor_labels: true
    static_configs:
      - targets: ["{target}"]
        labels: {{namespace: monitoring, pod: exporter-0}}
"""


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    server: Server

    @property
    def url(self) -> str:
        """Without a path."""
        return f"http://{self.server.address}"

    def get(self, path: str, **parameters: str) -> Any:
        """`data` of an API response; None while it does not answer."""
        try:
            with urllib.request.urlopen(  # noqa: S310 - our own address
                f"{self.url}{path}?{urllib.parse.urlencode(parameters)}", timeout=10
            ) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            with error:
                return None
        except OSError:
            return None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query: {"metric": labels, "value": [time, text]}, or "histogram" for "value"."""
        data = self.get("/api/v1/query", query=expression)
        return data["result"] if data else []

    def exemplars(self, expression: str) -> list[dict[str, Any]]:
        """Exemplars of all series of a query: {"labels": …, "value": text, "timestamp": seconds}."""
        data = self.get("/api/v1/query_exemplars", query=expression, start="0", end="4102444800")
        return [exemplar for series in data or () for exemplar in series["exemplars"]]

    def awaited(self, expression: str) -> list[dict[str, Any]]:
        """The series of a query, as soon as there is one."""
        found: list[dict[str, Any]] = eventually(
            lambda: self.query(expression), f"{expression}; {self.server.logs[-2000:]}"
        )
        return found


@contextmanager
def serving(binary: str | Path, configuration: str, folder: Path, *flags: str) -> Iterator[Prometheus]:
    """A server on a free loopback port, with its files in the folder."""
    (folder / "prometheus.yml").write_text(configuration)
    command = [
        binary,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--web.listen-address=127.0.0.1:0",
        *flags,
    ]
    with listening(command, ANNOUNCEMENT, folder) as server:
        yield Prometheus(server)


@contextmanager
def scraping(exporter: Exporter, folder: Path, *flags: str) -> Iterator[Prometheus]:
    """Prometheus as Debian packages it, which scrapes an exporter every second."""
    target = exporter.url.removeprefix("http://").removesuffix("/metrics")
    binary = need_command("prometheus", "prometheus")
    with serving(binary, CONFIGURATION.format(target=target), folder, *flags) as server:
        yield server
