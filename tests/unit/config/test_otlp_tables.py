"""otlp: a receiver for each table of the file, and which headers it gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.command_line import BASE, PEM, SECRET, headers_file, loaded, receiver, refused, toml


class TestTables:
    """[otlp.receiver.NAME]."""

    def test_each_table_is_a_receiver(self, tmp_path: Path) -> None:
        """The default one first, then by name."""
        text = """
            [otlp]
            endpoint = "http://a:4318"
            interval = "1m"
            [otlp.receiver.datadog]
            endpoint = "https://otlp.datadog.example"
            temporality = "delta"
            [otlp.receiver.a_team-2]
            endpoint = "http://b:4318"
            protocol = "http/protobuf"
        """
        found = loaded(toml(tmp_path, text)).otlp.receivers

        assert [(one.name, one.url, one.protocol, one.temporality, one.interval_seconds) for one in found] == [
            ("default", "http://a:4318/v1/metrics", "http/json", "cumulative", 60.0),
            ("a_team-2", "http://b:4318/v1/metrics", "http/protobuf", "cumulative", 15.0),
            ("datadog", "https://otlp.datadog.example/v1/metrics", "http/json", "delta", 15.0),
        ]

    def test_table_does_not_need_the_default_receiver(self, tmp_path: Path) -> None:
        found = receiver(toml(tmp_path, '[otlp.receiver.a]\nendpoint = "http://a"\n'))

        assert (found.name, found.url) == ("a", "http://a/v1/metrics")

    def test_receiver_of_a_table_ignores_the_environment(self, tmp_path: Path) -> None:
        """A token must not be sent to another receiver."""
        (tmp_path / "ca.pem").write_text(PEM)
        environment = {
            BASE: "http://b:4318",
            "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={SECRET}",
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS": f"api-key={SECRET}",
            "OTEL_EXPORTER_OTLP_LOGS_HEADERS": f"api-key={SECRET}",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://c/v1/logs",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1000",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "explicit_bucket_histogram",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": f"{tmp_path}/ca.pem",
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": f"{tmp_path}/ca.pem",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY": f"{tmp_path}/ca.pem",
        }
        file = toml(tmp_path, '[otlp.receiver.a]\nendpoint = "http://a"\n')
        default, of_table = loaded(file, **environment).otlp.receivers

        assert default.headers == (("api-key", SECRET),)
        assert of_table == receiver(toml(tmp_path, '[otlp.receiver.a]\nendpoint = "http://a"\n'))
        assert (of_table.headers, of_table.protocol, of_table.ca_file) == ((), "http/json", None)
        assert of_table.logs is not None
        assert (of_table.logs.url, of_table.logs.headers) == ("http://a/v1/logs", ())

    def test_nothing_of_the_flags_reaches_a_table_s_receiver(self, tmp_path: Path) -> None:
        """They describe the default one."""
        file = toml(tmp_path, '[otlp.receiver.a]\nendpoint = "http://a"\n')
        flags = ("--otlp.endpoint=http://b", "--otlp.interval=1m", headers_file(tmp_path, f"api-key={SECRET}\n"))
        default, of_table = loaded(file, *flags).otlp.receivers

        assert (default.interval_seconds, of_table.interval_seconds, of_table.headers) == (60.0, 15.0, ())

    def test_environment_does_not_disable_the_receiver_of_a_table(self, tmp_path: Path) -> None:
        file = toml(tmp_path, '[otlp.receiver.a]\nendpoint = "http://a"\n')

        assert receiver(file, **{BASE: "http://b", "OTEL_SDK_DISABLED": "true"}).name == "a"

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ('[otlp.receiver.a]\nendpoint = "http://a"\ntoken = "x"\n', "otlp.receiver.a.token"),
            ('[otlp.receiver.a]\nservice-name = "x"\n', "otlp.receiver.a.service-name"),
            ('[otlp.receiver.a]\nheaders = {a = "x"}\n', "otlp.receiver.a.headers.a"),
            ('[otlp.receiver]\nendpoint = "http://a"\n', "otlp.receiver.endpoint"),
            ('[otlp.receiver."a.b"]\nendpoint = "http://a"\n', "otlp.receiver.a.b.endpoint"),
            ('[otlp.receivers.a]\nendpoint = "http://a"\n', "otlp.receivers.a.endpoint"),
            ('[my.otlp.receiver.a]\nendpoint = "http://a"\n', "my.otlp.receiver.a.endpoint"),
        ],
    )
    def test_unknown_key_is_refused(self, tmp_path: Path, text: str, key: str) -> None:
        assert f"unknown key '{key}'" in refused(toml(tmp_path, text))

    @pytest.mark.parametrize("name", ["default", "", "A", "a b", "-a", "ä", "a/b", "a" * 32, 'a"', "a\\n"])
    def test_invalid_name_is_refused(self, tmp_path: Path, name: str) -> None:
        """The name is a label; `default` is the receiver of the flags."""
        quoted = name.replace('"', '\\"')
        found = refused(toml(tmp_path, f'[otlp.receiver."{quoted}"]\nendpoint = "http://a"\n'))

        assert "invalid receiver name" in found
        assert "1 to 31 lower-case letters, digits, - and _" in found

    @pytest.mark.parametrize("name", ["a", "0", "a" * 31, "a-b_c9"])
    def test_valid_name_is_kept(self, tmp_path: Path, name: str) -> None:
        assert receiver(toml(tmp_path, f'[otlp.receiver.{name}]\nendpoint = "http://a"\n')).name == name

    def test_empty_table_is_refused(self, tmp_path: Path) -> None:
        assert "[otlp.receiver.a] in" in refused(toml(tmp_path, "[otlp.receiver.a]\n"))

    def test_table_without_an_endpoint_is_refused(self, tmp_path: Path) -> None:
        found = refused(toml(tmp_path, '[otlp.receiver.a]\ninterval = "1m"\n'))

        assert found == '[otlp.receiver.a] has no endpoint; add `endpoint = "http://…:4318"`'

    def test_invalid_value_names_key_and_file(self, tmp_path: Path) -> None:
        found = refused(toml(tmp_path, '[otlp.receiver.a]\nendpoint = "http://a"\ntimeout = 10\n'))

        assert found.startswith(
            f"otlp.receiver.a.timeout in {tmp_path}/exporter.toml: invalid value '10': want a positive duration"
        )

    def test_key_without_a_certificate_names_the_receiver(self, tmp_path: Path) -> None:
        (tmp_path / "key").touch()
        text = f'[otlp.receiver.a]\nendpoint = "http://a"\nclient-key-file = "{tmp_path}/key"\n'

        assert refused(toml(tmp_path, text)).startswith("OTLP receiver a: a client key without a client certificate")

    def test_there_are_at_most_eight_receivers(self, tmp_path: Path) -> None:
        """Each has a thread. The default one counts."""
        seven = "".join(f'[otlp.receiver.r{n}]\nendpoint = "http://r{n}"\n' for n in range(7))
        eight = seven + '[otlp.receiver.r7]\nendpoint = "http://r7"\n'

        assert len(loaded(toml(tmp_path, seven), "--otlp.endpoint=http://a").otlp.receivers) == 8
        assert refused(toml(tmp_path, eight), "--otlp.endpoint=http://a") == (
            "9 OTLP receivers are too many; define at most 8"
        )
