"""codec: changed rows of ticks as bytes, and their replay."""

from __future__ import annotations

import struct

import pytest

from exporter.gpu.model import GpuState
from exporter.kernel import abi
from exporter.kernel.abi import ThreadState
from exporter.kernel.operation_rows import EXEMPLAR_AT
from exporter.kernel.tables import Tables
from exporter.kernel.thread_rows import THREADS_ADOPT, THREADS_READ
from exporter.recording.codec import RowReplay, Tick, difference, gpu_state_rows, thread_rows, without_histogram
from tests.support.tables import FakeTables

ON_CPU = ThreadState.ON_CPU
A, B = b"\0\0\0\1", b"\0\0\0\2"


def replayed(ticks: list[Tick], name: str = "blame") -> list[dict[bytes, bytes]]:
    """Rows of a table at each tick."""
    replay = RowReplay(ticks)
    return [dict(replay.maps[name].items()) for _ in replay.ticks()]


class TestDifference:
    def test_unchanged_rows_and_tables_are_left_out(self) -> None:
        before = {"blame": {A: b"\x01", B: b"\x02"}, "chains": {A: b"\x01"}}
        now = {"blame": {A: b"\x01", B: b"\x03"}, "chains": {A: b"\x01"}}

        assert difference(before, now) == {"blame": {B: b"\x01"}}

    def test_deleted_row_has_no_value(self) -> None:
        assert difference({"blame": {A: b"\x01"}}, {"blame": {}}) == {"blame": {A: None}}

    def test_replay_gives_the_rows_back(self) -> None:
        """New, changed, deleted, and new again."""
        readings = [
            {A: b"\x07\x01"},
            {A: b"\x09\x01", B: b"\x05\x05"},
            {B: b"\x05\x05"},
            {A: b"\x02\x02", B: b"\x05\x06"},
        ]
        pairs = zip([{}, *readings], readings, strict=False)
        ticks = [Tick(i, difference({"blame": before}, {"blame": now})) for i, (before, now) in enumerate(pairs)]

        assert replayed(ticks) == readings


class TestReplay:
    """Through the exporter's own reader of tables."""

    def test_operations_have_their_sums_and_no_slots(self) -> None:
        """Two calls of 40 ns, on the CPU for 9."""
        fake = FakeTables()
        fake.call(1, "cudaStreamSynchronize", durations_ns=[40, 40], states_ns={ON_CPU: 9})
        rows = {key: without_histogram("operations", value) for key, value in fake.maps["operations"].items()}
        replay = RowReplay([Tick(0, difference({}, {"operations": rows}))])
        list(replay.ticks())
        (row,) = Tables(replay.maps, replay.iterate).read_accounts([]).operations.values()

        assert {len(value) for value in rows.values()} == {EXEMPLAR_AT}
        assert (row.total_ns, row.states_ns[ON_CPU], sum(row.slots), row.slowest) == (80, 9, 0, None)

    def test_deletion_by_the_reader_is_ignored(self) -> None:
        """Row A is deleted by its reader, and then changes."""
        replay = RowReplay([Tick(0, {"blame": {A: b"\x05"}}), Tick(1, {"blame": {A: b"\x03"}})])
        found = []
        for _ in replay.ticks():
            found.append(replay.maps["blame"].get(A))
            replay.maps["blame"].delete(A)

        assert found == [b"\x05", b"\x06"]

    def test_threads_are_rows_by_process_and_tid(self) -> None:
        """An incomplete row at the end of the output is ignored."""
        one = struct.pack("<II", 1, 7).ljust(abi.THREAD_ROW.size, b"\x01")
        rows = thread_rows(one + one[:100])
        replay = RowReplay(
            [Tick(0, difference({}, {"threads": rows})), Tick(1, difference({"threads": rows}, {"threads": {}}))]
        )
        outputs = [replay.iterate(THREADS_READ) for _ in replay.ticks()]

        assert list(rows) == [abi.OPERATION_KEY.pack(1, 7, 0)]
        assert outputs == [one, b""]
        assert replay.iterate(THREADS_ADOPT) == b""

    def test_states_of_gpus_are_replayed(self) -> None:
        """A GPU that throttles more, whose row gets longer, and a MIG instance that is deleted."""
        whole = GpuState("0", "", {"power": 9}, 64e9, 80, {4027: 10})
        part = GpuState("0", "3", {}, 0.0, 20, {})
        later = whole._replace(throttled_ns={"power": 1_234_567_890, "thermal_sw": 1})
        first, second = gpu_state_rows([whole, part]), gpu_state_rows([later])
        replay = RowReplay(
            [Tick(0, difference({}, {"gpus": first})), Tick(1, difference({"gpus": first}, {"gpus": second}))]
        )

        assert [replay.gpus() for _ in replay.ticks()] == [(whole, part), (later,)]

    def test_tick_that_is_whole_replaces_everything(self) -> None:
        """Threads, too."""
        ticks = [
            Tick(0, {"blame": {A: b"\x07"}, "threads": {A: b"t"}}),
            Tick(1, {"blame": {B: b"\x05"}}, is_whole=True),
        ]
        replay = RowReplay(ticks)
        tables = [(dict(replay.maps["blame"].items()), replay.iterate(THREADS_READ)) for _ in replay.ticks()]

        assert tables == [({A: b"\x07"}, b"t"), ({B: b"\x05"}, b"")]

    def test_deletion_of_a_row_that_does_not_exist_is_refused(self) -> None:
        """A tick is missing, or belongs to another recording."""
        with pytest.raises(ValueError, match="a tick deletes a row of blame that does not exist"):
            list(RowReplay([Tick(0, {"blame": {A: None}})]).ticks())


class TestEncoding:
    TICK = Tick(1 << 40, {"blame": {A: b"\x01\x02", B: None}, "threads": {A: b""}}, is_whole=True)

    def test_decoding_gives_the_same_tick(self) -> None:
        """A deleted row is not an empty row."""
        assert Tick.decoded(self.TICK.encoded()) == self.TICK

    @pytest.mark.parametrize("length", range(len(TICK.encoded())))
    def test_truncated_tick_is_refused(self, length: int) -> None:
        with pytest.raises(ValueError, match="tick"):
            Tick.decoded(self.TICK.encoded()[:length])

    def test_bytes_after_the_last_row_are_refused(self) -> None:
        with pytest.raises(ValueError, match="more bytes than rows"):
            Tick.decoded(self.TICK.encoded() + b"x")
