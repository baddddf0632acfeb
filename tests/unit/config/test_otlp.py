"""otlp: receivers from flags and OpenTelemetry's variables. Headers and tables have test files of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exporter.config.otlp import Receiver, Target
from tests.unit.config.command_line import BASE, LOCAL, METRICS, PEM, SECRET, loaded, receiver, refused, unusable


class TestWhetherToPush:
    def test_no_endpoint_means_no_receiver(self) -> None:
        assert loaded().otlp.receivers == ()

    def test_endpoint_defines_a_receiver_with_defaults(self) -> None:
        target: Mapping[str, Any] = {
            "name": "default",
            "protocol": "http/json",
            "compression": "gzip",
            "timeout_seconds": 10.0,
            "headers": (),
            "ca_file": None,
            "client_certificate_file": None,
            "client_key_file": None,
        }
        assert receiver(f"--otlp.endpoint={LOCAL}") == Receiver(
            url="http://localhost:4318/v1/metrics",
            interval_seconds=15.0,
            temporality="cumulative",
            histograms="exponential",
            logs=Target(url="http://localhost:4318/v1/logs", **target),
            traces=Target(url="http://localhost:4318/v1/traces", **target),
            windows=None,
            **target,
        )

    @pytest.mark.parametrize("variable", [BASE, METRICS])
    def test_variable_defines_a_receiver(self, variable: str) -> None:
        assert receiver(**{variable: f"{LOCAL}/v1/metrics"}).url == "http://localhost:4318/v1/metrics"

    @pytest.mark.parametrize("variable", [BASE, METRICS])
    def test_empty_variable_counts_as_not_set(self, variable: str) -> None:
        """As OpenTelemetry specifies."""
        assert loaded(**{variable: ""}).otlp.receivers == ()

    @pytest.mark.parametrize(
        "environment",
        [
            {"OTEL_SDK_DISABLED": "true"},
            {"OTEL_SDK_DISABLED": "TRUE"},
            {"OTEL_METRICS_EXPORTER": "none"},
            {"OTEL_METRICS_EXPORTER": "prometheus, console"},
        ],
        ids=str,
    )
    def test_environment_can_disable_its_own_endpoint(self, environment: Mapping[str, str]) -> None:
        """The endpoint is often set for every program in a cluster."""
        assert loaded(**{BASE: LOCAL}, **environment).otlp.receivers == ()

    @pytest.mark.parametrize(
        "environment",
        [
            {"OTEL_SDK_DISABLED": "false"},
            {"OTEL_SDK_DISABLED": "1"},  # only `true` is true in OpenTelemetry
            {"OTEL_METRICS_EXPORTER": ""},
            {"OTEL_METRICS_EXPORTER": "otlp"},
            {"OTEL_METRICS_EXPORTER": "console, otlp"},
        ],
        ids=str,
    )
    def test_other_values_do_not_disable_it(self, environment: Mapping[str, str]) -> None:
        """As OpenTelemetry specifies."""
        assert receiver(**{BASE: LOCAL}, **environment).name == "default"

    def test_environment_cannot_disable_a_flag(self) -> None:
        """But no other variable of OpenTelemetry applies to it then."""
        found = receiver(
            f"--otlp.endpoint={LOCAL}", OTEL_SDK_DISABLED="true", OTEL_EXPORTER_OTLP_HEADERS=f"api-key={SECRET}"
        )

        assert (found.url, found.headers) == ("http://localhost:4318/v1/metrics", ())

    @pytest.mark.parametrize(
        "environment",
        [
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"},
            {"OTEL_EXPORTER_OTLP_HEADERS": "no header"},
            {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nonexistent"},
            {"OTEL_RESOURCE_ATTRIBUTES": "no pair"},
            {"OTEL_SERVICE_NAME": "a\nb"},
        ],
        ids=str,
    )
    def test_unused_variables_may_be_invalid(self, environment: Mapping[str, str]) -> None:
        """They are meant for other programs."""
        assert loaded(**environment).otlp.receivers == ()

    def test_unused_flags_must_be_valid(self) -> None:
        """They are meant for this one."""
        assert refused("--otlp.protocol=grpc").startswith(
            "--otlp.protocol: invalid value 'grpc': gRPC is not supported"
        )


class TestEndpoint:
    """A base URL, or the URL of the metrics."""

    @pytest.mark.parametrize(
        ("base", "url"),
        [
            ("http://localhost:4318", "http://localhost:4318/v1/metrics"),
            ("http://localhost:4318/", "http://localhost:4318/v1/metrics"),
            ("https://otlp.example/api/otel", "https://otlp.example/api/otel/v1/metrics"),
            ("https://otlp.example/api/otel/", "https://otlp.example/api/otel/v1/metrics"),
            ("http://localhost:4318/v1/metrics", "http://localhost:4318/v1/metrics"),
            ("http://localhost:4318/v1/metrics/", "http://localhost:4318/v1/metrics"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/metrics"),
            ("https://otlp.example/?key=a", "https://otlp.example/v1/metrics?key=a"),
        ],
    )
    def test_path_of_the_metrics_is_appended_to_a_base(self, base: str, url: str) -> None:
        """Once, for the flag and for the variable."""
        assert receiver(f"--otlp.endpoint={base}").url == url
        assert receiver(**{BASE: base}).url == url

    @pytest.mark.parametrize("url", ["http://localhost:4318", "http://localhost:4318/", "https://otlp.example/put?a=b"])
    def test_endpoint_of_the_metrics_is_not_changed(self, url: str) -> None:
        assert receiver(**{METRICS: url}).url == url

    def test_endpoint_of_the_metrics_overrides_the_base(self) -> None:
        """Traces may go to another receiver."""
        assert receiver(**{BASE: "http://a:4318", METRICS: "http://b:4318/put"}).url == "http://b:4318/put"

    def test_flag_overrides_both(self) -> None:
        """The path is appended."""
        url = receiver("--otlp.endpoint=http://c", **{BASE: "http://a", METRICS: "http://b"}).url

        assert url == "http://c/v1/metrics"

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "localhost:4318",
            "localhost",
            "//localhost:4318",
            "/v1/metrics",
            "ftp://localhost",
            "file:///etc/passwd",
            "grpc://localhost:4317",
            "http://",
            "http://:4318",
            "http:///v1/metrics",
            "http://localhost:99999",
            "http://localhost:0",
            "http://localhost:-1",
            "http://localhost:http",
            "http://[::1:4318",
            "http://local host:4318",
            " http://localhost:4318",
            "http://localhost:4318\n",
            "http://localhost:4318/\x1b[2J",
            "http://größe:4318",
            "http://localhost:4318/#metrics",
        ],
    )
    def test_other_texts_than_urls_are_refused(self, url: str) -> None:
        """The error has the source, the text and an example."""
        found = refused(f"--otlp.endpoint={url}")

        assert found.startswith(f"--otlp.endpoint: invalid value {url!r}: want a URL such as http://localhost:4318")

    @pytest.mark.parametrize(
        "url",
        [
            f"http://user:{SECRET}@localhost:4318",
            f"http://{SECRET}@localhost:4318",
            f"http://:{SECRET}@localhost:4318",
            f"http://user:{SECRET}@localhost:99999",
            f"http://user:{SECRET}/more@localhost:4318",
            f"http://user:{SECRET}@[::1",
            f"user:{SECRET}@localhost:4318",
            f"ftp://user:{SECRET}@localhost",
            f"ftp://localhost/?key={SECRET}",
            f"http://localhost:99999/?key={SECRET}",
        ],
    )
    @pytest.mark.parametrize("where", ["flag", BASE, METRICS])
    def test_password_is_refused_and_not_repeated(self, url: str, where: str) -> None:
        """It would be in every log line."""
        found = refused(f"--otlp.endpoint={url}") if where == "flag" else unusable(**{where: url})

        assert found.startswith("--otlp.endpoint: " if where == "flag" else f"environment variable {where}: ")
        assert SECRET not in found

    def test_shown_url_has_no_query(self) -> None:
        """Some receivers expect a key there."""
        found = receiver(**{METRICS: f"https://otlp.example/put?key={SECRET}"})

        assert found.shown_url == "https://otlp.example/put"


class TestVariables:
    """OpenTelemetry's variables, for all signals and for metrics."""

    @pytest.mark.parametrize(
        ("name", "field", "of_all", "of_metrics"),
        [
            ("PROTOCOL", "protocol", ("http/protobuf", "http/protobuf"), ("http/json", "http/json")),
            ("PROTOCOL", "protocol", ("HTTP/Protobuf", "http/protobuf"), ("http/JSON", "http/json")),
            ("COMPRESSION", "compression", ("none", "none"), ("GZIP", "gzip")),
            ("TIMEOUT", "timeout_seconds", ("2500", 2.5), ("500", 0.5)),
            ("HEADERS", "headers", ("a=1", (("a", "1"),)), ("b=2", (("b", "2"),))),
        ],
    )
    def test_variable_of_the_metrics_overrides_that_of_all_signals(
        self, name: str, field: str, of_all: tuple[str, object], of_metrics: tuple[str, object]
    ) -> None:
        """An empty one counts as not set. Headers are not merged: each variable may be for another receiver."""
        all_signals, metrics = f"OTEL_EXPORTER_OTLP_{name}", f"OTEL_EXPORTER_OTLP_METRICS_{name}"
        found = [
            getattr(receiver(**{BASE: LOCAL}, **variables), field)
            for variables in (
                {all_signals: of_all[0]},
                {all_signals: of_all[0], metrics: ""},
                {metrics: of_metrics[0]},
                {all_signals: of_all[0], metrics: of_metrics[0]},
            )
        ]

        assert found == [of_all[1], of_all[1], of_metrics[1], of_metrics[1]]

    @pytest.mark.parametrize(
        ("name", "field"),
        [
            ("CERTIFICATE", "ca_file"),
            ("CLIENT_CERTIFICATE", "client_certificate_file"),
            ("CLIENT_KEY", "client_key_file"),
        ],
    )
    def test_variables_name_the_files_of_tls(self, tmp_path: Path, name: str, field: str) -> None:
        for file in ("of_all", "of_metrics"):
            (tmp_path / file).write_text(PEM)
        certificate = {"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": f"{tmp_path}/of_all"}
        of_all = {BASE: LOCAL, **certificate, f"OTEL_EXPORTER_OTLP_{name}": f"{tmp_path}/of_all"}
        of_metrics = {**of_all, f"OTEL_EXPORTER_OTLP_METRICS_{name}": f"{tmp_path}/of_metrics"}

        assert getattr(receiver(**of_all), field) == tmp_path / "of_all"
        assert getattr(receiver(**of_metrics), field) == tmp_path / "of_metrics"

    @pytest.mark.parametrize(
        ("variable", "text", "field", "value"),
        [
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000", "interval_seconds", 60.0),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta", "temporality", "delta"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Cumulative", "temporality", "cumulative"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "LowMemory", "temporality", "delta"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
                "explicit_bucket_histogram",
                "histograms",
                "explicit",
            ),
            (
                "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
                "base2_exponential_bucket_histogram",
                "histograms",
                "exponential",
            ),
        ],
    )
    def test_variables_that_exist_only_for_metrics(self, variable: str, text: str, field: str, value: object) -> None:
        """With the values that OpenTelemetry specifies."""
        assert getattr(receiver(**{BASE: LOCAL, variable: text}), field) == value

    @pytest.mark.parametrize(
        ("variable", "text"),
        [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1e3"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "٣٠٠"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "9" * 400),
            ("OTEL_METRIC_EXPORT_INTERVAL", "9"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "sometimes"),
            ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "explicit"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/"),
            (BASE, "localhost:4318"),
        ],
    )
    def test_variable_that_cannot_be_used_is_named_and_nothing_is_pushed(self, variable: str, text: str) -> None:
        """It is set for every program of the machine, and this one may only be scraped."""
        found = loaded(**{BASE: LOCAL, variable: text}).otlp

        assert found.receivers == ()
        assert found.unusable.startswith(f"environment variable {variable}: invalid value {text!r}: ")

    @pytest.mark.parametrize("name", ["CLIENT_KEY", "CERTIFICATE"])
    def test_certificate_that_cannot_be_used_is_named(self, tmp_path: Path, name: str) -> None:
        """A client key without a certificate, and a file without PEM."""
        (tmp_path / "file").write_text("no certificate")
        found = loaded(**{BASE: LOCAL, f"OTEL_EXPORTER_OTLP_{name}": f"{tmp_path}/file"}).otlp

        assert found.receivers == ()
        assert "certificate" in found.unusable

    def test_receiver_of_a_flag_stays_without_the_variables(self) -> None:
        """All of them: a part might be meant for another receiver."""
        variables = {"OTEL_EXPORTER_OTLP_TIMEOUT": "10s", "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={SECRET}"}
        found = loaded(f"--otlp.endpoint={LOCAL}", **variables).otlp

        assert [(one.url, one.headers, one.timeout_seconds) for one in found.receivers] == [
            (f"{LOCAL}/v1/metrics", (), 10.0)
        ]
        assert found.unusable.startswith("environment variable OTEL_EXPORTER_OTLP_TIMEOUT: ")

    def test_value_that_may_hold_a_secret_is_not_repeated(self) -> None:
        assert unusable(**{BASE: LOCAL, "OTEL_EXPORTER_OTLP_HEADERS": SECRET}) == (
            "environment variable OTEL_EXPORTER_OTLP_HEADERS: header 1 has no `=`; want name=value"
        )

    @pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"])
    @pytest.mark.parametrize("text", ["grpc", "gRPC"])
    def test_grpc_is_named_with_the_alternatives(self, name: str, text: str) -> None:
        """gRPC is the default of many programs, on another port."""
        assert unusable(**{BASE: LOCAL, name: text}) == (
            f"environment variable {name}: invalid value {text!r}: gRPC is not supported;"
            " want http/protobuf or http/json, usually on port 4318"
        )


