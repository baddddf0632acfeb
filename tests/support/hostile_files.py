"""Histories, recordings and expositions made to mislead or to exhaust their reader. Random ones have a seed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sqlite3
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from exporter import catalog
from exporter.catalog import Metric
from exporter.clock import Moment
from exporter.demo.scenarios import RECORDINGS
from exporter.history.file_guard import claim
from exporter.history.store import Store
from exporter.history.window_batch import WindowBatch
from exporter.model import Family, Histogram, Identity, Point, Snapshot, label_value
from exporter.output import protobuf
from exporter.recording.codec import TABLES
from exporter.totals import Counts
from tests.support.history import NOON, SECOND, a_call_site, a_window, an_event

HOSTILE_TEXTS = (
    "\x1b[2J\x1b]0;owned\x07",
    "a\nb\r\n\tc",
    "\x00\x01\x7f\x9b31m",
    "\u202eexe.gpj\u2066",
    "\u2028line\u2029",
    "\ud800",
    "\ufeff\u200b\u200d",
    "x" * 1_000_000,
    "\x1b" * 300,
    "e\u0301" * 200,
)

Recipe = Callable[[Path], None]


def is_clean(text: str) -> bool:
    """Whether a terminal shows the text as it is: no control, format or surrogate character but the end of a line."""
    return text.replace("\n", "").isprintable()


# ---- histories


def make_history(path: Path, *, now_unix_ns: int = 0) -> None:
    """A valid one, whose chain is open now or at NOON."""
    shift = (now_unix_ns or NOON) - NOON
    began_seconds = shift / SECOND
    file = claim(path)
    store = Store(file, 4 << 20, began_unix_ns=NOON + shift, version="1.0", has_chains=True)
    window = a_window(began_seconds, call_sites=(a_call_site(),))
    store.write(
        [an_event(began_seconds)], [WindowBatch(window.began_unix_ns, window.ended_unix_ns, [window])], NOON + shift
    )
    store.close()
    file.release()


def edited(*statements: str, values: Mapping[str, Any] | None = None) -> Recipe:
    """A valid history with changes. Statements may name values, such as :blob."""

    def make(path: Path) -> None:
        make_history(path, now_unix_ns=time.time_ns())
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("pragma writable_schema = on")
            for statement in statements:
                connection.execute(statement, dict(values or {}))

    return make


def with_document(change: Callable[[dict[str, Any]], Any]) -> Recipe:
    """A history whose event is changed."""

    def make(path: Path) -> None:
        make_history(path, now_unix_ns=time.time_ns())
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            (document,) = connection.execute("select document from events").fetchone()
            known = json.loads(document)
            found = change(known)
            text = found if isinstance(found, str) else json.dumps(known if found is None else found)
            connection.execute("update events set document = ?", (text,))

    return make


def with_windows(raw: bytes) -> Recipe:
    """A history with these bytes as its windows, compressed."""
    return _with_blob(zlib.compress(raw, 9))


def _with_blob(blob: bytes) -> Recipe:
    return edited("update windows set processes = :blob", values={"blob": blob})


def bomb(piece: bytes, times: int, head: bytes = b"") -> bytes:
    """`piece` so many times, compressed, without having it in memory."""
    compressor = zlib.compressobj(9)
    parts = [compressor.compress(head), *(compressor.compress(piece) for _ in range(times)), compressor.flush()]
    return b"".join(parts)


_ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n)"
_VIEWS = {
    "runs": "x, x, x, null, '1', 1, 1.0",
    "windows": "x, 1, 1, 9000000000000000000, x'00'",
    "events": "x, 1, 'c' || x, 'opened', 9000000000000000000, '', '', '', '{}'",
    "stacks": "x, 9000000000000000000, x'00'",
    "collectives": "1, 7, x, 1",
}
_COLUMNS = {
    "runs": "id, began_unix_ns, seen_unix_ns, ended_unix_ns, version, has_chains, window_seconds",
    "windows": "id, run, began_unix_ns, ended_unix_ns, processes",
    "events": "id, run, chain_id, change, at_unix_ns, rank, container, severity, document",
    "stacks": "id, seen_unix_ns, frames",
    "collectives": "run, communicator, number, at_unix_ns",
}


def _view(table: str) -> Recipe:
    return edited(
        f"drop table {table}",
        f"create view {table}({_COLUMNS[table]}) as {_ENDLESS} select {_VIEWS[table]} from n",  # noqa: S608
    )


def _set(**members: Any) -> Recipe:
    return with_document(lambda document: document.update(members))


def _drop(name: str) -> Recipe:
    def change(document: dict[str, Any]) -> None:
        del document[name]

    return with_document(change)


def hand_made_histories() -> Iterator[tuple[str, Recipe]]:
    """Name -> how to make it."""
    for table in _VIEWS:
        yield f"endless view {table}", _view(table)
    yield "fifo", os.mkfifo
    yield "fifo beside", _beside(lambda path: os.mkfifo(f"{path}-wal"))
    yield "fifo as a journal", _beside(lambda path: os.mkfifo(f"{path}-journal"))
    yield "zeros", lambda path: path.symlink_to("/dev/zero")
    yield "link", lambda path: path.symlink_to("/etc/passwd")
    yield "directory", lambda path: path.mkdir()
    yield "sparse", _sparse
    yield "bomb", _with_blob(bomb(b"0," * 500_000, 500, b"["))
    yield "bomb of zeros", _with_blob(bomb(bytes(1 << 20), 1 << 10))
    yield "bomb of objects", with_windows(b"[" + b'{"a":{}},' * 400_000 + b"0]")
    yield "deep windows", with_windows(b"[" * 100_000)
    yield "large blob", edited("update windows set processes = zeroblob(200000000)")
    yield "large text", edited("update events set document = cast(zeroblob(200000000) as text)")
    yield "large id", edited("update events set chain_id = cast(zeroblob(200000000) as text)")
    yield "cut zlib", edited("update windows set processes = substr(processes, 1, 20)")
    yield "text as a blob", edited("update windows set processes = 'text'")
    yield "null blob", edited("update windows set processes = 5")
    yield "bomb as a stack", edited("update stacks set frames = :blob", values={"blob": bomb(bytes(1 << 20), 1 << 10)})
    yield "text as a stack", edited("update stacks set frames = 'text'")
    yield "deep stack", edited("update stacks set frames = :blob", values={"blob": zlib.compress(b"[" * 60_000)})
    yield (
        "stack of numbers",
        edited("update stacks set frames = :blob", values={"blob": zlib.compress(b'["", [[1, 2, 3]]]')}),
    )
    yield "no stacks", edited("delete from stacks")
    yield "text as a time", edited("update windows set began_unix_ns = 'noon'")
    yield "negative time", edited("update runs set seen_unix_ns = -1")
    yield "infinite window", edited("update runs set window_seconds = 9e999")
    yield "text as a length", edited("update runs set window_seconds = 'x'")
    yield "blob as a version", edited("update runs set version = x'00ff'")
    yield "document of bytes", edited("update events set document = x'ff00'")
    yield "document with nul", edited("update events set document = '{' || char(0)")
    yield "deep document", with_document(lambda _: "[" * 100_000)
    yield "deep shares", with_document(lambda document: json.dumps(document).replace('"cron"', "[" * 900 + "]" * 900))
    yield (
        "computed column",
        edited(
            "drop index events_by_time",
            "drop table events",
            "create table events (id integer primary key, run, chain_id, change, at_unix_ns, rank, container, severity,"
            " document generated always as (hex(zeroblob(100000000))) virtual)",
            "insert into events (run, chain_id, change, at_unix_ns) values (1, 'c', 'opened', 9000000000000000000)",
        ),
    )
    yield "no table", edited("drop table windows")
    yield "no column", edited("drop table runs", "create table runs (id integer primary key)")
    yield "virtual table", edited("drop table runs", "create virtual table runs using fts5(id, began_unix_ns)")
    yield (
        "trigger loop",
        edited(
            "drop table events",
            f"create view events({_COLUMNS['events']}) as {_ENDLESS} select {_VIEWS['events']} from n",  # noqa: S608
            "create trigger t instead of update on events begin select 1; end",
        ),
    )
    yield "bad schema", edited("update sqlite_schema set sql = 'create table events(' where name = 'events'")
    yield "root page of another", edited("update sqlite_schema set rootpage = 1 where name = 'events'")
    yield "root page far away", edited("update sqlite_schema set rootpage = 4294967 where name = 'windows'")
    yield "many tables", edited(*(f"create table t{number}(a)" for number in range(500)))
    yield (
        "many runs",
        edited(
            "with recursive n(x) as (select 100 union all select x + 1 from n where x < 400000)"
            " insert into runs select x, 1, 1, null, '1', 1, 1.0 from n"
        ),
    )
    yield (
        "many events",
        edited(
            "with recursive n(x) as (select 100 union all select x + 1 from n where x < 30000)"
            " insert into events select x, run, 'c' || x, change, at_unix_ns, rank, container, severity, document from n, events"
            " where events.id = 1"
        ),
    )
    yield "newer version", edited("pragma user_version = 99")
    for name, value in {
        "at_unix_ns": -1,
        "began_unix_ns": 10**30,
        "duration_ns": 1.5,
        "slowdown": "x",
        "lost_share": float("nan"),
        "contribution": float("inf"),
        "shares": {"a": 1},
        "culprits": [["a"]],
        "peer": 3,
        "is_chronic": "no",
        "identity": {"node": 1},
        "pid": "1",
        "culprit_pids": [10**40],
        "commands": "rm",
        "evidence": [1],
        "cause": "\x1b[2J",
        "severity": ["high"],
        "change": None,
        "effect": {},
        "end": "\n",
    }.items():
        yield f"{name} is {str(value)[:12]!r}", _set(**{name: value})
    for name in ("chain_id", "cause", "culprits", "identity"):
        yield f"without {name}", _drop(name)
    for text in ("null", "[]", "3", '"x"', "", "{}", "NaN", "1" * 10_000):
        yield f"document {text[:5]}", with_document(lambda _, text=text: text or " ")
    for text in ("null", "{}", "[[]]", "[null]", "[[1,2,3,4,5,6,7,8]]", '"x"', "[1e999]"):
        yield f"windows {text}", with_windows(text.encode())


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def _beside(change: Callable[[Path], None]) -> Recipe:
    def make(path: Path) -> None:
        make_history(path, now_unix_ns=time.time_ns())
        change(path)

    return make


def damaged(make: Recipe, seed: int) -> Recipe:
    """The same with a few bytes changed, or cut short."""

    def change(path: Path) -> None:
        make(path)
        rng = random.Random(seed)
        raw = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 400)):
            raw[rng.randrange(100, len(raw))] = rng.randrange(256)
        path.write_bytes(raw if rng.random() < 0.7 else raw[: rng.randrange(100, len(raw))])

    return change


# ---- recordings


def capsule(rest: bytes) -> bytes:
    """With a checksum that fits."""
    digest = hashlib.sha256(rest).hexdigest()
    return f"gpu-stall-exporter capsule 1 sha256={digest} bytes={len(rest)}\n".encode() + rest


def _parts(name: str = "incident") -> tuple[dict[str, Any], list[bytes]]:
    """Head and compressed ticks of a recording that is shipped."""
    rest = (RECORDINGS / f"{name}.capsule").read_bytes().partition(b"\n")[2]
    head, _, ticks = rest.partition(b"\n")
    found, at = [], 0
    while at < len(ticks):
        (length,) = struct.unpack_from("<I", ticks, at)
        found.append(ticks[at + 4 : at + 4 + length])
        at += 4 + length
    return json.loads(head), found


def joined(head: Any, ticks: list[bytes]) -> bytes:
    """A recording of these parts."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return capsule(text + b"\n" + b"".join(struct.pack("<I", len(one)) + one for one in ticks))


