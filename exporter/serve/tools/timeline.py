"""The tool that says where the timeline of a time span is to be had: it is too large for an answer."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from exporter.config.recorded_flags import for_same_history
from exporter.history.selection import Selection
from exporter.serve.tools.answer import ToolAnswer
from exporter.serve.tools.tool import AT, SINCE, STRING, WORKLOAD, Tool, ToolCall
from exporter.text.shell import shell_word

PATH: Final = "/api/v1/timeline"


def _timeline(call: ToolCall) -> ToolAnswer:
    since = call.text("since")
    call.seconds("since")
    call.at_unix_ns()
    Selection.of(call.text("workload"))
    asked = {"since": since} | {name: value for name in ("workload", AT.name) if (value := call.text(name))}
    flags = " ".join(shell_word(f"--{name}={value}") for name, value in asked.items())
    command = f"gpu-stall-exporter export {flags}{for_same_history(call.history)} --output=timeline.pftrace"
    file = {"name": "timeline.pftrace", "path": f"{PATH}?{urlencode(asked)}"}
    return ToolAnswer({"command": command, "open_with": "https://ui.perfetto.dev"}, "files", [file])


TIMELINE: Final = Tool(
    "timeline",
    "A Perfetto trace of the time span: its path on this server, with the same token, and the command that writes it.",
    (SINCE, WORKLOAD, AT),
    {"command": STRING, "open_with": STRING},
    "files",
    _timeline,
)
