"""command_line: settings as flags."""

from __future__ import annotations

import argparse

import pytest

from exporter.config import add_arguments
from exporter.config.command_line import texts
from exporter.config.setting import Setting
from tests.unit.config.command_line import loaded

NODE = Setting(flag="node", default="", parse=str, metavar="NAME", help="name")


class TestFlags:
    @pytest.mark.parametrize("flag", ["--no-collector.nccl", "--collector.nccl=false", "--collector.nccl=OFF"])
    def test_collector_is_disabled(self, flag: str) -> None:
        """As in node_exporter, or with a value."""
        assert not loaded(flag).collectors.nccl

    def test_switch_without_a_value_is_on(self) -> None:
        assert loaded("--web.open-health").web.is_health_open

    def test_repeated_flag_adds_a_value(self) -> None:
        flags = ("--web.listen-address=127.0.0.1:1", "--web.listen-address=[::1]:1")

        assert loaded(*flags).web.listen_addresses == (("127.0.0.1", 1), ("::1", 1))

    def test_text_has_its_flag_as_source(self) -> None:
        assert texts({"node": "a", "other": "b"}, [NODE]) == {"node": ("a", "--node")}

    def test_missing_flag_has_no_text(self) -> None:
        assert texts({"node": None}, [NODE]) == {}


class TestHelp:
    def test_settings_are_grouped_by_subject(self) -> None:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        headings = [line[:-1] for line in parser.format_help().splitlines() if line.endswith(":") and " " not in line]

        assert headings == [
            *(
                "options",
                "general",
                "web",
                "probes",
                "collector",
                "stacks",
                "series",
                "history",
                "recording",
                "nccl",
                "orchestrator",
                "otlp",
                "log",
            )
        ]
