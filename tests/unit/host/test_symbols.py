"""symbols: functions that contain addresses; a program in place of the distribution's interpreter answers for bcc."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import ProcessGone
from exporter.host.processes import Processes
from exporter.host.symbols import AddressNames, CodeAddress, Symbols, by_files, by_functions
from tests.support.direct_reads import files_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

from .process_tree import process, stat_line

MAPS = b"""55729b872000-55729b877000 r-xp 00002000 fe:00 247026                     /usr/bin/trainer
7f5e89d3f000-7f5e89e95000 r-xp 00026000 103:00002 326269                 /opt/my libs/libtorch_cuda.so (deleted)
7f5e89f10000-7f5e89f11000 r-xp 00000000 00:2b 9                          /tmp/a\x1bb.so
"""
STEP, TORCH = 0x55729B872041, 0x7F5E89D3F100


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    """Process 7, with these mappings."""
    return process(tmp_path / "proc", 7, maps=MAPS)


def answering(folder: Path, script: str) -> str:
    """An interpreter that ignores its argument and runs this."""
    python = folder / "python"
    python.write_text(f"#!{sys.executable}\nimport json, signal, sys\n{script}\n")
    python.chmod(0o755)
    return str(python)


def symbols_of(processes: Processes, *options: Any, **more: Any) -> Symbols:
    return Symbols(processes, files_of(processes), *options, **more)


class TestFiles:
    """Names from /proc/TGID/maps."""

    def test_name_is_the_file_and_the_offset_in_it(self) -> None:
        """The mapping starts somewhere in the file."""
        assert by_files(MAPS, [STEP, TORCH]) == {STEP: "trainer+0x2041", TORCH: "libtorch_cuda.so+0x26100"}

    def test_address_in_no_file_has_no_name(self) -> None:
        """Below the first, between two, at the end of one, above the last."""
        assert by_files(MAPS, [0x1000, 0x55729B877000, 0x7F5E89E95000, 0x7FFFFFFFF000]) == {}

    def test_name_is_made_printable(self) -> None:
        """The process chooses the path."""
        assert by_files(MAPS, [0x7F5E89F10010]) == {0x7F5E89F10010: "a\ufffdb.so+0x10"}


class TestFunctions:
    """Output of bcc_symbols.py, which may have any form."""

    def test_function_offset_and_library(self) -> None:
        """The last part of its path."""
        answer = [["train_step", 0x41, "/usr/bin/trainer"], ["malloc", 16, None]]

        assert by_functions(answer, [CodeAddress(1, False), CodeAddress(2, True)]) == {
            1: "train_step+0x41 (trainer)",
            2: "malloc+0x10",
        }

    def test_address_without_a_function_is_left_to_the_files(self) -> None:
        """bcc reports the offset in the file, and so does the name by file."""
        assert by_functions([[None, 0x26100, "/opt/libtorch_cuda.so"]], [CodeAddress(1, False)]) == {}

    def test_names_are_printable_and_short(self) -> None:
        """The author of a file chooses its symbols."""
        (told,) = by_functions([["a\x1b[2J" + "b" * 500, 1, "/x/c\nd"]], [CodeAddress(1, False)]).values()

        assert told == "a\ufffd[2J" + "b" * 115 + "+0x1 (c\ufffdd)"

    @pytest.mark.parametrize(
        "answer", [None, 7, "text", [7], [[]], [["f", "1", None]], [["f", 1, "m", 2]], {"a": 1}, []]
    )
    def test_malformed_answer_names_nothing(self, answer: object) -> None:
        assert by_functions(answer, [CodeAddress(1, False)]) == {}


class TestLookUp:
    """The program is started for one request."""

    def test_functions_are_preferred_to_files(self, processes: Processes, tmp_path: Path) -> None:
        """The address without a function is named by its file."""
        python = answering(tmp_path, 'print(json.dumps([["train_step", 65, "/usr/bin/trainer"], [None, 1, None]]))')

        assert symbols_of(processes, python).name(
            7, [CodeAddress(STEP, True), CodeAddress(TORCH, True)]
        ) == AddressNames({STEP: "train_step+0x41 (trainer)", TORCH: "libtorch_cuda.so+0x26100"}, by_bcc=True)

    def test_each_address_is_requested_once(self, processes: Processes, tmp_path: Path) -> None:
        """With the tgid, and whether the address is a return address."""
        asked = tmp_path / "asked"
        python = answering(tmp_path, f"open({str(asked)!r}, 'w').write(sys.stdin.read())")
        symbols_of(processes, python).name(
            7, [CodeAddress(STEP, False), CodeAddress(TORCH, True), CodeAddress(STEP, False)]
        )

        assert json.loads(asked.read_text()) == {"tgid": 7, "addresses": [[STEP, False], [TORCH, True]]}

    @pytest.mark.parametrize(
        "script",
        ["sys.exit(1)", "print('no JSON')", "print('[' * 2_000_000)", "signal.pause()"],
        ids=["no bcc", "no answer", "too much", "too late"],
    )
    def test_without_an_answer_addresses_are_named_by_file(
        self, processes: Processes, tmp_path: Path, script: str
    ) -> None:
        """by_bcc is false."""
        symbols = symbols_of(processes, answering(tmp_path, script), timeout_seconds=1.0)

        assert symbols.name(7, [CodeAddress(STEP, True)]) == AddressNames({STEP: "trainer+0x2041"}, by_bcc=False)

    def test_without_an_interpreter_addresses_are_named_by_file(self, processes: Processes, tmp_path: Path) -> None:
        """As in an image without one."""
        assert not symbols_of(processes, str(tmp_path / "none")).name(7, [CodeAddress(STEP, True)]).by_bcc

    def test_process_that_ended_raises_process_gone(self, processes: Processes) -> None:
        """Before its mappings were read."""
        with pytest.raises(ProcessGone):
            symbols_of(processes).name(8, [CodeAddress(STEP, True)])

    def test_answer_about_another_process_with_that_tgid_is_dropped(self, processes: Processes, tmp_path: Path) -> None:
        """The tgid was reused while bcc was reading."""
        stat = tmp_path / "proc" / "7" / "stat"
        line = stat_line(7, start_time_ticks=9999)
        python = answering(tmp_path, f"open({str(stat)!r}, 'wb').write({line!r}); print('[null]')")

        with pytest.raises(ProcessGone):
            symbols_of(processes, python).name(7, [CodeAddress(STEP, True)])

    def test_close_kills_the_program(self, processes: Processes, tmp_path: Path) -> None:
        """From another thread; no program is started after it."""
        begun = tmp_path / "begun"
        python = answering(tmp_path, f"open({str(begun)!r}, 'w').close(); signal.pause()")
        symbols = symbols_of(processes, python, timeout_seconds=50)
        found: list[AddressNames] = []
        thread = threading.Thread(target=lambda: found.append(symbols.name(7, [CodeAddress(STEP, True)])))
        thread.start()
        eventually(begun.exists, "the interpreter runs")
        symbols.close()
        thread.join(PATIENCE_SECONDS)
        begun.unlink()

        assert [one.by_bcc for one in found] == [False]
        assert not symbols.name(7, [CodeAddress(STEP, True)]).by_bcc
        assert not begun.exists()


class TestRealProgram:
    """bcc_symbols.py in the distribution's interpreter, where that has bcc."""

    def test_function_of_this_process_is_named(self) -> None:
        """getpid() of libc, at the address that the loader gave it."""
        pytest.importorskip("ctypes")
        import ctypes

        if not Path("/usr/lib/python3/dist-packages/bcc").exists():
            pytest.skip("no bcc: apt-get install python3-bpfcc")
        address = ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value
        assert address is not None
        named = symbols_of(Processes()).name(os.getpid(), [CodeAddress(address, False), CodeAddress(address + 1, True)])

        assert named.by_bcc
        assert named.texts[address].partition("+")[0].endswith("getppid")
        assert "+0x1 (libc" in named.texts[address + 1]
