"""kernel.maps: a map that is read in batches."""

from __future__ import annotations

from tests.support.fake_libbpf import FakeLibbpf, map_of

ROWS = [(bytes([number, 0, 0, 0]), bytes([number]) * 8) for number in range(5)]


class TestItems:
    def test_batches_follow_one_another(self) -> None:
        libbpf = FakeLibbpf()
        libbpf.batches = [ROWS[:3], ROWS[3:]]

        assert list(map_of(libbpf, value_bytes=8, capacity=16).items()) == ROWS

    def test_empty_map_has_no_items(self) -> None:
        libbpf = FakeLibbpf()
        libbpf.batches = [[]]

        assert list(map_of(libbpf, value_bytes=8, capacity=16).items()) == []

    def test_room_doubles_until_a_bucket_fits_and_stays(self) -> None:
        """128 KiB of a value leave room for two at first; five are in one bucket."""
        libbpf = FakeLibbpf()
        large = [(key, value * (16 << 10)) for key, value in ROWS]
        table = map_of(libbpf, value_bytes=128 << 10, capacity=16)
        for _ in range(2):
            libbpf.batches = [large]
            assert list(table.items()) == large

        assert libbpf.rooms == [2, 4, 8, 8]

    def test_room_is_never_larger_than_the_map(self) -> None:
        libbpf = FakeLibbpf()
        libbpf.batches = [ROWS[:3]]
        list(map_of(libbpf, value_bytes=8, capacity=3).items())

        assert libbpf.rooms == [3]

    def test_reading_may_begin_within_another(self) -> None:
        """Each has a buffer of its own."""
        libbpf = FakeLibbpf()
        table = map_of(libbpf, value_bytes=8, capacity=16)
        libbpf.batches = [ROWS[:1]]
        outer = table.items()
        first = next(outer)
        libbpf.batches = [ROWS[1:]]
        inner = list(table.items())

        assert (first, inner, list(outer)) == (ROWS[0], ROWS[1:], [])
