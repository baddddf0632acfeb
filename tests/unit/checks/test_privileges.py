"""checks.privileges: which capabilities are missing, and what that costs."""

from __future__ import annotations

from exporter.checks.check import CheckState
from exporter.checks.privileges import needed_capabilities
from exporter.host.capabilities import Capability


class TestNeededCapabilities:
    def test_all_of_them_are_ok(self) -> None:
        assert needed_capabilities(lambda _capability: True).state is CheckState.OK

    def test_missing_cap_bpf_fails(self) -> None:
        """Without it no program loads."""
        check = needed_capabilities(lambda capability: capability is not Capability.BPF)

        assert check.state is CheckState.FAILED
        assert check.found.startswith("without CAP_BPF ")

    def test_missing_cap_checkpoint_restore_is_a_warning(self) -> None:
        """Only libraries that were replaced while in use need it."""
        check = needed_capabilities(lambda capability: capability is not Capability.CHECKPOINT_RESTORE)

        assert check.state is CheckState.WARNING
        assert check.remedy