class TestClientCertificate:
    def test_key_without_a_certificate_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "key").touch()
        found = refused(f"--otlp.endpoint={LOCAL}", f"--otlp.client-key-file={tmp_path}/key")

        assert found.startswith("OTLP receiver default: a client key without a client certificate")

    def test_file_of_the_certificate_may_contain_the_key(self, tmp_path: Path) -> None:
        (tmp_path / "both").touch()
        found = receiver(f"--otlp.endpoint={LOCAL}", f"--otlp.client-certificate-file={tmp_path}/both")

        assert (found.client_certificate_file, found.client_key_file) == (tmp_path / "both", None)


class TestResource:
    def test_service_name_defaults_to_the_program(self) -> None:
        names = [
            loaded(f"--otlp.endpoint={LOCAL}").otlp.resource.service_name,
            loaded(**{BASE: LOCAL, "OTEL_SERVICE_NAME": "a"}).otlp.resource.service_name,
            loaded("--otlp.service-name=b", **{BASE: LOCAL, "OTEL_SERVICE_NAME": "a"}).otlp.resource.service_name,
        ]

        assert names == ["gpu-stall-exporter", "a", "b"]

    def test_service_name_can_come_from_the_attributes(self) -> None:
        """As OpenTelemetry specifies."""
        attributes = {BASE: LOCAL, "OTEL_RESOURCE_ATTRIBUTES": "service.name=c"}
        names = [
            loaded(**attributes).otlp.resource.service_name,
            loaded("--otlp.service-name=b", **attributes).otlp.resource.service_name,
        ]

        assert names == ["c", "b"]

    @pytest.mark.parametrize(
        ("text", "attributes"),
        [
            ("deployment.environment.name=prod", (("deployment.environment.name", "prod"),)),
            (" team = a%20b , k%3D=%2C ", (("team", "a b"), ("k=", ","))),
            ("a=", (("a", ""),)),
            ("a=1,,", (("a", "1"),)),
        ],
    )
    def test_attributes_are_percent_encoded_pairs(self, text: str, attributes: object) -> None:
        """In the variable and in the flag."""
        assert loaded(**{BASE: LOCAL, "OTEL_RESOURCE_ATTRIBUTES": text}).otlp.resource.attributes == attributes
        assert loaded(f"--otlp.resource-attributes={text}").otlp.resource.attributes == attributes

    def test_flag_overrides_the_variable(self) -> None:
        """They are not merged."""
        found = loaded("--otlp.resource-attributes=a=1", **{BASE: LOCAL, "OTEL_RESOURCE_ATTRIBUTES": "b=2"})

        assert found.otlp.resource.attributes == (("a", "1"),)

    @pytest.mark.parametrize("text", ["team", "=a", "a=1,b", "a=%0a", "a=\udcff", "a%00=1"])
    def test_other_texts_than_pairs_are_refused(self, text: str) -> None:
        """The error repeats the text: it is not secret."""
        found = unusable(**{BASE: LOCAL, "OTEL_RESOURCE_ATTRIBUTES": text})

        assert found.startswith(
            f"environment variable OTEL_RESOURCE_ATTRIBUTES: invalid value {text!r}: want comma-separated key=value"
        )


class TestInterval:
    def test_200_milliseconds_is_the_minimum(self) -> None:
        """Pushes at shorter intervals would repeat a snapshot."""
        assert receiver(f"--otlp.endpoint={LOCAL}", "--otlp.interval=200ms").interval_seconds == 0.2
        assert "'199ms': want at least 200 milliseconds" in refused(f"--otlp.endpoint={LOCAL}", "--otlp.interval=199ms")
        assert "'199': want at least" in unusable(**{BASE: LOCAL, "OTEL_METRIC_EXPORT_INTERVAL": "199"})
