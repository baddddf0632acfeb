"""config: flags, file and environment -> Config."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exporter.config import SETTINGS, Config
from exporter.config.collectors import COLLECTORS, CollectorSettings
from exporter.config.log import LogFormat, LogLevel, LogSettings
from exporter.config.orchestrator import OrchestratorKind, OrchestratorSettings
from exporter.config.otlp import OtlpSettings, Receiver, ResourceSettings, Target
from exporter.config.otlp_parsers import Compression, HistogramForm, OtlpProtocol, Temporality
from exporter.config.probes import AttachKind, LaunchMode, ProbeSettings, ReturnProbes
from exporter.config.storage import HistorySettings, RecordingSettings, SeriesSettings
from exporter.config.web import WebSettings
from exporter.errors import BadInput
from tests.unit.config.command_line import loaded, refused, toml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class TestDefaults:
    def test_loopback_and_every_collector(self) -> None:
        assert loaded() == Config(
            web=WebSettings(
                listen_addresses=(("127.0.0.1", 10478),),
                with_systemd_sockets=False,
                config_file=None,
                is_health_open=False,
                with_reload=False,
                telemetry_path="/metrics",
                max_requests=40,
                with_exporter_metrics=True,
            ),
            node="gpu7",
            probes=ProbeSettings(
                attach=None,
                launch_mode=LaunchMode.FULL,
                overhead_limit=0.01,
                returns=ReturnProbes.AUTO,
                on_arm64=False,
                attaches_once=False,
                discovery_interval_seconds=30.0,
            ),
            collectors=CollectorSettings(
                **dict.fromkeys(COLLECTORS, True), page_allocations=False, network_namespaces=False
            ),
            tick_interval_seconds=0.25,
            series=SeriesSettings(ttl_seconds=900.0, max_workloads=256),
            history=HistorySettings(
                path=Path("/var/lib/gpu-stall-exporter/history.sqlite"),
                max_bytes=64 * 1024 * 1024,
                retention_seconds=86_400.0,
            ),
            recording=RecordingSettings(directory=Path("/var/lib/gpu-stall-exporter/recordings")),
            procfs=Path("/proc"),
            orchestrator=OrchestratorSettings(
                kind=OrchestratorKind.AUTO,
                url=None,
                ca_file=SERVICE_ACCOUNT / "ca.crt",
                token_file=SERVICE_ACCOUNT / "token",
                is_verified=True,
            ),
            otlp=OtlpSettings(receivers=(), resource=ResourceSettings(given_service_name=None, attributes=())),
            log=LogSettings(level=LogLevel.INFO, format=LogFormat.LOGFMT),
        )

    @pytest.mark.parametrize("setting", [s for s in SETTINGS if s.default], ids=lambda setting: setting.flag)
    def test_every_default_is_valid(self, setting: object) -> None:
        setting.parse(setting.default)  # type: ignore[attr-defined]

    def test_node_is_the_host_name(self) -> None:
        assert loaded(NODE_NAME="").node == socket.gethostname()

    def test_config_without_arguments_has_the_defaults(self) -> None:
        assert loaded(NODE_NAME="") == Config()


class TestPrecedence:
    def test_flag_overrides_file(self, tmp_path: Path) -> None:
        file = toml(tmp_path, 'node = "from-file"\n[tick]\ninterval = "1s"\n')

        config = loaded(file, "--node=from-flag")

        assert (config.node, config.tick_interval_seconds) == ("from-flag", 1.0)

    def test_variable_overrides_file(self, tmp_path: Path) -> None:
        """And a flag overrides both."""
        file = toml(tmp_path, 'node = "from-file"\n')

        assert loaded(file, GPUSTALL_NODE="from-variable").node == "from-variable"
        assert loaded(file, "--node=from-flag", GPUSTALL_NODE="from-variable").node == "from-flag"

    def test_file_overrides_variables_of_other_programs(self, tmp_path: Path) -> None:
        """They are not meant for the exporter alone."""
        assert loaded(toml(tmp_path, 'node = "from-file"\n'), NODE_NAME="gpu7").node == "from-file"

    def test_invalid_variable_is_named_although_there_is_a_file(self, tmp_path: Path) -> None:
        file = toml(tmp_path, 'tick.interval = "1s"\n')

        assert refused(file, GPUSTALL_TICK_INTERVAL="soon").startswith(
            "environment variable GPUSTALL_TICK_INTERVAL: invalid value 'soon': want a positive duration"
        )

    def test_environment_overrides_default(self) -> None:
        assert loaded(GPUSTALL_LOG_LEVEL="debug").log.level is LogLevel.DEBUG

    def test_own_variable_overrides_those_of_other_programs(self) -> None:
        """NODE_NAME is usually set from the downward API of Kubernetes."""
        assert loaded(NODE_NAME="gpu7").node == "gpu7"
        assert loaded(NODE_NAME="gpu7", GPUSTALL_NODE="gpu8").node == "gpu8"

    def test_empty_variable_counts_as_not_set(self) -> None:
        assert loaded(NODE_NAME="gpu7", GPUSTALL_NODE="").node == "gpu7"

    def test_configuration_file_can_be_named_by_its_variable(self, tmp_path: Path) -> None:
        path = toml(tmp_path, 'node = "from-file"\n').partition("=")[2]

        assert loaded(GPUSTALL_CONFIG_FILE=path).node == "from-file"

    def test_last_of_two_flags_counts(self) -> None:
        assert loaded("--no-collector.nccl", "--collector.nccl").collectors.nccl

    def test_flags_override_all_addresses_of_the_file(self, tmp_path: Path) -> None:
        file = toml(tmp_path, 'web.listen-address = ["127.0.0.1:1", "127.0.0.1:2"]\n')

        assert loaded(file, "--web.listen-address=127.0.0.1:3").web.listen_addresses == (("127.0.0.1", 3),)


class TestEverySetting:
    def test_every_setting_can_be_set_in_the_file(self, tmp_path: Path) -> None:
        """Strings, numbers and booleans, in tables and as dotted keys."""
        text = f"""
            node = "n"
            web.disable-exporter-metrics = true
            web.listen-address = ["[::1]:9", "127.0.0.1:9"]
            web.systemd-socket = true
            web.config.file = "{tmp_path}/web.yml"
            web.open-health = true
            web.enable-lifecycle = true
            web.max-requests = 5
            web.telemetry-path = "/m"
            probes.attach = "single"
            probes.launch = "sampled"
            probes.overhead-limit = "2.5%"
            probes.returns = "never"
            probes.on-arm64 = true
            probes.attach-once = true
            probes.discovery-interval = "1m"
            collector.cuda = true
            collector.nccl = false
            collector.sched = false
            collector.memory = {{enabled = false, page-allocations = true}}
            collector.network.namespaces = true
            tick.interval = "100ms"
            series = {{ttl = "1h", max-workloads = 7}}
            history = {{path = "none", max-bytes = "3MiB", retention = "90m"}}
            path.procfs = "{tmp_path}"
            recording.directory = "none"
            log = {{level = "debug", format = "json"}}
            [orchestrator]
            kind = "kubelet"
            url = "https://10.0.0.7:10250/"
            ca-file = "{tmp_path}/ca.pem"
            token-file = "{tmp_path}/token"
            verify = false
            [otlp]
            endpoint = "https://otlp.example:4318"
            logs = true
            traces = false
            protocol = "http/protobuf"
            compression = "none"
            interval = "1m"
            timeout = "5s"
            temporality = "delta"
            histograms = "explicit"
            headers-file = "{tmp_path}/headers"
            ca-file = "{tmp_path}/ca.pem"
            client-certificate-file = "{tmp_path}/client.pem"
            client-key-file = "{tmp_path}/client.key"
            service-name = "stalls"
            resource-attributes = "team=a%20b"
        """
        for name in ("ca.pem", "client.pem", "client.key", "web.yml"):
            (tmp_path / name).touch()
        (tmp_path / "headers").write_text("api-key=secret\n", encoding="ascii")

        target: Mapping[str, Any] = {
            "name": "default",
            "protocol": OtlpProtocol.PROTOBUF,
            "compression": Compression.NONE,
            "timeout_seconds": 5.0,
            "headers": (("api-key", "secret"),),
            "ca_file": tmp_path / "ca.pem",
            "client_certificate_file": tmp_path / "client.pem",
            "client_key_file": tmp_path / "client.key",
        }
        assert loaded(toml(tmp_path, text)) == Config(
            web=WebSettings(
                listen_addresses=(("::1", 9), ("127.0.0.1", 9)),
                with_systemd_sockets=True,
                config_file=tmp_path / "web.yml",
                is_health_open=True,
                with_reload=True,
                telemetry_path="/m",
                max_requests=5,
                with_exporter_metrics=False,
            ),
            node="n",
            probes=ProbeSettings(
                attach=AttachKind.SINGLE,
                launch_mode=LaunchMode.SAMPLED,
                overhead_limit=0.025,
                returns=ReturnProbes.NEVER,
                on_arm64=True,
                attaches_once=True,
                discovery_interval_seconds=60.0,
            ),
            collectors=CollectorSettings(
                nccl=False, sched=False, memory=False, page_allocations=True, network_namespaces=True
            ),
            tick_interval_seconds=0.1,
            series=SeriesSettings(ttl_seconds=3600.0, max_workloads=7),
            history=HistorySettings(path=None, max_bytes=3 * 1024 * 1024, retention_seconds=5400.0),
            recording=RecordingSettings(directory=None),
            procfs=tmp_path,
            orchestrator=OrchestratorSettings(
                kind=OrchestratorKind.KUBELET,
                url="https://10.0.0.7:10250",
                ca_file=tmp_path / "ca.pem",
                token_file=tmp_path / "token",
                is_verified=False,
            ),
            otlp=OtlpSettings(
                receivers=(
                    Receiver(
                        url="https://otlp.example:4318/v1/metrics",
                        interval_seconds=60.0,
                        temporality=Temporality.DELTA,
                        histograms=HistogramForm.EXPLICIT,
                        logs=Target(url="https://otlp.example:4318/v1/logs", **target),
                        traces=None,
                        windows=None,
                        **target,
                    ),
                ),
                resource=ResourceSettings(given_service_name="stalls", attributes=(("team", "a b"),)),
            ),
            log=LogSettings(level=LogLevel.DEBUG, format=LogFormat.JSON),
        )


class TestRejectedValues:
    """BadInput, whose exit code is 2, names the setting, the source of the value and what is wanted."""

    @pytest.mark.parametrize(
        ("flag", "value"),
        [
            ("web.listen-address", "10478"),
            ("web.listen-address", "127.0.0.1"),
            ("web.listen-address", "127.0.0.1:"),
            ("web.listen-address", "127.0.0.1:65536"),
            ("web.listen-address", "127.0.0.1:-1"),
            ("web.listen-address", "127.0.0.1:http"),
            ("web.listen-address", "127.0.0.1:٣"),
            ("web.listen-address", "127.0.0.1:" + "9" * 5000),
            ("web.listen-address", "example.org:80"),
            ("web.listen-address", "256.0.0.1:80"),
            ("web.listen-address", "::1:80"),
            ("web.listen-address", "[::1:80"),
            ("web.listen-address", "[]:80"),
            ("web.listen-address", "[127.0.0.1]:80"),
            ("web.telemetry-path", "metrics"),
            ("web.telemetry-path", "/"),
            ("web.telemetry-path", "/healthz"),
            ("web.telemetry-path", "/gpu/call-sites"),
            ("web.telemetry-path", "/a b"),
            ("web.telemetry-path", "/a\n"),
            ("web.max-requests", "0"),
            ("web.max-requests", "-1"),
            ("web.max-requests", "1e3"),
            ("web.max-requests", "100001"),
            ("web.disable-exporter-metrics", "maybe"),
            ("node", ""),
            ("node", "a\nb"),
            ("node", "n" * 129),
            ("probes.attach", "best"),
            ("probes.launch", "half"),
            ("probes.overhead-limit", "0%"),
            ("probes.overhead-limit", "0.01"),
            ("probes.overhead-limit", "101%"),
            ("collector.cuda", "2"),
            ("tick.interval", "0s"),
            ("tick.interval", "-1s"),
            ("tick.interval", "1"),
            ("tick.interval", "1 s"),
            ("tick.interval", "1s\n"),
            ("tick.interval", "1d"),
            ("tick.interval", "infs"),
            ("probes.discovery-interval", "9ms"),
            ("series.ttl", "9999999h"),
            ("series.ttl", "9" * 400 + "s"),
            ("history.path", ""),
            ("history.path", "history.sqlite"),
            ("history.path", "/etc/passwd"),
            ("history.max-bytes", "1MiB"),
            ("history.max-bytes", "64"),
            ("history.max-bytes", "65GiB"),
            ("history.retention", "0s"),
            ("path.procfs", "/nonexistent"),
            ("path.procfs", ""),
            ("recording.directory", "relative"),
            ("recording.directory", ""),
            ("log.level", "INFO"),
            ("log.format", "xml"),
        ],
    )
    def test_flag_and_value_come_first(self, flag: str, value: str) -> None:
        with pytest.raises(BadInput) as raised:
            loaded(f"--{flag}={value}")

        assert str(raised.value).startswith(f"--{flag}: invalid value {value!r}: ")

    def test_variable_is_named(self) -> None:
        assert refused(NODE_NAME="a\nb") == (
            r"environment variable NODE_NAME: invalid value 'a\nb': want 1 to 128 printable characters"
        )

    def test_key_and_file_are_named(self, tmp_path: Path) -> None:
        line = refused(toml(tmp_path, "tick.interval = 1\n"))

        assert line == (
            f"tick.interval in {tmp_path}/exporter.toml: invalid value '1': want a positive duration, such as 250ms, 30s or 15m"
        )
