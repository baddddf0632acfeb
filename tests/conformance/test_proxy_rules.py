"""http_client.proxy and Go's httpproxy, built from source, choose the same proxy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

from tests.conformance.partners import need_partner
from tests.support.proxy_rules import MORE_DIRECT, PROXY, RULES, Rule


def choices(rules: Sequence[Rule]) -> list[str]:
    """What Go's clients choose for each."""
    asked = json.dumps([{"Environment": rule.environment, "URL": rule.url} for rule in rules])
    done = subprocess.run(
        [need_partner("proxy-rules")], input=asked, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


class TestRules:
    """The table that the unit tests compare the exporter with."""

    def test_go_chooses_what_the_table_says(self) -> None:
        assert [rule._replace(expected=choice) for rule, choice in zip(RULES, choices(RULES), strict=True)] == RULES

    def test_go_takes_the_proxy_where_the_exporter_differs(self) -> None:
        """Otherwise the documented difference would be none."""
        assert set(choices(MORE_DIRECT)) == {PROXY}
