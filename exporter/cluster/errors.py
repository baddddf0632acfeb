"""Why the store does not take what it is given, or cannot use what it holds."""

from __future__ import annotations

from exporter.errors import ExporterError


class NotStored(ExporterError):
    """Nothing of a batch is stored, or it is not known whether it is: the sender tries again. Sent twice, it is stored once."""


class QueueFull(NotStored):
    """More arrives than is written."""


class StoreUnavailable(NotStored):
    """The disk is full or fails, or the store stops."""


class Unstorable(ExporterError):
    """The tables cannot hold a row that was decoded: a defect. The sender must not send it again."""


class DamagedSegment(ExporterError):
    """A file of the store is not a segment, or it is damaged."""
