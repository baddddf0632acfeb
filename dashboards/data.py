"""Results of the queries of a panel, with default values for the variables.

In: a Query, the address of a server. Out: series of points, or the histograms of native ones.
"""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

from dashboards.panels import Query

RATE_SECONDS = 10
"""For a server that scrapes every two seconds; Grafana takes four scrape intervals, 15 s at the least."""

CHOSEN = {
    **dict.fromkeys(("$job", "$instance"), ".+"),
    **dict.fromkeys(("$cluster", "$node", "$namespace", "$pod", "$container", "$rank"), ".*"),
    "$__rate_interval": f"{RATE_SECONDS}s",
}
TIMEOUT_SECONDS = 30.0


class Bucket(NamedTuple):
    """Bucket of a native histogram: number of observations in (low, high]."""

    low: float
    high: float
    times: float


class Series(NamedTuple):
    """points: (seconds since 1970, value), or the buckets at that time."""

    labels: Mapping[str, str]
    points: list[tuple[float, float]]
    histograms: list[tuple[float, list[Bucket]]]

    @property
    def last(self) -> float:
        """The latest value."""
        return self.points[-1][1]


class Span(NamedTuple):
    """Time range in seconds since 1970, and the distance of points in seconds."""

    begin: float
    end: float
    step: float


def filled_in(expression: str, range_seconds: float) -> str:
    """The query with its variables replaced; `$1` is a group of label_replace()."""
    chosen = CHOSEN | {"$__range": f"{round(range_seconds)}s"}
    return re.sub(r"\$[a-z_]\w*", lambda found: chosen[found[0]], expression)


def over(url: str, query: Query, span: Span) -> list[Series]:
    """The result of a query over the span. Raises OSError."""
    found = _result(
        f"{url}/api/v1/query_range",
        query=filled_in(query.expr, span.end - span.begin),
        start=f"{span.begin:.3f}",
        end=f"{span.end:.3f}",
        step=f"{span.step:g}",
    )
    return [_series(one, one.get("values", ()), one.get("histograms", ())) for one in found]


def at_the_end(url: str, query: Query, span: Span) -> list[Series]:
    """The result of a query at the end of the span. Raises OSError."""
    expression = filled_in(query.expr, span.end - span.begin)
    found = _result(f"{url}/api/v1/query", query=expression, time=f"{span.end:.3f}")
    return [_series(one, [one["value"]], ()) for one in found if "value" in one]


def _result(url: str, **parameters: str) -> Any:
    body = urllib.parse.urlencode(parameters).encode()
    with urllib.request.urlopen(url, data=body, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - a server that the caller names
        return json.load(response)["data"]["result"]


def _series(found: Any, values: Any, histograms: Any) -> Series:
    points = [(float(when), float(value)) for when, value in values]
    shown = [
        (float(when), [Bucket(float(low), float(high), float(n)) for _, low, high, n in one.get("buckets", ())])
        for when, one in histograms
    ]
    return Series(found["metric"], points, shown)
