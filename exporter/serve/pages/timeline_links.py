"""The link that downloads a timeline for Perfetto, and what to do with it."""

from __future__ import annotations

from urllib.parse import urlencode

from exporter.serve.pages.markup import Markup, element
from exporter.serve.tools.timeline import PATH
from exporter.serve.tools.tool import AT, SINCE, WORKLOAD


def timeline_link(since: str, at: str, workload: str) -> Markup:
    """at: end of the span; empty for now."""
    asked = {SINCE.name: since, **({AT.name: at} if at else {}), **({WORKLOAD.name: workload} if workload else {})}
    return element(
        "p",
        element("a", "Download for Perfetto", href=f"{PATH}?{urlencode(asked)}", download="timeline.pftrace"),
        ": open the file at https://ui.perfetto.dev, which reads it in the browser and sends it nowhere.",
    )
