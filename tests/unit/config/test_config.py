"""config: flags, file and environment to one Config, and what is wrong with each."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exporter.config import SETTINGS, Config, add_arguments, load
from exporter.config.collectors import COLLECTORS, GPU_COLLECTORS, HOST_COLLECTORS, CollectorSettings
from exporter.config.log import LogFormat, LogLevel, LogSettings
from exporter.config.orchestrator import OrchestratorKind, OrchestratorSettings
from exporter.config.otlp import OtlpSettings, Receiver, ResourceSettings, Target
from exporter.config.otlp_parsers import Compression, HistogramForm, OtlpProtocol, Temporality
from exporter.config.probes import AttachKind, LaunchMode, ProbeSettings, ReturnProbes
from exporter.config.setting import reloaded
from exporter.config.storage import HistorySettings, RecordingSettings, SeriesSettings
from exporter.config.web import WebSettings
from exporter.errors import BadInput

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def loaded(*argv: str, environment: Mapping[str, str] | None = None) -> Config:
    """The Config of a command line. Environment: only NODE_NAME=gpu7 unless given."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return load(vars(parser.parse_args(argv)), {"NODE_NAME": "gpu7"} if environment is None else environment)


def toml(folder: Path, text: str) -> str:
    """The flag that names a file with this text."""
    path = folder / "exporter.toml"
    path.write_text(text, encoding="utf-8")
    return f"--config.file={path}"


class TestDefaults:
    """Without a word from the user."""

    def test_defaults_are_what_the_help_says(self) -> None:
        """On loopback, every collector on."""
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
        """Those without one are left out."""
        setting.parse(setting.default)  # type: ignore[attr-defined]

    def test_node_is_the_host_s_name_without_a_variable(self) -> None:
        """Never empty."""
        assert loaded(environment={}).node != ""


class TestPrecedence:
    """Flag, then file, then environment, then default."""

    def test_flag_beats_file(self, tmp_path: Path) -> None:
        """What was typed last counts."""
        file = toml(tmp_path, 'node = "from-file"\n[tick]\ninterval = "1s"\n')

        config = loaded(file, "--node=from-flag")

        assert (config.node, config.tick_interval_seconds) == ("from-flag", 1.0)

    def test_file_beats_environment(self, tmp_path: Path) -> None:
        """NODE_NAME of the pod is a default."""
        assert loaded(toml(tmp_path, 'node = "from-file"\n')).node == "from-file"

    def test_environment_beats_default(self) -> None:
        """NODE_NAME by the downward API."""
        assert loaded(environment={"NODE_NAME": "worker-5"}).node == "worker-5"

    def test_last_of_two_flags_counts(self) -> None:
        """As everywhere."""
        assert loaded("--no-collector.nccl", "--collector.nccl").collectors.enabled == (
            "cuda",
            "nccl",
            "sched",
            "chains",
            "engine",
            *HOST_COLLECTORS,
            *GPU_COLLECTORS,
        )


class TestFile:
    """TOML: dots make tables."""

    def test_every_setting_can_stand_in_the_file(self, tmp_path: Path) -> None:
        """Strings, numbers and truth values."""
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
                        **target,
                    ),
                ),
                resource=ResourceSettings(given_service_name="stalls", attributes=(("team", "a b"),)),
            ),
            log=LogSettings(level=LogLevel.DEBUG, format=LogFormat.JSON),
        )

    def test_unknown_key_is_refused(self, tmp_path: Path) -> None:
        """A typo is never silently the default."""
        with pytest.raises(BadInput, match=r"unknown key 'tick\.intervall'"):
            loaded(toml(tmp_path, '[tick]\nintervall = "1s"\n'))

    def test_unknown_table_is_refused(self, tmp_path: Path) -> None:
        """Its first key is named."""
        with pytest.raises(BadInput, match=r"unknown key 'ticks\.interval'"):
            loaded(toml(tmp_path, '[ticks]\ninterval = "1s"\n'))

    def test_list_is_refused(self, tmp_path: Path) -> None:
        """No setting has several values."""
        with pytest.raises(BadInput, match=r"node in .* must be a single value"):
            loaded(toml(tmp_path, 'node = ["a", "b"]\n'))

    @pytest.mark.parametrize("text", ["node = ", "node = 'a'\nnode = 'b'\n", "{}"])
    def test_what_is_no_toml_is_refused(self, tmp_path: Path, text: str) -> None:
        """The file is named."""
        with pytest.raises(BadInput, match=r"--config\.file: .*exporter\.toml is not TOML"):
            loaded(toml(tmp_path, text))

    def test_what_is_no_utf_8_is_refused(self, tmp_path: Path) -> None:
        """TOML is UTF-8."""
        (tmp_path / "bad.toml").write_bytes(b'node = "\xff"\n')

        with pytest.raises(BadInput, match="is not TOML"):
            loaded(f"--config.file={tmp_path}/bad.toml")

    @pytest.mark.parametrize("path", ["/nonexistent/exporter.toml", "/", ""])
    def test_file_that_cannot_be_read_is_refused(self, path: str) -> None:
        """Missing, a directory, or an empty name, which a shell makes of an unset variable."""
        with pytest.raises(BadInput, match=r"--config\.file: cannot read"):
            loaded(f"--config.file={path}")

    def test_bad_value_in_the_file_names_key_and_file(self, tmp_path: Path) -> None:
        """Not the flag, which the user did not give."""
        with pytest.raises(BadInput, match=r"tick\.interval in .*exporter\.toml: invalid value '1'"):
            loaded(toml(tmp_path, "tick.interval = 1\n"))


