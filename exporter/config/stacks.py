"""What evidence of chains shows of a job's program."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.config.parsers import switch
from exporter.config.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    """with_python: whether frames of Python are read. with_python_paths: whether folders of their files are shown."""

    with_python: bool = setting(
        "stacks.python", "true", switch, "BOOL", "show which lines of Python make slow and stuck calls"
    )
    with_python_paths: bool = setting(
        "stacks.python-paths", "true", switch, "BOOL", "show the folders of Python files; false shows only their names"
    )
