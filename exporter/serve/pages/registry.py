"""All pages by name, and the call of each: the span of a page is that of the tools that it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from exporter.history.scope import Scope
from exporter.serve.pages.chain_page import chain_page
from exporter.serve.pages.layout import Viewer
from exporter.serve.pages.overview import overview_page
from exporter.serve.pages.span import PageSpan
from exporter.serve.pages.workload_page import workload_page
from exporter.serve.tools.parameters import Parameter, checked
from exporter.serve.tools.tool import AT, SINCE, WORKLOAD, ToolCall

Page = Callable[[ToolCall, PageSpan, Viewer], bytes]

OVERVIEW, CHAIN, WORKLOAD_NAME = "overview", "chain", "workload"
_PAGES: Final[Mapping[str, Page]] = {OVERVIEW: overview_page, CHAIN: chain_page, WORKLOAD_NAME: workload_page}
_PARAMETERS: Final = (
    SINCE,
    AT,
    WORKLOAD,
    Parameter("chain_id", "first characters of the id of a chain"),
    Parameter("viewer", "name of the token"),
)


def rendered(name: str, history: Path, scope: Scope, arguments: Mapping[str, Any]) -> bytes:
    """The document. Raises what a tool raises."""
    known = checked(_PARAMETERS, dict(arguments))
    viewer, span = Viewer(known.pop("viewer")), PageSpan(known["since"], known["at"])
    return _PAGES[name](ToolCall(history, scope, known), span, viewer)
