"""Exported timelines, read by Perfetto's own trace processor: no error, and as many slices as the source holds."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from exporter.__main__ import main
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.demo.scenarios import SCENARIOS
from exporter.history.file_guard import claim
from exporter.history.run import RecordedWindows
from exporter.history.store import Store
from exporter.history.window import Window
from exporter.history.window_batch import WindowBatch
from exporter.pipeline.replay import ReplayedRun
from exporter.pipeline.replayed_windows import ReplayedThreads, ReplayedWindows
from exporter.recording.file import read
from tests.support.history import NOON, SECOND, a_call_site, a_window, an_event, process_labels, resolved
from tests.support.hostile_files import HOSTILE_TEXTS
from tests.support.trace_processor import ERRORS, answers, counted

FORMATS = pytest.mark.parametrize("form", ["perfetto", "chrome"])
SLICES = "select category, count(*) from slice group by 1"
LOST = (
    "select cast(round(sum(real_value) * 1e6) as int) from slice join args using (arg_set_id)"
    " where category = 'lost_time' and key glob '*lost_seconds'"
)
DEPTHS = "select category, max(depth), min(dur) from slice group by 1 order by 1"
PATHS = (
    "with recursive path (id, name, text) as (select id, name, name from track where parent_id is null union all"
    " select t.id, t.name, p.text || '/' || t.name from track t join path p on t.parent_id = p.id)"
    " select distinct text from path order by 1"
)
ARGUMENTS = (
    "select distinct string_value from slice join args using (arg_set_id)"
    " where category = 'chain' and key glob '*culprits*'"
)


def exported(path: Path, *flags: str) -> bytes:
    """What `export` writes."""
    assert main(["export", *flags, f"--output={path}"]) == 0
    return path.read_bytes()


def counts_of_windows(recorded: list[RecordedWindows]) -> tuple[int, int]:
    """How many causes there are in all windows, and how many microseconds were lost to them."""
    lost = [ns for one in recorded for window in one.windows for ns in window.lost_ns.values() if ns > 0]
    return len(lost), round(sum(lost) / 1000)


def counts_of_events(events: list[ChainEvent]) -> Counter[str]:
    return Counter(
        chain=len({one.chain_id for one in events}),
        severity=sum(one.change in (Change.OPENED, Change.ESCALATED) for one in events),
        stack=sum(bool(one.evidence) and one.change is Change.EVIDENCE for one in events),
    )


def a_history(folder: Path, windows: list[Window], events: list[ChainEvent]) -> Path:
    path = folder / "state" / "history.sqlite"
    file = claim(path)
    now_unix_ns = time.time_ns()
    store = Store(file, 64 << 20, began_unix_ns=now_unix_ns - 3600 * SECOND, version="1.0", has_chains=True)
    batches = [WindowBatch(one.began_unix_ns, one.ended_unix_ns, [one]) for one in windows]
    store.write(events, batches, now_unix_ns)
    store.close()
    file.release()
    return path


def seconds_ago(seconds: float) -> float:
    """After NOON, which times of tests.support.history count from."""
    return (time.time_ns() - NOON) / SECOND - seconds


class TestRecordings:
    @FORMATS
    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_every_demo_has_the_slices_of_its_rows(self, scenario: str, form: str, tmp_path: Path) -> None:
        recording = read(SCENARIOS[scenario].recording)
        replayed = ReplayedRun(recording.ticks())
        windows, threads = ReplayedWindows(recording, replayed), ReplayedThreads(recording, replayed)
        found, spans = [], 0
        for _ in replayed.ticks():
            spans += len(list(threads.take()))
            if windows.length_ns >= SECOND:
                found.append(windows.take())
        found.append(windows.take())
        causes, lost_us = counts_of_windows(found)
        trace = exported(tmp_path / "t", f"--recording={SCENARIOS[scenario].recording}", f"--format={form}")
        errors, slices, ((lost,),) = answers(trace, ERRORS, SLICES, LOST)

        assert errors == []
        assert counted(slices) == counts_of_events(list(recording.events)) + Counter(
            exporter=1, lost_time=causes, thread=spans
        )
        assert abs(int(str(lost)) - lost_us) <= 1


class TestHistories:
    @FORMATS
    def test_history_has_the_slices_of_its_rows(self, form: str, tmp_path: Path) -> None:
        """Two ranks over three minutes; two chains at the same time, one escalates, one is open."""
        labels = [process_labels("3", 100), process_labels("4", 104)]
        windows = [
            a_window(seconds_ago(190 - 10 * number), labels=labels[number % 2], process=number % 2 + 1)
            for number in range(18)
        ]
        first = an_event(seconds_ago(150))
        worse = an_event(seconds_ago(150), change=Change.ESCALATED, at_unix_ns=first.at_unix_ns + 9 * SECOND)
        stack = an_event(seconds_ago(150), change=Change.EVIDENCE, evidence=("thread 101 is in a call", "  f (a.py:3)"))
        second = an_event(seconds_ago(140), chain_id="2" * 32, culprits=(("cron", 1.0),))
        events = [first, worse, stack, second, resolved(worse, 60)]
        path = a_history(tmp_path, windows, events)
        trace = exported(tmp_path / "t", f"--history.path={path}", f"--format={form}")
        errors, slices, depths, culprits = answers(trace, ERRORS, SLICES, DEPTHS, ARGUMENTS)

        assert errors == []
        assert counted(slices) == Counter(exporter=1, lost_time=36, chain=2, severity=3, stack=1)
        assert {str(name): depth for name, depth, _ in depths}["severity"] == 1
        assert {str(name): depth for name, depth, _ in depths}["chain"] == 0
        assert {str(text) for (text,) in culprits} == {"stress-ng 94 %", "cron 4.0 %", "cron 100 %"}

    @FORMATS
    def test_slow_lines_are_slices_with_their_stack(self, form: str, tmp_path: Path) -> None:
        """Two lines in each of two windows, the stack of each once."""
        sites = (a_call_site(1), a_call_site(2))
        windows = [a_window(seconds_ago(30 - 10 * number), call_sites=sites) for number in range(2)]
        path = a_history(tmp_path, windows, [])
        trace = exported(tmp_path / "t", f"--history.path={path}", f"--format={form}")
        errors, slices = answers(trace, ERRORS, SLICES)

        assert errors == []
        assert counted(slices) == Counter(exporter=1, lost_time=4, slow_calls=4, stack=2)

    def test_tracks_of_a_workload_are_in_its_group(self, tmp_path: Path) -> None:
        """Node, workload, and what belongs to it."""
        path = a_history(tmp_path, [a_window(seconds_ago(30))], [an_event(seconds_ago(40))])
        (paths,) = answers(exported(tmp_path / "t", f"--history.path={path}"), PATHS)
        texts = [str(text) for (text,) in paths]

        assert "node gpu7/rank 3 (pid 100)/lost time/cpu_contention" in texts
        assert "node gpu7/rank 3 (pid 100)/steps" in texts
        assert "node gpu7/open chains: high" in texts

    def test_times_are_times_of_day(self, tmp_path: Path) -> None:
        """Perfetto counts from the start of the machine; the first packet says which time of day that is."""
        window = a_window(seconds_ago(30))
        path = a_history(tmp_path, [window], [])
        query = "select ts, to_realtime(ts), dur from slice where category = 'lost_time' limit 1"
        (((began, real, length),),) = answers(exported(tmp_path / "t", f"--history.path={path}"), query)

        assert (began, real, length) == (window.began_unix_ns, window.began_unix_ns, 10 * SECOND)


class TestHostileTexts:
    """Names that a tenant chose: control characters, quotes, bytes that are no text, a megabyte."""

    @FORMATS
    def test_they_are_shown_and_nothing_else_changes(self, form: str, tmp_path: Path) -> None:
        """A chain of a workload for each text."""
        path = a_history(tmp_path, [a_window(seconds_ago(30))], [an_event(seconds_ago(40))])
        with closing(connect(path, isolation_level=None)) as connection:
            run, change, at_unix_ns, document = connection.execute(
                "select run, change, at_unix_ns, document from events"
            ).fetchone()
            for number, hostile in enumerate(HOSTILE_TEXTS):
                text = hostile[:100] + '"}]\\'
                changed = json.loads(document) | {"culprits": [[text, 0.9]], "detail": text, "cgroup": text}
                changed |= {"chain_id": f"{number:032}", "evidence": [text]}
                changed["identity"] |= {"rank": text, "pod": text}
                connection.execute(
                    "insert into events values (null, ?, ?, ?, ?, '', '', '', ?)",
                    (run, changed["chain_id"], change, at_unix_ns, json.dumps(changed)),
                )
        errors, slices, culprits = answers(
            exported(tmp_path / "t", f"--history.path={path}", f"--format={form}"), ERRORS, SLICES, ARGUMENTS
        )
        hostile_ones = [str(text) for (text,) in culprits if str(text).endswith('"}]\\ 90 %')]
        chains = len(HOSTILE_TEXTS) + 1

        assert errors == []
        assert counted(slices) == Counter(
            exporter=1, lost_time=2, chain=chains, severity=chains, stack=len(HOSTILE_TEXTS)
        )
        assert len(hostile_ones) >= 7  # some differ in characters that are not printable alone
        assert all(text.isprintable() for text in hostile_ones)
