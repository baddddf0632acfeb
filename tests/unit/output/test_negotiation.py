"""output.negotiation: the format and encoding for a client's headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.output.negotiation import Format, accepts_gzip, choose_format, offers

TEXT, OPENMETRICS, PROTOBUF = Format

PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
PROMETHEUS_3_WITH_NATIVE_HISTOGRAMS = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," + PROMETHEUS_3
)
PROMETHEUS_2_42_WITH_NATIVE_HISTOGRAMS = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3_TEXT_ONLY = "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class TestFormats:
    """Accept."""

    @pytest.mark.parametrize(
        ("accept", "fmt"),
        [
            (PROMETHEUS_2_42, OPENMETRICS),
            (PROMETHEUS_3, OPENMETRICS),
            (PROMETHEUS_2_42_WITH_NATIVE_HISTOGRAMS, PROTOBUF),
            (PROMETHEUS_3_WITH_NATIVE_HISTOGRAMS, PROTOBUF),
            (PROMETHEUS_3_TEXT_ONLY, TEXT),
            (FIREFOX, TEXT),
            ("*/*", TEXT),
            ("", TEXT),
        ],
        ids=["2.42", "3", "2.42 native", "3 native", "text only", "firefox", "curl", "none"],
    )
    def test_real_clients(self, accept: str, fmt: Format) -> None:
        """Prometheus gets OpenMetrics, or protobuf where it wants native histograms; people get text."""
        assert choose_format(accept) is fmt

    @pytest.mark.parametrize(
        ("accept", "fmt"),
        [
            ("application/openmetrics-text", OPENMETRICS),
            ("Application/OpenMetrics-Text; Version=1.0.0", OPENMETRICS),
            ('application/openmetrics-text; version="1.0.0"', OPENMETRICS),
            ("application/openmetrics-text;version=0.0.1", TEXT),
            ("application/openmetrics-text;version=2.0.0", TEXT),
            ("text/plain;version=1.0.0", TEXT),
            ("application/json", TEXT),
            ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text", TEXT),
            ("application/vnd.google.protobuf;proto=another.Message;encoding=delimited", TEXT),
            ("application/vnd.google.protobuf", TEXT),
        ],
    )
    def test_version_counts(self, accept: str, fmt: Format) -> None:
        """Only what we write; text for all else, as every exporter does."""
        assert choose_format(accept) is fmt

    @pytest.mark.parametrize(
        ("accept", "fmt"),
        [
            ("text/plain;q=0.9,application/openmetrics-text;q=0.8", TEXT),
            ("text/plain;q=0.8,application/openmetrics-text;q=0.9", OPENMETRICS),
            ("text/plain,application/openmetrics-text", TEXT),
            ("application/openmetrics-text,text/plain", OPENMETRICS),
            ("application/openmetrics-text;q=0,*/*;q=0.1", TEXT),
            ("application/openmetrics-text;q=0", TEXT),
            ("application/openmetrics-text;q=x,text/*;q=0.1", TEXT),
            ("application/openmetrics-text;q=1.1,text/*;q=0.1", TEXT),
            ("application/openmetrics-text;q=nan,text/*;q=0.1", TEXT),
            ("application/openmetrics-text;q=-0.5,text/*;q=0.1", TEXT),
        ],
    )
    def test_quality_decides(self, accept: str, fmt: Format) -> None:
        """The highest q; the first of equal ones; none that is 0 or no number in 0..1."""
        assert choose_format(accept) is fmt


class TestEncodings:
    """Accept-Encoding."""

    @pytest.mark.parametrize(
        ("header", "accepted"),
        [
            ("gzip", True),
            ("GZIP", True),
            ("deflate, gzip;q=0.5", True),
            ("*", True),
            ("gzip;q=0.5, *;q=0", True),
            ("", False),
            ("identity", False),
            ("br, zstd", False),
            ("gzip;q=0", False),
            ("gzip;q=0, *", False),
            ("*, gzip;q=0", False),
            ("*;q=0", False),
            ("gzipped", False),
        ],
    )
    def test_gzip_is_used_when_it_is_allowed(self, header: str, accepted: bool) -> None:
        """A name of its own counts more than the wildcard."""
        assert accepts_gzip({"accept-encoding": header}) is accepted

    def test_client_without_the_header_gets_plain_text(self) -> None:
        """curl."""
        assert not accepts_gzip({})


class TestHostileHeaders:
    """Headers of any content."""

    @given(st.text(max_size=300))
    def test_any_text_has_a_format(self, header: str) -> None:
        """No exception."""
        assert choose_format(header) in Format
        assert accepts_gzip({"accept-encoding": header}) in (True, False)

    @given(
        st.lists(
            st.sampled_from(["text/plain", "*/*", ";", ",", "q=", "=", '"', "0.5", "version", "1e999", " ", "nan"])
        )
    )
    def test_any_pieces_have_qualities_from_0_to_1_best_first(self, pieces: list[str]) -> None:
        """Whatever they are put together to."""
        qualities = [quality for quality, _, _ in offers("".join(pieces))]

        assert qualities == sorted(qualities, reverse=True)
        assert all(0.0 <= quality <= 1.0 for quality in qualities)

    def test_only_the_first_4096_characters_are_looked_at(self) -> None:
        """A megabyte of commas costs nothing."""
        assert choose_format("," * 4096 + "application/openmetrics-text") is TEXT
