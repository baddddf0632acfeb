"""check: the answer as a table for people and as a document for machines, of findings made up here."""

from __future__ import annotations

import json

from exporter import __version__
from exporter.checks.preflight import CheckState, Finding
from exporter.commands.check import document, table, will_work

KERNEL = Finding("kernel", CheckState.OK, "6.18.0 on x86_64")
DRIVER = Finding("NVIDIA driver", CheckState.ABSENT, "not loaded", "none needed to try it out")
BTF = Finding("BTF", CheckState.FAILED, "no /sys/kernel/btf/vmlinux", "use another kernel")
LIBRARY = Finding(
    "runtime library", CheckState.OK, "/usr/lib/libcudart.so.12: 2 functions", symbols=("cudaFree", "cudaMalloc")
)


class TestVerdict:
    """Would `run` work?"""

    def test_absent_does_not_keep_it_from_working(self) -> None:
        """A machine without an NVIDIA driver runs the stand-in."""
        assert will_work([KERNEL, DRIVER])

    def test_failed_does(self) -> None:
        """One is enough."""
        assert not will_work([KERNEL, BTF, DRIVER])


class TestTable:
    """Subject, mark, detail; the remedy below."""

    def test_each_finding_has_its_mark_and_the_columns_stand(self) -> None:
        """Remedies are led in by an arrow."""
        assert table([KERNEL, DRIVER, BTF], 100, is_coloured=False).splitlines() == [
            "kernel         ok      6.18.0 on x86_64",
            "NVIDIA driver  --      not loaded",
            "                       → none needed to try it out",
            "BTF            FAILED  no /sys/kernel/btf/vmlinux",
            "                       → use another kernel",
        ]

    def test_long_detail_wraps_below_itself(self) -> None:
        """At the width of the terminal."""
        finding = Finding("kernel", CheckState.OK, "word " * 20, "remedy " * 10)
        lines = table([finding], 60, is_coloured=False).splitlines()

        assert max(map(len, lines)) <= 60
        assert lines[0].startswith("kernel  ok      word word")
        assert [line[:16] for line in lines[1:]] == [" " * 16] * (len(lines) - 1)

    def test_narrow_terminal_keeps_30_columns_of_detail(self) -> None:
        """One letter a line would help nobody."""
        lines = table([Finding("kernel", CheckState.OK, "word " * 20)], 10, is_coloured=False).splitlines()

        assert max(map(len, lines)) == 16 + 29

    def test_path_is_not_broken_at_a_hyphen(self) -> None:
        """It is to be copied."""
        path = "/usr/lib/x86_64-linux-gnu/libcudart.so.12"
        finding = Finding("library", CheckState.OK, f"the file called {path}")

        assert path in table([finding], 60, is_coloured=False)

    def test_colour_is_only_in_the_mark(self) -> None:
        """Without it the lines are the same."""
        coloured = table([BTF], 100, is_coloured=True)

        assert coloured.startswith("BTF  \033[1;31mFAILED\033[0m  no /sys")
        assert coloured.replace("\033[1;31m", "").replace("\033[0m", "") == table([BTF], 100, is_coloured=False)

    def test_finding_without_a_detail_has_a_line(self) -> None:
        """Subject and mark."""
        assert table([Finding("port", CheckState.OK, "")], 100, is_coloured=False) == "port  ok      "


class TestDocument:
    """JSON."""

    def test_document_has_version_verdict_and_findings(self) -> None:
        """Every field of a finding."""
        assert json.loads(document([LIBRARY, DRIVER])) == {
            "version": __version__,
            "ok": True,
            "findings": [
                {
                    "subject": "runtime library",
                    "state": "ok",
                    "detail": "/usr/lib/libcudart.so.12: 2 functions",
                    "remedy": "",
                    "symbols": ["cudaFree", "cudaMalloc"],
                },
                {
                    "subject": "NVIDIA driver",
                    "state": "absent",
                    "detail": "not loaded",
                    "remedy": "none needed to try it out",
                    "symbols": [],
                },
            ],
        }

    def test_failure_is_not_ok(self) -> None:
        """The exit code says the same."""
        assert json.loads(document([KERNEL, BTF]))["ok"] is False
