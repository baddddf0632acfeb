"""check: checks as a table for people and as a document for machines."""

from __future__ import annotations

import json

from exporter import __version__
from exporter.checks.check import Check, CheckState
from exporter.commands.check import can_start, document, table

KERNEL = Check("kernel", CheckState.OK, "6.18.0 on x86_64")
DRIVER = Check("NVIDIA driver", CheckState.WARNING, "not loaded", "none needed to try it out")
BTF = Check("BTF", CheckState.FAILED, "no /sys/kernel/btf/vmlinux", "use another kernel")
LIBRARY = Check(
    "runtime library", CheckState.OK, "/usr/lib/libcudart.so.12: 2 functions", symbols=("cudaFree", "cudaMalloc")
)


class TestCanStart:
    def test_warning_does_not_keep_run_from_starting(self) -> None:
        assert can_start([KERNEL, DRIVER])

    def test_one_failed_check_does(self) -> None:
        assert not can_start([KERNEL, BTF, DRIVER])


class TestTable:
    def test_columns_are_aligned_and_remedies_stand_below(self) -> None:
        assert table([KERNEL, DRIVER, BTF], 100, with_colour=False).splitlines() == [
            "kernel         ok       6.18.0 on x86_64",
            "NVIDIA driver  warning  not loaded",
            "                        → none needed to try it out",
            "BTF            FAILED   no /sys/kernel/btf/vmlinux",
            "                        → use another kernel",
        ]

    def test_long_text_wraps_at_the_width_of_the_terminal(self) -> None:
        check = Check("kernel", CheckState.OK, "word " * 20, "remedy " * 10)
        lines = table([check], 60, with_colour=False).splitlines()

        assert max(map(len, lines)) <= 60
        assert lines[0].startswith("kernel  ok       word word")
        assert [line[:17] for line in lines[1:]] == [" " * 17] * (len(lines) - 1)

    def test_narrow_terminal_has_the_text_below_the_state(self) -> None:
        """Beside it there would be room for a word per line."""
        lines = table([Check("kernel", CheckState.OK, "word " * 20, "fix it")], 40, with_colour=False).splitlines()

        assert lines == [
            "kernel  ok     ",
            "  word word word word word word word",
            "  word word word word word word word",
            "  word word word word word word",
            "  → fix it",
        ]

    def test_path_is_not_broken_at_a_hyphen(self) -> None:
        """It can be copied."""
        path = "/usr/lib/x86_64-linux-gnu/libcudart.so.12"

        assert path in table([Check("library", CheckState.OK, f"the file called {path}")], 60, with_colour=False)

    def test_only_the_state_is_coloured(self) -> None:
        coloured = table([BTF], 100, with_colour=True)

        assert coloured.startswith("BTF  \033[1;31mFAILED \033[0m  no /sys")
        assert coloured.replace("\033[1;31m", "").replace("\033[0m", "") == table([BTF], 100, with_colour=False)

    def test_check_that_found_nothing_has_a_line(self) -> None:
        assert table([Check("port", CheckState.OK, "")], 100, with_colour=False) == "port  ok       "


class TestDocument:
    def test_has_the_version_the_verdict_and_every_field_of_each_check(self) -> None:
        assert json.loads(document([LIBRARY, DRIVER])) == {
            "version": __version__,
            "ok": True,
            "checks": [
                {
                    "name": "runtime library",
                    "state": "ok",
                    "found": "/usr/lib/libcudart.so.12: 2 functions",
                    "remedy": "",
                    "symbols": ["cudaFree", "cudaMalloc"],
                },
                {
                    "name": "NVIDIA driver",
                    "state": "warning",
                    "found": "not loaded",
                    "remedy": "none needed to try it out",
                    "symbols": [],
                },
            ],
        }

    def test_failed_check_makes_it_not_ok(self) -> None:
        assert json.loads(document([KERNEL, BTF]))["ok"] is False
