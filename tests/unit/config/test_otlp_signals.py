"""otlp: receivers of logs and traces, and which headers each of them gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.config.otlp import Receiver, Target
from tests.unit.config.command_line import BASE, LOCAL, METRICS, SECRET, headers_file, receiver, toml, unusable

LOGS, TRACES = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


def urls(found: Receiver) -> tuple[str | None, str | None]:
    """(logs, traces)"""
    return found.logs and found.logs.url, found.traces and found.traces.url


def logs_of(found: Receiver) -> Target:
    assert found.logs is not None
    return found.logs


class TestWindows:
    """They are log records, and go where logs go."""

    def test_they_are_not_sent_by_default(self) -> None:
        assert receiver(f"--otlp.endpoint={LOCAL}").windows is None

    def test_they_go_to_the_path_of_logs(self) -> None:
        """Also where logs of chains are switched off."""
        found = receiver(f"--otlp.endpoint={LOCAL}", "--otlp.windows=true", "--otlp.logs=false")

        assert found.windows is not None
        assert (found.windows.url, found.logs) == (f"{LOCAL}/v1/logs", None)

    def test_variables_of_logs_move_them(self) -> None:
        found = receiver("--otlp.windows=true", **{BASE: "http://a", LOGS: "http://b/put"})

        assert found.windows == found.logs
        assert logs_of(found).url == "http://b/put"


class TestEndpoint:
    """As OpenTelemetry specifies."""

    @pytest.mark.parametrize(
        "base", ["http://a:4318", "http://a:4318/", "http://a:4318/v1/metrics", "http://a:4318/v1/metrics/"]
    )
    def test_path_of_each_signal_is_appended_to_a_base(self, base: str) -> None:
        """Also to a base that ends in the path of the metrics, in flag and variable."""
        wanted = ("http://a:4318/v1/logs", "http://a:4318/v1/traces")

        assert urls(receiver(f"--otlp.endpoint={base}")) == urls(receiver(**{BASE: base})) == wanted

    def test_path_and_query_of_the_base_are_kept(self) -> None:
        found = receiver("--otlp.endpoint=https://a/api/otel?key=b")

        assert urls(found) == ("https://a/api/otel/v1/logs?key=b", "https://a/api/otel/v1/traces?key=b")

    def test_endpoint_of_a_signal_is_not_changed(self) -> None:
        found = receiver(**{BASE: "http://a", LOGS: "http://b/put", TRACES: "http://c"})

        assert (found.url, urls(found)) == ("http://a/v1/metrics", ("http://b/put", "http://c"))

    def test_endpoint_of_the_metrics_does_not_move_other_signals(self) -> None:
        found = receiver(**{BASE: "http://a", METRICS: "http://b/api/v1/otlp/v1/metrics"})

        assert urls(found) == ("http://a/v1/logs", "http://a/v1/traces")

    def test_other_signals_go_to_the_host_of_the_metrics(self) -> None:
        """With the same headers: it is the same receiver."""
        found = receiver(
            **{METRICS: "http://b/otlp/v1/metrics", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": f"api-key={SECRET}"}
        )

        assert urls(found) == ("http://b/otlp/v1/logs", "http://b/otlp/v1/traces")
        assert logs_of(found).headers == (("api-key", SECRET),)

    @pytest.mark.parametrize("url", ["http://b/put", "http://b", "http://b/v1/metrics2"])
    def test_other_signals_need_a_known_path_of_the_metrics(self, url: str) -> None:
        """The URLs of the others cannot be derived."""
        assert urls(receiver(**{METRICS: url})) == (None, None)

    def test_flag_overrides_every_variable(self) -> None:
        found = receiver("--otlp.endpoint=http://c", **{BASE: "http://a", LOGS: "http://b", TRACES: "http://b"})

        assert urls(found) == ("http://c/v1/logs", "http://c/v1/traces")


class TestSettings:
    def test_token_of_the_metrics_is_not_sent_to_another_receiver_of_logs(self) -> None:
        found = receiver(
            **{BASE: "http://a", METRICS: "http://b", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": f"api-key={SECRET}"}
        )

        assert (found.headers, logs_of(found).headers) == ((("api-key", SECRET),), ())

    def test_variables_of_the_signal_override_those_of_all(self) -> None:
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

    def test_flags_apply_to_all_signals(self, tmp_path: Path) -> None:
        found = receiver(f"--otlp.endpoint={LOCAL}", "--otlp.timeout=3s", headers_file(tmp_path, f"api-key={SECRET}\n"))

        assert (logs_of(found).timeout_seconds, logs_of(found).headers) == (3.0, (("api-key", SECRET),))

    def test_invalid_variable_is_named(self) -> None:
        said = unusable(**{BASE: LOCAL, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"})

        assert said.startswith(
            "environment variable OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: invalid value 'grpc': gRPC is not supported"
        )


class TestSwitches:
    """--otlp.logs and --otlp.traces."""

    def test_each_can_be_disabled_alone(self) -> None:
        assert urls(receiver(f"--otlp.endpoint={LOCAL}", "--otlp.logs=false")) == (None, f"{LOCAL}/v1/traces")
        assert urls(receiver(f"--otlp.endpoint={LOCAL}", "--otlp.traces=false")) == (f"{LOCAL}/v1/logs", None)

    @pytest.mark.parametrize(("exporters", "wanted"), [("none", False), ("console", False), ("console, otlp", True)])
    def test_variable_is_a_list_of_exporters(self, exporters: str, wanted: bool) -> None:
        """As OpenTelemetry specifies."""
        found = receiver(**{BASE: LOCAL, "OTEL_LOGS_EXPORTER": exporters, "OTEL_TRACES_EXPORTER": exporters})

        assert [bool(url) for url in urls(found)] == [wanted, wanted]

    def test_flag_overrides_the_variable(self) -> None:
        found = receiver(f"--otlp.endpoint={LOCAL}", "--otlp.logs", OTEL_LOGS_EXPORTER="none")

        assert found.logs is not None

    def test_variables_of_a_disabled_signal_may_be_invalid(self) -> None:
        """They are meant for other programs."""
        found = receiver("--otlp.traces=false", **{BASE: LOCAL, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"})

        assert found.traces is None

    def test_table_has_switches_of_its_own(self, tmp_path: Path) -> None:
        file = toml(tmp_path, '[otlp.receiver.a]\nendpoint = "http://a"\nlogs = false\n')

        assert urls(receiver(file)) == (None, "http://a/v1/traces")
