"""tape: what moved from tick to tick, as bytes, and the tables again."""

from __future__ import annotations

import pytest

from exporter.gpu.model import GpuState
from exporter.kernel import abi
from exporter.kernel.abi import ThreadState
from exporter.kernel.operation_rows import EXEMPLAR_AT
from exporter.kernel.tables import Tables
from exporter.kernel.thread_rows import THREADS_ADOPT, THREADS_READ
from exporter.recording.codec import RowReplay, Tick, device_rows, difference, thread_rows, without_slots
from tests.support.tables import FakeTables

ON_CPU = ThreadState.ON_CPU
A, B = b"\0\0\0\1", b"\0\0\0\2"


def replayed(ticks: list[Tick], name: str = "blame") -> list[dict[bytes, bytes]]:
    """A table at each tick."""
    replay = RowReplay(ticks)
    return [dict(replay.maps[name].items()) for _ in replay.ticks()]


class TestDifference:
    """Only what moved."""

    def test_rows_that_stay_are_left_out(self) -> None:
        """And tables of which all do."""
        before = {"blame": {A: b"\x01", B: b"\x02"}, "chains": {A: b"\x01"}}
        now = {"blame": {A: b"\x01", B: b"\x03"}, "chains": {A: b"\x01"}}

        assert difference(before, now) == {"blame": {B: b"\x01"}}

    def test_row_that_is_gone_is_named(self) -> None:
        """Without a value."""
        assert difference({"blame": {A: b"\x01"}}, {"blame": {}}) == {"blame": {A: None}}

    def test_replay_gives_the_rows_back(self) -> None:
        """New, moved, gone, and new again."""
        readings = [
            {A: b"\x07\x01"},
            {A: b"\x09\x01", B: b"\x05\x05"},
            {B: b"\x05\x05"},
            {A: b"\x02\x02", B: b"\x05\x06"},
        ]
        pairs = zip([{}, *readings], readings, strict=False)
        ticks = [Tick(i, difference({"blame": before}, {"blame": now})) for i, (before, now) in enumerate(pairs)]

        assert replayed(ticks) == readings


class TestTables:
    """What the exporter's own reader makes of a replay."""

    def test_operations_have_their_sums_and_no_slots(self) -> None:
        """Two calls of 40 ns, on the CPU for 9."""
        fake = FakeTables()
        fake.call(1, "cudaStreamSynchronize", durations_ns=[40, 40], states_ns={ON_CPU: 9})
        rows = {key: without_slots("operations", value) for key, value in fake.maps["operations"].items()}
        replay = RowReplay([Tick(0, difference({}, {"operations": rows}))])
        list(replay.ticks())
        (row,) = Tables(replay.maps, replay.iterate).read_accounts([]).operations.values()

        assert {len(value) for value in rows.values()} == {EXEMPLAR_AT}
        assert (row.total_ns, row.states_ns[ON_CPU], sum(row.slots), row.slowest) == (80, 9, 0, None)

    def test_reader_that_prunes_changes_nothing(self) -> None:
        """Row A is deleted by who reads it, and then moves."""
        replay = RowReplay([Tick(0, {"blame": {A: b"\x05"}}), Tick(1, {"blame": {A: b"\x03"}})])
        found = []
        for _ in replay.ticks():
            found.append(replay.maps["blame"].get(A))
            replay.maps["blame"].delete(A)

        assert found == [b"\x05", b"\x06"]

    def test_threads_are_rows_by_process_and_tid(self) -> None:
        """Half a row at the end of the iterator's output is none."""
        one = abi.THREAD_ROW.pack(1, 7, *[0] * (len(abi.THREAD_ROW.unpack(bytes(abi.THREAD_ROW.size))) - 3), b"one")
        rows = thread_rows(one + one[:100])
        replay = RowReplay(
            [Tick(0, difference({}, {"threads": rows})), Tick(1, difference({"threads": rows}, {"threads": {}}))]
        )
        told = [replay.iterate(THREADS_READ) for _ in replay.ticks()]

        assert list(rows) == [abi.OPERATION_KEY.pack(1, 7, 0)]
        assert told == [one, b""]
        assert replay.iterate(THREADS_ADOPT) == b""

    def test_what_is_known_of_gpus_comes_back_as_it_was(self) -> None:
        """A GPU that throttles more, and a part of it that goes; what is told has more digits the second time."""
        whole = GpuState("0", "", {"power": 9}, 64e9, 80, {4027: 10})
        part = GpuState("0", "3", {}, 0.0, 20, {})
        later = whole._replace(throttled_ns={"power": 1_234_567_890, "thermal_sw": 1})
        first, second = device_rows([whole, part]), device_rows([later])
        replay = RowReplay(
            [Tick(0, difference({}, {"devices": first})), Tick(1, difference({"devices": first}, {"devices": second}))]
        )

        assert [replay.devices() for _ in replay.ticks()] == [(whole, part), (later,)]

    def test_tick_that_is_whole_replaces_everything(self) -> None:
        """Threads as well."""
        ticks = [
            Tick(0, {"blame": {A: b"\x07"}, "threads": {A: b"t"}}),
            Tick(1, {"blame": {B: b"\x05"}}, is_whole=True),
        ]
        replay = RowReplay(ticks)
        told = [(dict(replay.maps["blame"].items()), replay.iterate(THREADS_READ)) for _ in replay.ticks()]

        assert told == [({A: b"\x07"}, b"t"), ({B: b"\x05"}, b"")]

    def test_row_that_never_began_cannot_end(self) -> None:
        """A tick is missing, or is none of this recording."""
        with pytest.raises(ValueError, match="a row of blame ends that never began"):
            list(RowReplay([Tick(0, {"blame": {A: None}})]).ticks())


class TestBytes:
    """Of a tick."""

    TICK = Tick(1 << 40, {"blame": {A: b"\x01\x02", B: None}, "threads": {A: b""}}, is_whole=True)

    def test_they_become_the_tick_again(self) -> None:
        """Rows that are gone and rows without a byte are two things."""
        assert Tick.decoded(self.TICK.encoded()) == self.TICK

    @pytest.mark.parametrize("length", range(len(TICK.encoded())))
    def test_tick_that_is_cut_is_refused(self, length: int) -> None:
        """Wherever."""
        with pytest.raises(ValueError, match="tick"):
            Tick.decoded(self.TICK.encoded()[:length])

    def test_tick_that_goes_on_is_refused(self) -> None:
        """Behind its last row."""
        with pytest.raises(ValueError, match="more bytes than rows"):
            Tick.decoded(self.TICK.encoded() + b"x")
