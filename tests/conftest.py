"""What holds for every test: hypothesis has no deadline of its own, since a busy machine is no defect."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("gpustall", deadline=None)
settings.load_profile("gpustall")
