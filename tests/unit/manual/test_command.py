"""Commands and flags, from parsers."""

from __future__ import annotations

import argparse

from exporter.__main__ import COMMANDS, command_parsers
from exporter.manual.command import Flag, command, commands


class TestCommand:
    def test_flags_have_their_values(self) -> None:
        parser = argparse.ArgumentParser(usage="p x [flags]")
        parser.add_argument("--format", choices=("text", "json"), help="form, 100%%")
        parser.add_argument("--once", action="store_true", help="once")
        parser.add_argument("word", choices=("a", "b"))
        found = command("x", "purpose", parser)

        assert found.flags == (
            Flag("--format", "text|json", ("text", "json"), "form, 100%", True),
            Flag("--once", "", (), "once", True),
        )
        assert (found.usage, found.words) == ("p x [flags]", ("a", "b"))

    def test_every_command_is_there_with_its_flags(self) -> None:
        """Also flags that disable a collector, which help does not list."""
        found = {one.name: {flag.name for flag in one.flags} for one in commands(command_parsers())}

        assert set(found) == set(COMMANDS)
        assert {"--no-collector.nccl", "--collector.nccl", "--log.level"} <= found["run"]
        assert {"--replay", "--duration"} <= found["demo"]
