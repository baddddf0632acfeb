"""Shares of the tables: rows read and requests made."""

from __future__ import annotations

from exporter.kernel import abi
from exporter.kernel.abi import ShareRequest, ShareTable
from exporter.kernel.share_rows import TABLES, OwnerRow, ProcessShare, Shares, write_capacities
from tests.support.tables import FakeMap

NONE = (0,) * abi.SHARE_TABLES


def _with(**rows: int) -> tuple[int, ...]:
    return tuple(rows.get(name, 0) for name in TABLES)


class TestShares:
    def test_share_of_a_process_has_its_owner_and_what_it_holds(self) -> None:
        """A process that has ended has none."""
        table, held = FakeMap(), _with(errors=5)[: abi.SHARE_OF_GROUPS]
        table.put(abi.NUMBER.pack(3), abi.PROCESS_SHARE.pack(256, 1000, 77, 1 << 63 | 1000, *held, 0))
        shares = Shares({"process_shares": table})

        assert shares.of_process(3) == ProcessShare(256, 1000, 77, 1 << 63 | 1000, held)
        assert shares.of_process(4) is None

    def test_owner_that_holds_nothing_has_zeros(self) -> None:
        """Also without a kernel."""
        assert Shares({}).of_owner(300) == OwnerRow(NONE, NONE, 0)

    def test_row_of_an_owner_has_what_it_holds_and_was_refused(self) -> None:
        table = FakeMap()
        table.put(abi.NUMBER.pack(300), abi.OWNER_ROW.pack(*_with(errors=5), *_with(graphs=7), 1001, 0))

        assert Shares({"owners": table}).of_owner(300) == OwnerRow(_with(errors=5), _with(graphs=7), 1001)

    def test_changes_are_requested_from_the_kernel(self) -> None:
        """Only a program can change sums that other programs add to."""
        requests: list[tuple[int, ...]] = []
        shares = Shares({}, lambda *arguments: requests.append(arguments))
        shares.assign(3, 256)
        shares.release([3, 3], ShareTable.BLAME)
        shares.end([4])
        shares.clear_owner(256)

        assert requests == [
            (ShareRequest.OWNER, 3, 256),
            (ShareRequest.RELEASE, 3, ShareTable.BLAME, 1),
            (ShareRequest.RELEASE, 3, ShareTable.BLAME, 1),
            (ShareRequest.END, 4),
            (ShareRequest.CLEAR, 256),
        ]

    def test_expected_user_leads_to_the_place_of_its_owner(self) -> None:
        table = FakeMap()
        shares = Shares({"owner_places": table})
        shares.expect(1 << 63 | 1000, 256)

        assert table.rows == {b"\xe8\x03\0\0\0\0\0\x80": abi.NUMBER.pack(256)}

        shares.expect(1 << 63 | 1000, None)

        assert table.rows == {}

    def test_totals_are_of_tables_that_are_loaded(self) -> None:
        """A table without a size belongs to an object that is not loaded."""
        table = FakeMap()
        maps = {"share_totals": table, "errors": FakeMap(capacity=8)}
        write_capacities(maps)

        assert Shares(maps).totals() == {"errors": (0, 8)}

    def test_row_of_a_control_group_is_given_back_to_the_owner_in_it(self) -> None:
        """Not to the one that the group would have by now. A row that is gone already was given back."""
        requests: list[tuple[int, ...]] = []
        table = FakeMap()
        shares = Shares({"retransmits": table}, lambda *arguments: requests.append(arguments))
        table.put(b"key", abi.RETRANSMIT_ROW.pack(17, 0, 5, 2))
        shares.delete_of_group(ShareTable.RETRANSMITS, b"key")
        shares.delete_of_group(ShareTable.RETRANSMITS, b"key")

        assert table.rows == {}
        assert requests == [(ShareRequest.GROUP, 17, ShareTable.RETRANSMITS)]
