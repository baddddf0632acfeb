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

    def test_settings_with_a_closed_set_of_words_have_them_as_choices(self) -> None:
        """In the order of their messages; what may be anything has none."""
        (run,) = (one for one in commands(command_parsers()) if one.name == "run")
        found = {flag.name: flag.choices for flag in run.flags if flag.choices not in ((), ("true", "false"))}

        assert found == {
            "--probes.attach": ("auto", "session", "multi", "single"),
            "--probes.launch": ("full", "sampled", "off"),
            "--probes.returns": ("auto", "always", "never"),
            "--orchestrator.kind": ("auto", "kubernetes", "kubelet", "ecs", "ecs-agent", "none"),
            "--otlp.protocol": ("http/json", "http/protobuf"),
            "--otlp.compression": ("gzip", "none"),
            "--otlp.temporality": ("cumulative", "delta", "lowmemory"),
            "--otlp.histograms": ("exponential", "explicit"),
            "--log.level": ("debug", "info", "warning", "error"),
            "--log.format": ("logfmt", "json"),
        }