def recording_with(**members: Any) -> bytes:
    """A recording that is shipped, with another head."""
    head, ticks = _parts()
    return joined(head | members, ticks)


def tick(
    now_ns: int, rows: list[tuple[str, bytes, bytes]], *, is_whole: bool = True, count: int | None = None
) -> bytes:
    """One tick with these rows, compressed."""
    encoded = [struct.pack("<BHI", TABLES.index(name), len(key), len(value)) + key + value for name, key, value in rows]
    raw = struct.pack("<Q?I", now_ns, is_whole, len(rows) if count is None else count) + b"".join(encoded)
    return zlib.compress(raw, 9)


def hand_made_recordings() -> Iterator[tuple[str, bytes]]:
    """Name -> content."""
    head, ticks = _parts()
    now_ns = head["taken_at"]["monotonic_ns"] - 1
    yield "empty", b""
    yield "no recording", b"hello\n"
    yield "cut short", capsule(b"x")[:-1]
    yield "wrong checksum", joined(head, ticks)[:-1] + b"x"
    yield "huge number of bytes", b"gpu-stall-exporter capsule 1 sha256=" + b"0" * 64 + b" bytes=" + b"9" * 12 + b"\n"
    yield "no head", capsule(b"\n")
    yield "deep head", joined(b"[" * 100_000, [])
    yield "head of values", joined(b"[" + b"0," * 3_000_000 + b"0]", [])
    yield "NaN", joined(b'{"layout": NaN}', [])
    yield "huge number", joined(b'{"layout": [' + b"9" * 5000 + b"]}", [])
    yield "bomb", joined(head, [bomb(bytes(1 << 20), 1 << 10)])
    yield "no zlib", joined(head, [b"zzzz"])
    yield "no tick", joined(head, [zlib.compress(b"zzzz")])
    yield "length beyond the file", capsule(json.dumps(head).encode() + b"\n" + b"\xff\xff\xff\x7f")
    yield "half a length", capsule(json.dumps(head).encode() + b"\n" + b"\xff")
    yield "a million ticks", joined(head, [tick(now_ns, [])] * 400_000)
    yield "ticks without end", joined(head, [tick(now_ns, [])] * 6_001)
    yield "ticks go back", joined(head, [tick(now_ns, []), tick(now_ns - 5, [])])
    yield "tick in the future", joined(head, [tick((1 << 64) - 1, [])])
    yield "rows that are announced", joined(head, [tick(now_ns, [], count=0xFFFFFFFF)])
    many = [("operations", struct.pack("<Q", number), b"x") for number in range(60_000)]
    yield "rows that are padded", joined(head, [tick(now_ns, many)])
    yield (
        "many rows of a few bytes",
        joined(head, [tick(now_ns, [("blame", struct.pack("<H", number), b"") for number in range(65_000)])] * 5),
    )
    for name in TABLES:
        yield f"{name} of other sizes", joined(head, [tick(now_ns, [(name, b"k" * 3, b"v" * 5)])])
        yield f"{name} of ones", joined(head, [tick(now_ns, [(name, b"\xff" * 24, b"\xff" * 4096)])])
    for name, value in {
        "version": 1,
        "layout": "x",
        "node": None,
        "taken_at": {"monotonic_ns": -1, "unix_ns": 1},
        "processes": {"x": {}},
        "reports": [{}],
    }.items():
        yield f"{name} is {value!r}", recording_with(**{name: value})
    for name, value in {"pid": "x", "identity": [], "cgroup": 3, "cpus": None}.items():
        process = {"pid": 1, "identity": None, "cgroup": "", "cpus": "", name: value}
        yield f"process with {name} {value!r}", recording_with(processes={"1": process})
    for name in ("version", "node", "taken_at", "processes", "reports", "layout"):
        yield f"without {name}", joined({key: value for key, value in head.items() if key != name}, ticks)


