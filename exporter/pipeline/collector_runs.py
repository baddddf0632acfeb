"""Runs collectors so that a defect in one costs its own metrics and no others.

In: a collector's name and what it does. Out: its result, or None; success, errors and duration among the exporter's own metrics.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Protocol, TypeVar

from exporter import catalog
from exporter.errors import ExporterError
from exporter.own_metrics.store import OwnMetrics

log = logging.getLogger(__name__)

T = TypeVar("T")


class RunStage(Protocol):
    """How one stage of the pipeline is called: guarded in the exporter, plainly in a replay."""

    def __call__(self, collector: str, stage: Callable[[], T], /) -> T | None:
        """The result of `stage`; None when it failed."""
        ...


def unguarded(_collector: str, stage: Callable[[], T]) -> T:
    """Calls it; a defect ends the replay."""
    return stage()


class CollectorRuns:
    """names: of the collectors that run. impaired: those that lack a kernel program; they run, but never count as a success."""

    def __init__(self, own: OwnMetrics, names: Iterable[str], impaired: Collection[str] = ()) -> None:
        self._own = own
        self._impaired = impaired
        self._failed: set[str] = set()
        for name in names:
            own.add(catalog.own.COLLECTOR_ERRORS, 0, name)

    def __call__(self, collector: str, stage: Callable[[], T], /) -> T | None:
        started_at = time.perf_counter()
        try:
            result = stage()
        except Exception as error:
            if not isinstance(error, ExporterError):
                log.exception("collector %s failed: its metrics are missing from this scrape", collector)
            elif collector not in self._failed:
                log.error(
                    "collector %s failed: its metrics are missing until it works: %s", collector, error.one_line()
                )
            self._own.add(catalog.own.COLLECTOR_ERRORS, 1, collector)
            self._own.set(catalog.own.COLLECTOR_SUCCESS, 0, collector)
            self._failed.add(collector)
            return None
        finally:
            self._own.set(catalog.own.COLLECTOR_DURATION, time.perf_counter() - started_at, collector)
        self._failed.discard(collector)
        self._own.set(catalog.own.COLLECTOR_SUCCESS, collector not in self._impaired, collector)
        return result

    def has_failed(self, collector: str) -> bool:
        """In its last run: what it reads may be unusable."""
        return collector in self._failed

    def set_resets(self, collector: str, resets: int) -> None:
        """Counts of its sources that went back so far."""
        self._own.set(catalog.own.COLLECTOR_RESETS, resets, collector)

    def missing_metrics(self) -> set[catalog.Metric]:
        """Metrics of the collectors whose last run failed.

        Without the living processes a sum would be that of the ended ones, and go back: a metric is exported whole or not at all.
        """
        return {metric for name in self._failed for metric in catalog.METRICS_OF_COLLECTOR[name]}
