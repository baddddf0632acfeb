"""tracks: which tracks there are, and how many there may be."""

from __future__ import annotations

from itertools import count

import pytest

from exporter.model import Identity
from exporter.timeline.item import Track
from exporter.timeline.tracks import LINES_MAX, TRACKS_MAX, Lane, TooManyTracks, Tracks
from tests.support.history import process_labels


def path(track: Track | None) -> list[str]:
    """Names from the outermost group on."""
    return [*path(track.parent), track.name] if track else []


class TestTracks:
    def test_workload_is_in_the_group_of_its_node(self) -> None:
        workload = Tracks().workload(process_labels())

        assert path(workload.steps) == ["node gpu7", "rank 3 (pid 100)", "steps"]
        assert path(workload.cause("lock").track) == ["node gpu7", "rank 3 (pid 100)", "lost time", "lock"]
        assert path(workload.thread(101, "worker").track)[-2:] == ["threads", "worker 101"]

    def test_same_process_has_the_same_tracks(self) -> None:
        """Also in the next run of the exporter, in which it has another number."""
        tracks = Tracks()

        assert tracks.workload(process_labels(), 1) is tracks.workload(process_labels(), 2)

    def test_node_without_a_name_has_a_group(self) -> None:
        nameless = process_labels()._replace(identity=Identity())

        assert path(Tracks().workload(nameless).steps)[0] == "node"

    def test_numbers_are_unique(self) -> None:
        tracks = Tracks()
        workloads = [tracks.workload(process_labels(rank, 100)) for rank in "01"]
        numbers = [one.number for workload in workloads for one in (workload.steps, workload.calls)]

        assert len(set(numbers)) == 4

    def test_lines_beyond_a_limit_share_tracks(self) -> None:
        """One where slices lie behind each other, another one where they are at the same time."""
        workload = Tracks().workload(process_labels())
        own = [workload.line(f"line {number}", 0) for number in range(LINES_MAX)]
        first = workload.line("next", 0)
        first.placed(0, 10)

        assert path(own[0].track)[-2:] == ["slow calls", "line 0"]
        assert workload.line("line 0", 0) is own[0]
        assert workload.line("another", 5).track.name == "other lines 2"
        assert workload.line("another", 10) is first

    def test_too_many_are_refused(self) -> None:
        """A source of unknown origin may hold any number of processes."""
        tracks, numbers = Tracks(), count(1)
        with pytest.raises(TooManyTracks, match=f"more than {TRACKS_MAX:,} tracks") as refused:
            any(tracks.workload(process_labels("", number)) is None for number in numbers)

        assert refused.value.remedy == "use --workload, or a smaller --since"


class TestLane:
    def test_slice_begins_where_the_last_one_ends(self) -> None:
        lane = Lane(Track(1, "lock"))

        assert lane.placed(10, 20) == (10, 20)
        assert lane.placed(15, 18) == (20, 20)
        assert lane.placed(30, 40) == (30, 40)