class TestBadInput:
    """Everything a user can get wrong is named, with what was wanted."""

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
    def test_bad_value_names_its_flag(self, flag: str, value: str) -> None:
        """BadInput, whose exit code is 2; the flag and the value stand in front."""
        with pytest.raises(BadInput) as raised:
            loaded(f"--{flag}={value}")

        assert str(raised.value).startswith(f"--{flag}: invalid value {value!r}: ")

    def test_bad_variable_is_named(self) -> None:
        """NODE_NAME is no flag."""
        with pytest.raises(BadInput, match=r"^environment variable NODE_NAME: invalid value 'a\\nb': "):
            loaded(environment={"NODE_NAME": "a\nb"})

    def test_no_collector_at_all_is_refused(self) -> None:
        """There would be nothing to serve."""
        with pytest.raises(BadInput, match="no calls would be traced"):
            loaded("--no-collector.cuda", "--no-collector.nccl")


class TestValues:
    """What is understood."""

    @pytest.mark.parametrize(
        ("text", "address"),
        [
            ("127.0.0.1:10478", ("127.0.0.1", 10478)),
            ("0.0.0.0:0", ("0.0.0.0", 0)),  # noqa: S104 - parsed, not bound
            (":9100", ("", 9100)),
            ("localhost:9100", ("localhost", 9100)),
            ("[::1]:10478", ("::1", 10478)),
            ("[::]:65535", ("::", 65535)),
        ],
    )
    def test_addresses_of_both_families(self, text: str, address: tuple[str, int]) -> None:
        """IPv6 in brackets, as in a URL; a port alone listens on every IPv4 address."""
        assert loaded(f"--web.listen-address={text}").web.listen_addresses == (address,)

    def test_several_addresses(self) -> None:
        """A flag each; on the command line they take the place of those in the file."""
        flags = ("--web.listen-address=127.0.0.1:1", "--web.listen-address=[::1]:1")

        assert loaded(*flags).web.listen_addresses == (("127.0.0.1", 1), ("::1", 1))

    def test_one_address_twice_is_refused(self) -> None:
        """The second could not listen."""
        with pytest.raises(BadInput, match="an address is given twice"):
            loaded("--web.listen-address=127.0.0.1:1", "--web.listen-address=127.0.0.1:1")

    @pytest.mark.parametrize("text", ["ftp://a", "https://", "https://a@b", "http://a/?b", "10.0.0.1:443"])
    def test_orchestrator_s_url_is_one(self, text: str) -> None:
        """With a scheme that we speak, and no password."""
        with pytest.raises(BadInput, match=r"--orchestrator\.url: .*want a URL such as https://10\.96\.0\.1:443"):
            loaded(f"--orchestrator.url={text}")

    @pytest.mark.parametrize(
        ("text", "seconds"), [("250ms", 0.25), ("10ms", 0.01), ("30s", 30.0), ("1.5m", 90.0), ("2h", 7200.0)]
    )
    def test_durations(self, text: str, seconds: float) -> None:
        """A number and its unit."""
        assert loaded(f"--series.ttl={text}").series.ttl_seconds == seconds

    @pytest.mark.parametrize("flag", ["--no-collector.nccl", "--collector.nccl=false", "--collector.nccl=OFF"])
    def test_collector_is_switched_off(self, flag: str) -> None:
        """In the style of node_exporter, or spelled out."""
        assert loaded(flag).collectors.enabled == (
            "cuda",
            "sched",
            "chains",
            "engine",
            *HOST_COLLECTORS,
            *GPU_COLLECTORS,
        )

    def test_calls_are_traced_without_the_scheduler(self) -> None:
        """Durations and counts need no program in it."""
        assert loaded("--no-collector.sched").collectors.enabled == (
            "cuda",
            "nccl",
            "engine",
            *HOST_COLLECTORS,
            *GPU_COLLECTORS,
        )

    def test_switch_without_a_value_is_on(self) -> None:
        """--web.disable-exporter-metrics."""
        assert not loaded("--web.disable-exporter-metrics").web.with_exporter_metrics


class TestReload:
    """What may change while the exporter runs."""

    def test_what_can_be_changed_is_and_the_rest_is_told(self) -> None:
        """By its flag."""
        before = loaded("--node=a", "--tick.interval=1s", "--log.level=info")
        wanted = loaded("--node=b", "--tick.interval=2s", "--log.level=debug", "--web.max-requests=7")
        config, left = reloaded(before, wanted)

        assert (config.tick_interval_seconds, config.log.level) == (2.0, LogLevel.DEBUG)
        assert (config.node, config.web.max_requests) == ("a", 40)
        assert left == ["web.max-requests", "node"]

    def test_nothing_changes_where_nothing_has_changed(self) -> None:
        """Nothing needs a restart."""
        assert reloaded(loaded(), loaded()) == (loaded(), [])
