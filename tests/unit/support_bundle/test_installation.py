"""installation: versions of installed packages."""

from __future__ import annotations

from exporter.support_bundle.installation import packages


class TestPackages:
    def test_dependencies_are_listed_with_their_own(self) -> None:
        """Dependencies of tests are not."""
        found = packages()

        assert {"gpu-stall-exporter", "prometheus-client", "opentelemetry-sdk", "opentelemetry-api"} <= set(found)
        assert "pytest" not in found
