"""otlp: where logs and traces go, beside the metrics or elsewhere; whose token goes with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.config.otlp import Receiver, Target
from tests.unit.config.command_line import BASE, LOCAL, METRICS, SECRET, headers_file, receiver, refused, toml

LOGS, TRACES = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


def urls(found: Receiver) -> tuple[str | None, str | None]:
    """Of the logs, of the traces."""
    return found.logs and found.logs.url, found.traces and found.traces.url


def logs_of(found: Receiver) -> Target:
    """They are not switched off."""
    assert found.logs is not None
    return found.logs


class TestEndpoint:
    """As the specification has it."""

    @pytest.mark.parametrize(
        "base", ["http://a:4318", "http://a:4318/", "http://a:4318/v1/metrics", "http://a:4318/v1/metrics/"]
    )
    def test_base_has_a_path_for_each_signal(self, base: str) -> None:
        """Also where it was given with that of the metrics; in the flag as in the variable."""
        wanted = ("http://a:4318/v1/logs", "http://a:4318/v1/traces")

        assert urls(receiver(f"--otlp.endpoint={base}")) == urls(receiver(**{BASE: base})) == wanted

    def test_path_and_query_of_the_base_are_kept(self) -> None:
        """As for the metrics."""
        found = receiver("--otlp.endpoint=https://a/api/otel?key=b")

        assert urls(found) == ("https://a/api/otel/v1/logs?key=b", "https://a/api/otel/v1/traces?key=b")

    def test_endpoint_of_a_signal_is_as_it_is(self) -> None:
        """Traces may go elsewhere."""
        found = receiver(**{BASE: "http://a", LOGS: "http://b/put", TRACES: "http://c"})

        assert (found.url, urls(found)) == ("http://a/v1/metrics", ("http://b/put", "http://c"))

    def test_endpoint_of_the_metrics_leaves_the_others_at_the_base(self) -> None:
        """Where each has a receiver of its own."""
        found = receiver(**{BASE: "http://a", METRICS: "http://b/api/v1/otlp/v1/metrics"})

        assert urls(found) == ("http://a/v1/logs", "http://a/v1/traces")

    def test_beside_an_endpoint_of_the_metrics_the_others_are_known_by_its_path(self) -> None:
        """With everything that goes to it, the token as well: it is the same receiver."""
        found = receiver(
            **{METRICS: "http://b/otlp/v1/metrics", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": f"api-key={SECRET}"}
        )

        assert urls(found) == ("http://b/otlp/v1/logs", "http://b/otlp/v1/traces")
        assert logs_of(found).headers == (("api-key", SECRET),)

    @pytest.mark.parametrize("url", ["http://b/put", "http://b", "http://b/v1/metrics2"])
    def test_beside_an_endpoint_of_another_form_there_is_nothing(self, url: str) -> None:
        """Nobody knows where its logs would go."""
        assert urls(receiver(**{METRICS: url})) == (None, None)

    def test_flag_beats_every_variable(self) -> None:
        """It names one receiver for all."""
        found = receiver("--otlp.endpoint=http://c", **{BASE: "http://a", LOGS: "http://b", TRACES: "http://b"})

        assert urls(found) == ("http://c/v1/logs", "http://c/v1/traces")


class TestSettings:
    """Of a signal."""

    def test_token_of_the_metrics_does_not_go_with_logs_to_another_place(self) -> None:
        """It is for the receiver of the metrics."""
        found = receiver(
            **{BASE: "http://a", METRICS: "http://b", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": f"api-key={SECRET}"}
        )

        assert (found.headers, logs_of(found).headers) == ((("api-key", SECRET),), ())

    def test_variables_of_the_signal_beat_those_of_all(self) -> None:
        """As for the metrics."""
        found = logs_of(
            receiver(
                **{
                    BASE: "http://a",
                    "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a",
                    "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "api-key=b",
                    "OTEL_EXPORTER_OTLP_TIMEOUT": "1000",
                    "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT": "2000",
                    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                    "OTEL_EXPORTER_OTLP_LOGS_COMPRESSION": "none",
                }
            )
        )

        assert (found.headers, found.timeout_seconds) == ((("api-key", "b"),), 2.0)
        assert (found.protocol, found.compression) == ("http/protobuf", "none")

    def test_flags_are_of_all_signals(self, tmp_path: Path) -> None:
        """They name the receiver."""
        found = receiver(f"--otlp.endpoint={LOCAL}", "--otlp.timeout=3s", headers_file(tmp_path, f"api-key={SECRET}\n"))

        assert (logs_of(found).timeout_seconds, logs_of(found).headers) == (3.0, (("api-key", SECRET),))

    def test_wrong_variable_is_named(self) -> None:
        """It is that of the signal."""
        said = refused(**{BASE: LOCAL, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"})

        assert said.startswith(
            "environment variable OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: invalid value 'grpc': gRPC is not supported"
        )


class TestSwitches:
    """--otlp.logs and --otlp.traces."""

    def test_each_is_switched_off_by_itself(self) -> None:
        """A receiver of metrics only wants neither."""
        assert urls(receiver(f"--otlp.endpoint={LOCAL}", "--otlp.logs=false")) == (None, f"{LOCAL}/v1/traces")
        assert urls(receiver(f"--otlp.endpoint={LOCAL}", "--otlp.traces=false")) == (f"{LOCAL}/v1/logs", None)

    @pytest.mark.parametrize(("exporters", "wanted"), [("none", False), ("console", False), ("console, otlp", True)])
    def test_variable_says_it_in_its_own_words(self, exporters: str, wanted: bool) -> None:
        """OpenTelemetry's list of exporters."""
        found = receiver(**{BASE: LOCAL, "OTEL_LOGS_EXPORTER": exporters, "OTEL_TRACES_EXPORTER": exporters})

        assert [bool(url) for url in urls(found)] == [wanted, wanted]

    def test_flag_beats_the_variable(self) -> None:
        """Whoever typed it means it."""
        found = receiver(f"--otlp.endpoint={LOCAL}", "--otlp.logs", OTEL_LOGS_EXPORTER="none")

        assert found.logs is not None

    def test_what_is_switched_off_may_be_wrong(self) -> None:
        """It was made for other programs."""
        found = receiver("--otlp.traces=false", **{BASE: LOCAL, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"})

        assert found.traces is None

    def test_table_has_its_own(self, tmp_path: Path) -> None:
        """The default receiver goes on."""
        file = toml(tmp_path, '[otlp.receiver.a]\nendpoint = "http://a"\nlogs = false\n')

        assert urls(receiver(file)) == (None, "http://a/v1/traces")
