"""What goes wrong around a job: context managers that bring it about and undo all of it, also when their body raises."""

from __future__ import annotations


class NotPossible(Exception):
    """This machine cannot have the fault; the text says why."""