def damaged_recording(seed: int) -> bytes:
    """A recording that is shipped with changed rows, and a checksum that fits."""
    rng = random.Random(seed)
    head, ticks = _parts(rng.choice(("incident", "straggler", "hang", "gpu-steal")))
    found = []
    for one in ticks:
        raw = bytearray(zlib.decompress(one))
        for _ in range(rng.randint(0, 6)):
            raw[rng.randrange(13, len(raw)) if len(raw) > 13 else 0] = rng.randrange(256)
        found.append(zlib.compress(bytes(raw)))
    return joined(head, found)


# ---- expositions


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def exposition_of(name: str, *series: bytes) -> bytes:
    """One family. series: encoded messages Metric."""
    return _family(name, b"".join(_field(4, one) for one in series))


def _family(name: str, fields: bytes) -> bytes:
    family = _field(1, name.encode()) + fields
    return _varint(len(family)) + family


def _label(name: str, value: bytes) -> bytes:
    return _field(1, _field(1, name.encode()) + _field(2, value))


def valid_exposition(text: str = "a") -> bytes:
    """Workloads with lost time, steps and a chain, in which every label is `text`."""
    identity = Identity(text, "0", text, text, text)
    values: dict[Metric, float | Histogram] = {
        catalog.workload.INFO: 1,
        catalog.sched.LOST: 1.5,
        catalog.sched.CULPRIT: 1.5,
        catalog.cuda.OPERATIONS: 12,
        catalog.cuda.OPERATION_DURATION: Histogram(Counts(100, (5, 1)), 1.5),
        catalog.sched.STEP_DURATION: Histogram(Counts(200, (5, 1)), 1.5),
        catalog.nccl.OPERATION_DURATION: Histogram(Counts(200, (5, 1)), 1.5),
        catalog.chains.ACTIVE: 1,
        catalog.chains.SEVERITY: 3,
        catalog.chains.INFO: 1,
    }
    families = [
        Family(metric, (Point(identity, tuple(label_value(text) for _ in metric.labels), value),))
        for metric, value in values.items()
    ]
    own = Point(None, tuple(label_value(text) for _ in catalog.own.LOSSES.labels), 5)
    families.append(Family(catalog.own.LOSSES, (own,)))
    return b"".join(protobuf.render(Snapshot(Moment(SECOND, NOON), tuple(families), {identity: NOON - SECOND})))


