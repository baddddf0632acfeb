"""Framework or serving engine of a process, and the duration of its iterations.

In: the engine of each process, and the table that bpf/lib/outputs.bpf.h fills, read at every tick for serving engines only. Out:
Totals of each process. Cost: a look-up a tick for each process of a serving engine.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from exporter import catalog
from exporter.accounting.serving import Served, Serving
from exporter.kernel.tables import Tables
from exporter.totals import Series, Total, Totals


class Engines:
    """Keeps state: the ring of outputs holds little more than one tick.

    serving: names of the engines that have iterations.
    """

    def __init__(self, tables: Tables, serving: Container[str]) -> None:
        self._tables = tables
        self._serving = serving
        self._processes: dict[int, Serving] = {}
        self._engines: Mapping[int, str] = {}

    def update(self, engines: Mapping[int, str], now_ns: int) -> None:
        """Read the outputs since the last tick. engines: process -> its engine, where it has one."""
        self._engines = engines
        serving = [process for process, engine in engines.items() if engine in self._serving]
        for process, row in self._tables.read_outputs(serving).items():
            self._processes.setdefault(process, Serving()).update(row, now_ns)

    def totals(self, of: Container[int] | None = None) -> Totals:
        """Totals of every process that has an engine, or only of these."""
        return {
            process: self._of_process(process, engine)
            for process, engine in self._engines.items()
            if of is None or process in of
        }

    def _of_process(self, process: int, engine: str) -> dict[Series, Total]:
        known = self._processes.get(process)
        of_process: dict[Series, Total] = {Series(catalog.engine.INFO, (engine,)): 1}
        return of_process | (_of_serving(engine, known.served()) if known else {})

    def forget(self, processes: Iterable[int]) -> None:
        """Drop processes that have ended, after their last totals."""
        for process in processes:
            self._processes.pop(process, None)


def _of_serving(engine: str, served: Served) -> dict[Series, Total]:
    labels = (engine,)
    found: dict[Series, Total] = {
        Series(catalog.engine.OUTLIER_STEPS, labels): served.outliers,
        Series(catalog.engine.MISSED_STEPS, labels): served.missed,
        Series(catalog.engine.IDLE, labels): served.idle_ns,
    }
    if served.steps:
        found[Series(catalog.engine.STEP_DURATION, labels)] = served.steps
    return found
