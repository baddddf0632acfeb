"""`cluster`: real clients over HTTP and gRPC, and what the store holds afterwards."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub

from exporter.cluster.intake import BODY_BYTES_MAX
from exporter.output.otlp import protobuf_records
from exporter.output.otlp.points import Origin
from exporter.output.otlp.records import SpanRecord
from tests.support.cluster_rows import rows_of
from tests.support.investigated import an_hour
from tests.support.otlp_requests import json_logs, protobuf_logs, window_record
from tests.support.patience import PATIENCE_SECONDS
from tests.support.storing import COMMAND, JSON, Answer, Storing, storing
from tests.support.traced import eventually

SECOND = 10**9
HOUR = 3600 * SECOND
_began = iter(range(time.time_ns(), 2**63, 10))


def a_window(**more: object) -> dict[str, object]:
    """A window of now; each has another id."""
    return window_record(next(_began), **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Storing]:
    """One for the tests that look at answers alone."""
    with storing(folder / "store", folder) as found:
        yield found


@pytest.fixture
def foreign_folder() -> Iterator[Path]:
    """Owned by a user without privileges, who cannot reach the folders of pytest."""
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, 65534, 65534)
        yield Path(name)


def status_of(answer: Answer) -> tuple[int, int, str]:
    """Status of HTTP, code and message of the body."""
    status = Status.FromString(answer.body)
    return answer.status, status.code, status.message


class TestStart:
    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            ((), "cluster wants a certificate: --web.config.file=FILE"),
            (("--web.insecure-no-tls",), "cluster wants tokens: --web.token-file=FILE"),
            (("--store.max-bytes=1MiB",), "--store.max-bytes: invalid value '1MiB': want a size from 512MiB"),
            (("--store.retention=x",), "--store.retention: invalid value 'x'"),
            (("--grpc.listen-address=x",), "--grpc.listen-address: "),
            (
                ("--web.insecure-no-tls", "--web.insecure-no-tokens", "--store.path=/proc/x"),
                "cannot use the store at /proc/x",
            ),
        ],
    )
    def test_refuses_with_one_line(self, flags: tuple[str, ...], message: str) -> None:
        addresses = ("--web.listen-address=127.0.0.1:0", "--grpc.listen-address=127.0.0.1:0")
        given = [*COMMAND, *(addresses if len(flags) != 1 else addresses[:1]), *flags]
        done = subprocess.run(given, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)

        assert done.returncode in (2, 3)
        assert message in done.stderr
        assert done.stderr.count("\n") == 1

    @pytest.mark.parametrize("package", ["duckdb", "grpc", "uvicorn"])
    def test_missing_package_is_one_line(self, tmp_path: Path, package: str) -> None:
        flags = ["--web.insecure-no-tls", "--web.insecure-no-tokens", f"--store.path={tmp_path}"]
        source = (
            f"import sys; sys.modules[{package!r}] = None; from exporter.__main__ import main;"
            f" sys.exit(main(['cluster', *{flags!r}]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )

        assert done.returncode == 3
        assert f"cluster needs the Python package {package}, which is not installed" in done.stderr
        assert "gpu-stall-exporter[cluster]" in done.stderr

    def test_second_writer_of_a_store_is_refused(self, server: Storing) -> None:
        flags = ("--web.insecure-no-tls", "--web.insecure-no-tokens", "--web.listen-address=127.0.0.1:0")
        done = subprocess.run(
            [*COMMAND, *flags, f"--store.path={server.store}"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        assert done.returncode == 3
        assert "another process writes to it" in done.stderr
        assert done.stderr.count("\n") == 1

    def test_needs_no_privileges(self, foreign_folder: Path) -> None:
        """A user that owns the folder of the store, and nothing else."""
        command = (
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--no-new-privs",
            "--bounding-set=-all",
        )
        flags = ("--web.insecure-no-tls", "--web.insecure-no-tokens", "--web.listen-address=127.0.0.1:0")
        process = subprocess.Popen(
            [*command, *COMMAND, *flags, "--grpc.listen-address=none", f"--store.path={foreign_folder}"],
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        try:
            assert process.stderr is not None
            assert any("serving http://127.0.0.1:" in line for line in process.stderr)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0


class TestHttp:
    def test_protobuf_and_json_are_stored_with_and_without_gzip(self, tmp_path: Path, folder: Path) -> None:
        with storing(tmp_path / "store", folder) as server:
            for encode, kind in ((protobuf_logs, "application/x-protobuf"), (json_logs, JSON)):
                assert server.push(encode([a_window()]), Content_Type=kind).status == 200
                body = gzip.compress(encode([a_window()]))
                assert server.push(body, Content_Type=f"{kind}; charset=utf-8", Content_Encoding="gzip").status == 200
            assert server.stop() == 0

        assert (
            rows_of(tmp_path / "store", "select sender, node, rank, steps, lost_seconds from windows")
            == [("fleet", "gpu1", "3", 50, [1.25, 0.5])] * 4
        )

    def test_answers_have_the_encoding_of_the_request(self, server: Storing) -> None:
        in_protobuf = server.push(protobuf_logs([a_window()]))
        in_json = server.push(json_logs([a_window()]), Content_Type=JSON)

        assert (in_protobuf.headers["Content-Type"], in_protobuf.body) == ("application/x-protobuf", b"")
        assert (in_json.headers["Content-Type"], in_json.body) == (JSON, b"{}")

    def test_spans_of_chains_are_stored(self, tmp_path: Path, folder: Path) -> None:
        now = time.time_ns()
        span = SpanRecord(None, "0a" * 16, "0b" * 8, "io", now - HOUR, now, {"node": "gpu1", "process.pid": 7}, (), "")
        body = protobuf_records.encode_spans([span], Origin("gpu1", "gpu-stall-exporter"))
        with storing(tmp_path / "store", folder) as server:
            assert server.push(body, "/v1/traces").status == 200
            assert server.push(body, "/v1/traces").status == 200
            assert server.metric("gpustall_cluster_duplicate_rows_total") == 1
            server.stop()

        assert rows_of(tmp_path / "store", "select chain_id, node, pid from chain_spans") == [("0a" * 16, "gpu1", 7)]

    def test_rejected_records_are_a_partial_success(self, server: Storing) -> None:
        """They are counted by reason, and the others are stored."""
        before = server.metric('gpustall_cluster_rejected_records_total{reason="malformed"}')
        records = [a_window(), a_window(**{"gpustall.steps": -1}), {**a_window(), "event_name": "k8s.event"}]
        partial = ExportLogsServiceResponse.FromString(server.push(protobuf_logs(records)).body).partial_success

        assert partial.rejected_log_records == 2
        assert "1 rejected: not a window or an event of a chain" in partial.error_message
        assert server.metric('gpustall_cluster_rejected_records_total{reason="malformed"}') == before + 1

    def test_clock_of_a_node_that_is_days_off_is_rejected(self, server: Storing) -> None:
        record = window_record(time.time_ns() + 72 * HOUR)
        partial = ExportLogsServiceResponse.FromString(server.push(protobuf_logs([record])).body).partial_success

        assert partial.rejected_log_records == 1
        assert "more than a day from the time of the store" in partial.error_message

    def test_token_of_a_node_cannot_send_records_of_another(self, server: Storing) -> None:
        own = server.push(protobuf_logs([a_window(node="gpu1")]), token="gpu1")
        other = server.push(json_logs([a_window(node="gpu2")]), token="gpu1", Content_Type=JSON)

        assert own.body == b""
        assert json.loads(other.body)["partialSuccess"]["rejectedLogRecords"] == "1"

    def test_unknown_token_is_refused(self, server: Storing) -> None:
        answer = server.push(protobuf_logs([a_window()]), token="none")

        assert status_of(answer)[:2] == (401, 16)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.headers["Retry-After"] is None
        assert server.fetch("/metrics", token="none").status == 401

    @pytest.mark.parametrize("body", [b"hello", b"\xff" * 1000, protobuf_logs([window_record(1)])[:-1]])
    def test_malformed_protobuf_is_a_bad_request(self, server: Storing, body: bytes) -> None:
        assert status_of(server.push(body)) == (400, 3, "not an OTLP request in protobuf")

    @pytest.mark.parametrize("body", [b"", b"hello", b"[]", b'{"resourceLogs": 7}', b"[" * 100_000])
    def test_malformed_json_is_a_bad_request(self, server: Storing, body: bytes) -> None:
        answer = server.push(body, Content_Type=JSON)

        assert (answer.status, json.loads(answer.body)["code"]) == (400, 3)

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Content_Type": "text/plain"}, 415),
            ({"Content_Encoding": "zstd"}, 415),
            ({"Content_Encoding": "gzip"}, 400),
        ],
    )
    def test_other_encodings_are_refused(self, server: Storing, headers: dict[str, str], status: int) -> None:
        assert server.push(protobuf_logs([a_window()]), **headers).status == status

    def test_large_request_is_refused(self, server: Storing) -> None:
        assert server.push(bytes(BODY_BYTES_MAX + 1)).status == 413

    def test_compressed_bomb_is_refused(self, server: Storing) -> None:
        """A gigabyte in a megabyte: no more than the limit is inflated."""
        bomb = gzip.compress(bytes(1 << 30), 9)
        assert len(bomb) < BODY_BYTES_MAX

        assert server.push(bomb, Content_Encoding="gzip").status == 413
        assert server.metric("process_resident_memory_bytes") < 400 << 20

    def test_request_of_too_many_records_is_refused(self, server: Storing) -> None:
        record = {"event_name": "x", "time_unix_ns": 1, "attributes": {}}
        assert server.push(protobuf_logs([record] * 5000)).status == 413

    @pytest.mark.parametrize(
        ("path", "status"), [("/v1/metrics", 404), ("/v2/logs", 404), ("/", 404), ("/metrics", 405)]
    )
    def test_other_paths_are_refused(self, server: Storing, path: str, status: int) -> None:
        assert server.push(b"", path).status == status

    def test_health_needs_no_token(self, server: Storing) -> None:
        assert server.fetch("/healthz", token="none")[::2] == (200, b"ok\n")
        assert server.fetch("/readyz", token="none")[::2] == (200, b"ok\n")

    def test_refused_requests_are_logged_without_tokens(self, server: Storing) -> None:
        server.push(b"hello", token="gpu1")
        text = server.log.read_text()

        assert 'refused token=\\"gpu1\\" address=127.0.0.1 path=\\"/v1/logs\\" status=400' in text
        assert not any(token in text for token in server.tokens.values())


class TestGrpc:
    @pytest.fixture
    def channel(self, server: Storing) -> Iterator[grpc.Channel]:
        credentials = grpc.ssl_channel_credentials(server.certificate.read_bytes())
        with grpc.secure_channel(f"localhost:{server.grpc_port}", credentials) as found:
            yield found

    def export(self, channel: grpc.Channel, body: bytes, token: str) -> ExportLogsServiceResponse:
        request = ExportLogsServiceRequest.FromString(body)
        metadata = (("authorization", f"Bearer {token}"),)
        return LogsServiceStub(channel).Export(request, timeout=PATIENCE_SECONDS, metadata=metadata)

    def test_records_are_stored(self, server: Storing, channel: grpc.Channel) -> None:
        before = server.metric("gpustall_cluster_stored_rows_total")
        answer = self.export(channel, protobuf_logs([a_window(), a_window()]), server.tokens["fleet"])

        assert answer == ExportLogsServiceResponse()
        assert server.metric("gpustall_cluster_stored_rows_total") == before + 2
        assert server.metric('gpustall_cluster_requests_total{status="OK",transport="grpc"}') >= 1

    def test_window_that_comes_by_both_is_stored_once(self, server: Storing, channel: grpc.Channel) -> None:
        before = server.metric("gpustall_cluster_duplicate_rows_total")
        body = protobuf_logs([a_window()])
        server.push(body)
        self.export(channel, body, server.tokens["fleet"])

        assert server.metric("gpustall_cluster_duplicate_rows_total") == before + 1

    def test_rejected_records_are_a_partial_success(self, server: Storing, channel: grpc.Channel) -> None:
        answer = self.export(channel, protobuf_logs([a_window(**{"gpustall.steps": -1})]), server.tokens["fleet"])

        assert answer.partial_success.rejected_log_records == 1

    def test_unknown_token_is_refused(self, server: Storing, channel: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as refused:
            self.export(channel, protobuf_logs([a_window()]), "none")

        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED

    def test_message_of_an_unknown_sender_is_not_received(self, server: Storing, channel: grpc.Channel) -> None:
        """Its size is not even looked at."""
        call = channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")
        with pytest.raises(grpc.RpcError) as refused:
            call(bytes(64 << 20), timeout=PATIENCE_SECONDS, metadata=(("authorization", "Bearer none"),))

        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED

    def test_metrics_service_is_unimplemented(self, server: Storing, channel: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as refused:
            MetricsServiceStub(channel).Export(ExportMetricsServiceRequest(), timeout=PATIENCE_SECONDS)

        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED

    def test_malformed_message_is_an_invalid_argument(self, server: Storing, channel: grpc.Channel) -> None:
        call = channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")
        with pytest.raises(grpc.RpcError) as refused:
            call(b"hello", timeout=PATIENCE_SECONDS, metadata=(("authorization", f"Bearer {server.tokens['fleet']}"),))

        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    @pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
    def test_large_message_is_refused_before_and_after_it_is_decompressed(
        self, server: Storing, channel: grpc.Channel, compression: grpc.Compression
    ) -> None:
        call = channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")
        metadata = (("authorization", f"Bearer {server.tokens['fleet']}"),)
        with pytest.raises(grpc.RpcError) as refused:
            call(bytes(64 << 20), timeout=PATIENCE_SECONDS, metadata=metadata, compression=compression)

        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert server.metric("process_resident_memory_bytes") < 400 << 20


class TestImport:
    def test_history_is_added_to_what_was_pushed(self, tmp_path: Path, folder: Path) -> None:
        """Not while the store runs."""
        history = an_hour(tmp_path)
        command = [*COMMAND, "import", str(history), f"--store.path={tmp_path / 'store'}"]
        with storing(tmp_path / "store", folder) as server:
            assert server.push(protobuf_logs([a_window()])).status == 200
            busy = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
            server.stop()
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)

        assert (busy.returncode, busy.stderr.count("\n")) == (3, 1)
        assert done.stdout == f"{history}: 16 rows imported, 0 were there already\n"
        assert rows_of(tmp_path / "store", "select count(*) from windows") == [(1,), (12,)]


class TestFullDisk:
    """On a file system of its own, which only root can mount."""

    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[Path]:
        mounted = tmp_path / "disk"
        mounted.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", str(mounted)], check=True)
        yield mounted
        subprocess.run(["umount", "-l", str(mounted)], check=True)

    def test_pushes_are_refused_until_there_is_room(self, disk: Path, folder: Path) -> None:
        """With the statuses that senders answer with another attempt; nothing that was acknowledged is lost."""
        kept = disk / "other"
        first, second = a_window(), a_window()
        with storing(disk / "store", folder) as server:
            assert server.push(protobuf_logs([first])).status == 200
            kept.write_bytes(bytes(110 << 20))
            refused = server.push(protobuf_logs([second]))
            assert status_of(refused)[:2] == (503, 14)
            assert refused.headers["Retry-After"] == "5"
            retry = RetryInfo()
            assert Status.FromString(refused.body).details[0].Unpack(retry)
            assert retry.retry_delay.seconds == 5
            assert server.fetch("/readyz").status == 503
            assert server.metric("gpustall_cluster_commit_failures_total") >= 1

            kept.unlink()
            eventually(lambda: server.push(protobuf_logs([second])).status != 503, "there is room again")
            assert server.push(protobuf_logs([first, second])).status == 200
            assert server.fetch("/readyz").status == 200
            server.stop()
            assert rows_of(disk / "store", "select count(*), count(distinct began_unix_ns) from windows") == [(2, 2)]


class TestKilled:
    def test_every_acknowledged_record_is_there_once(self, tmp_path: Path, folder: Path) -> None:
        """SIGKILL under load, twice; each client sends what got no answer to the next process."""
        acknowledged: set[int] = set()
        unanswered: list[int] = []

        def load(server: Storing, stop: threading.Event) -> None:
            while not stop.is_set():
                began = unanswered.pop() if unanswered else next(_began)
                try:
                    answer = server.push(protobuf_logs([window_record(began)]))
                except OSError:
                    unanswered.append(began)
                    return
                assert answer.status == 200
                acknowledged.add(began)

        for round_number in (1, 2, 3):
            with storing(tmp_path / "store", folder) as server, ThreadPoolExecutor(4) as clients:
                stop = threading.Event()
                pushing = [clients.submit(load, server, stop) for _ in range(4)]
                deadline = time.monotonic() + PATIENCE_SECONDS
                while len(acknowledged) < 20 * round_number and time.monotonic() < deadline:
                    stop.wait(0.01)
                if round_number < 3:
                    server.kill()
                stop.set()
                for one in pushing:
                    one.result(PATIENCE_SECONDS)
        found = [began for (began,) in rows_of(tmp_path / "store", "select began_unix_ns from windows")]

        assert len(acknowledged) >= 60
        assert len(found) == len(set(found))
        assert acknowledged <= set(found)
