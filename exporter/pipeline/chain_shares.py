"""How many chains of one owner are reported: written to the log and the history, recorded and pushed.

In: transitions and the owners of their processes. Out: whether they are reported. All chains are counted in the metrics.
Without a limit, a program that starts thousands of processes which fail fills the log, and displaces the chains of others in the
history.
"""

from __future__ import annotations

from typing import Final

from exporter.chains.chain import Change, Transition
from exporter.units import NANOSECONDS
from exporter.workloads import refusals
from exporter.workloads.owner import Owner
from exporter.workloads.refusals import Refusals

AT_ONCE: Final = 64
EVERY_NS: Final = 6 * NANOSECONDS
"""An owner may have so many chains reported at once, and after that one in so long."""


class ChainShares:
    """refused: where chains that are not reported are counted, by owner."""

    def __init__(self, refused: Refusals) -> None:
        self._refused = refused
        self._used_until_ns: dict[str, int] = {}  # by owner: when it may have AT_ONCE again
        self.unreported: set[str] = set()
        """Ids of open chains that are not reported."""

    def admits(self, transition: Transition, owner: Owner, now_ns: int) -> bool:
        """Whether it is reported: a chain from its begin to its end, or not at all."""
        chain_id = transition.chain.id
        if transition.change is Change.OPENED and not self._take(owner.key, now_ns):
            self._refused.add(refusals.CHAINS, owner)
            self.unreported.add(chain_id)
        is_reported = chain_id not in self.unreported
        if transition.change is Change.RESOLVED:
            self.unreported.discard(chain_id)
        return is_reported

    def _take(self, owner: str, now_ns: int) -> bool:
        self._used_until_ns = {one: until_ns for one, until_ns in self._used_until_ns.items() if until_ns > now_ns}
        until_ns = max(self._used_until_ns.get(owner, now_ns), now_ns) + EVERY_NS
        if until_ns > now_ns + AT_ONCE * EVERY_NS:
            return False
        self._used_until_ns[owner] = until_ns
        return True