def raw_labels(text: bytes) -> bytes:
    """An exposition whose labels are these bytes, which the exporter would not write."""
    value = struct.pack("<Bd", 1 << 3 | 1, 1.0)
    found = []
    for metric in (catalog.chains.ACTIVE, catalog.chains.INFO, catalog.sched.LOST, catalog.workload.INFO):
        labels = b"".join(_label(name, text) for name in (*catalog.COMMON_LABELS, *metric.labels))
        kind = 3 if metric.kind is catalog.Kind.COUNTER else 2
        found.append(exposition_of(metric.name, labels + _field(kind, value)))
    return b"".join(found)


_LOST = catalog.sched.LOST.name
_EMPTY_LABEL = b"\x0a\x00"


def _many_label_values() -> bytes:
    texts = (f"{number:06}" + "y" * 119 + "\U0001f600" for number in range(90_000))
    return exposition_of(_LOST, *(_label("node", text.encode()) for text in texts))


def _steps(*fields: bytes) -> bytes:
    return exposition_of(catalog.sched.STEP_DURATION.name, _field(7, b"".join(fields)))


HAND_MADE_EXPOSITIONS: dict[str, Callable[[], bytes]] = {
    "empty": bytes,
    "text": lambda: b"# HELP gpustall_lost_seconds_total x\n",
    "zeros": lambda: bytes(1 << 20),
    "ones": lambda: b"\xff" * (1 << 20),
    "other program": lambda: exposition_of("node_load1"),
    "length beyond the body": lambda: b"\xff\xff\xff\x7f" + b"x",
    "endless length": lambda: b"\x80" * 1000,
    "many empty series": lambda: _family(_LOST, _field(4, b"") * 2_000_000),
    "many empty labels": lambda: exposition_of(_LOST, _EMPTY_LABEL * 60_000),
    "many series of empty labels": lambda: _family(_LOST, _field(4, _EMPTY_LABEL * 30_000) * 200),
    "large series": lambda: exposition_of(_LOST, _label("node", b"x" * 200_000)),
    "many spans": lambda: _steps(b"\x62\x00" * 40_000),
    "long span": lambda: _steps(b"\x28\x06", _field(12, b"\x08\x00\x10\xff\xff\xff\xff\x0f")),
    "negative offset": lambda: _steps(b"\x28\x06", _field(12, b"\x08\xff\xff\x03\x10\x01")),
    "other schema": lambda: _steps(b"\x28\x10", _field(12, b"\x08\x00\x10\x01")),
    "many families": lambda: bytes(3_000_000),
    "long name": lambda: exposition_of("x" * 1_000_000),
    "group": lambda: b"\x02\x0b\x0c",
    "field beyond the family": lambda: b"\x03\x22\x7f\x00",
    "deep groups": lambda: exposition_of(_LOST, _field(1, b"\x0b" * 60_000)),
    "many label values": _many_label_values,
    "larger than the limit": lambda: bytes(33 << 20),
}
"""What makes each."""


def damaged_exposition(seed: int) -> bytes:
    """A valid one with some bytes changed."""
    rng = random.Random(seed)
    raw = bytearray(valid_exposition())
    for _ in range(rng.randint(1, 60)):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw if rng.random() < 0.7 else raw[: rng.randrange(len(raw))])
