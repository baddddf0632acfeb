"""short_lived: many programs of one parent have one name, on which a person can act."""

from __future__ import annotations

import pytest

from exporter.accounting.short_lived import ShortLived
from exporter.kernel.abi import Culprit, Victim
from exporter.kernel.thread_rows import BlameKey

SECOND = 1_000_000_000
MAKE = (500, b"make")
INIT = (1, b"systemd")
TOOLS = (b"gcc", b"cc1", b"as", b"ld", b"sh")


def short(comm: bytes, tgid: int, ancestor: tuple[int, bytes] = MAKE, cgroup_id: int = 7) -> BlameKey:
    """A process that began a moment ago."""
    return BlameKey(1, Victim.STEP, Culprit.TASK, tgid, ancestor[0], cgroup_id, comm, ancestor[1])


LONG = BlameKey(1, Victim.STEP, Culprit.TASK, 42, 0, 7, b"stress-ng")


@pytest.fixture
def names() -> ShortLived:
    """Cgroup 7 is of cron, cgroup 8 of nothing known."""
    return ShortLived({7: "cron.service"}.get)  # type: ignore[arg-type]


def met(names: ShortLived, *keys: BlameKey, at: float = 0.0) -> None:
    """These are charged."""
    names.observe(keys, int(at * SECOND))


class TestMany:
    """Five names below one ancestor within a minute."""

    def test_they_have_the_name_of_their_ancestor(self, names: ShortLived) -> None:
        """And the process to act on is make."""
        family = [short(comm, 600 + number) for number, comm in enumerate(TOOLS)]
        met(names, *family)

        assert {names.name_of(key) for key in family} == {"make (children)"}
        assert {names.tgid_of(key) for key in family} == {500}

    def test_four_names_stay_what_they_are(self, names: ShortLived) -> None:
        """However many processes there are."""
        family = [short(TOOLS[number % 4], 600 + number) for number in range(40)]
        met(names, *family)

        assert {names.name_of(key) for key in family} == {"gcc", "cc1", "as", "ld"}

    def test_those_of_another_ancestor_do_not_count(self, names: ShortLived) -> None:
        """Two builds, four names in each."""
        met(names, *(short(comm, 600 + number) for number, comm in enumerate(TOOLS[:4])))
        met(names, short(TOOLS[4], 700, (501, b"ninja")))

        assert names.name_of(short(b"cc1", 601)) == "cc1"

    def test_names_of_more_than_a_minute_ago_do_not_count(self, names: ShortLived) -> None:
        """One script a minute is no flood."""
        for number, comm in enumerate(TOOLS):
            met(names, short(comm, 600 + number), at=61.0 * number)

        assert names.name_of(short(b"sh", 604)) == "sh"


class TestLasting:
    """A process that goes on for two seconds is a culprit of its own."""

    def test_long_lived_process_has_its_own_name(self, names: ShortLived) -> None:
        """It has no ancestor in its key."""
        met(names, *(short(comm, 600 + number) for number, comm in enumerate(TOOLS)), LONG)

        assert (names.name_of(LONG), names.tgid_of(LONG)) == ("stress-ng", 42)


class TestInit:
    """What the first process of the machine starts is named by its cgroup."""

    def test_it_is_the_unit(self, names: ShortLived) -> None:
        """As systemctl takes it."""
        met(names, *(short(comm, 600 + number, INIT) for number, comm in enumerate(TOOLS)))

        key = short(b"cc1", 601, INIT)
        assert (names.name_of(key), names.tgid_of(key)) == ("cron.service", 0)

    def test_without_a_known_unit_it_is_the_process(self) -> None:
        """As in a replay."""
        names = ShortLived()
        met(names, *(short(comm, 600 + number, INIT) for number, comm in enumerate(TOOLS)))

        assert names.name_of(short(b"cc1", 601, INIT)) == "systemd (children)"
