"""Generated files are current, and complete. `make golden` rewrites them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from docs.generate import DOCUMENTS, ROOT
from docs.generate.addresses import ADDRESSES, FILES, addressed
from docs.generate.flags import toml_defaults
from docs.generate.labels import COMMON_LABEL_MEANINGS, LABEL_MEANINGS, LOSS_MEANINGS, THROTTLING_MEANINGS
from exporter import config
from exporter.catalog import CLUSTER_METRICS, COMMON_LABELS, METRICS
from exporter.gpu.throttle_reasons import REASONS
from exporter.kernel.abi import DropReason
from tests.support.prose import files


class TestGeneratedFiles:
    """Made by docs/generate."""

    @pytest.mark.parametrize("name", DOCUMENTS)
    def test_file_is_current(self, name: str) -> None:
        """The file holds what the code would write now."""
        path = ROOT / name
        if os.environ.get("GOLDEN_REWRITE") == "1":
            path.write_text(DOCUMENTS[name](), encoding="utf-8")

        assert path.read_text(encoding="utf-8") == DOCUMENTS[name](), "run `make golden`"


class TestAddresses:
    """Addresses of the project stand in pyproject.toml alone."""

    def test_no_other_file_has_one_that_is_not_written_from_there(self) -> None:
        """A move of the project is one change and `make golden`."""
        sources = [name for name in files() if ".egg-info/" not in name]
        found = {name for name in sources if ADDRESSES["Source"].encode() in (ROOT / name).read_bytes()}

        assert found - DOCUMENTS.keys() == {"pyproject.toml"}

    @pytest.mark.parametrize("name", FILES)
    def test_another_address_replaces_each(self, name: str) -> None:
        """Whichever stood there before."""
        text = addressed(name, {"Source": "https://a.example/source", "Documentation": "https://a.example/docs"})

        assert ADDRESSES["Source"] not in text
        assert "https://a.example/" in text


class TestMetricsPage:
    """docs/metrics.md."""

    def test_it_has_every_metric_once(self) -> None:
        """In any order."""
        page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")

        assert sorted(re.findall(r"^\| `(gpustall_\w+)` \|", page, flags=re.M)) == sorted(
            m.name for m in METRICS + CLUSTER_METRICS
        )

    def test_every_common_label_has_a_meaning(self) -> None:
        """Labels that do not exist have none."""
        assert tuple(COMMON_LABEL_MEANINGS) == COMMON_LABELS

    def test_every_reason_of_a_dropped_record_has_a_meaning(self) -> None:
        """A healed switch is repaired, so it is not a dropped record."""
        assert set(LOSS_MEANINGS) == set(DropReason) - {DropReason.HEALED}

    def test_every_reason_of_throttling_has_a_meaning(self) -> None:
        """Reasons that do not exist have none."""
        assert set(THROTTLING_MEANINGS) == set(REASONS)

    def test_every_label_has_a_meaning(self) -> None:
        """Labels that do not exist have none."""
        assert set(LABEL_MEANINGS) == {label for metric in METRICS for label in metric.labels}


class TestFileOfDefaults:
    """The TOML of docs/flags.md."""

    def test_it_equals_the_defaults(self, tmp_path: Path) -> None:
        """The configuration parser accepts it."""
        file = tmp_path / "exporter.toml"
        file.write_text(toml_defaults(), encoding="utf-8")

        assert config.load({"config.file": str(file)}, {"NODE_NAME": "gpu7"}) == config.load({}, {"NODE_NAME": "gpu7"})

    def test_it_has_every_setting_with_a_default(self) -> None:
        """One key for each."""
        assert toml_defaults().count(" = ") == sum(bool(setting.default) for setting in config.SETTINGS)
