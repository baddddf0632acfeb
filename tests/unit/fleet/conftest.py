"""Fixtures of this folder."""

from __future__ import annotations

from tests.support.network_fixtures import issued, nothing_left_open, without_proxy

__all__ = ["issued", "nothing_left_open", "without_proxy"]
