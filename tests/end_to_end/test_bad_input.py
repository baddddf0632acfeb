"""Invalid input, and machines that lack something: one line on standard error, and an exit code."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import prometheus_client
import pytest

import gpustall_standin as standin
from tests.support import certificates
from tests.support.exporter_process import COMMAND
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import ROOT, need_command, need_tracing

pytestmark = pytest.mark.end_to_end
RECEIVER, SECURE_RECEIVER = "--otlp.endpoint=http://127.0.0.1:4318", "--otlp.endpoint=https://127.0.0.1:4318"
UNPRIVILEGED = 65534


def run(
    *flags: str,
    before: Sequence[str] = (),
    command: Sequence[str] = COMMAND,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """`run` with flags, which must fail. before: a command that runs the exporter."""
    return subprocess.run(
        [*before, *command, "run", *flags],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        stdin=subprocess.DEVNULL,
        check=False,
    )


class TestBadInput:
    """Exit code 2, and one line on standard error."""

    @pytest.mark.parametrize(
        ("flags", "line"),
        [
            (
                ["--web.listen-address=lo:80"],
                "--web.listen-address: invalid value 'lo:80': want an IP address or localhost, not 'lo'",
            ),
            (
                ["--tick.interval=fast"],
                "--tick.interval: invalid value 'fast': want a positive duration, such as 250ms, 30s or 15m",
            ),
            (
                ["--config.file=/nonexistent.toml"],
                "--config.file: cannot read /nonexistent.toml: No such file or directory",
            ),
            (
                ["--otlp.endpoint=localhost:4318"],
                "--otlp.endpoint: invalid value 'localhost:4318': want a URL such as http://localhost:4318",
            ),
            (
                [RECEIVER, "--otlp.protocol=http/xml"],
                "--otlp.protocol: invalid value 'http/xml': want one of http/json, http/protobuf",
            ),
        ],
    )
    def test_invalid_value_of_a_flag(self, flags: list[str], line: str) -> None:
        done = run(*flags)

        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"gpu-stall-exporter: {line}\n")

    def test_unknown_flag(self) -> None:
        done = run("--no-such-flag")

        assert (done.returncode, done.stdout, done.stderr) == (
            2,
            "",
            "gpu-stall-exporter run: unrecognized arguments: --no-such-flag; see `gpu-stall-exporter run --help`\n",
        )

    def test_invalid_value_in_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "exporter.toml"
        file.write_text('[probes]\nattach = "magic"\n')
        done = run(f"--config.file={file}")

        assert (done.returncode, done.stdout, done.stderr) == (
            2,
            "",
            f"gpu-stall-exporter: probes.attach in {file}: invalid value 'magic': want one of auto, session, multi, single\n",
        )

    @pytest.mark.parametrize(
        ("variable", "value", "line"),
        [
            (
                "OTEL_EXPORTER_OTLP_PROTOCOL",
                "grpc",
                "invalid value 'grpc': gRPC is not supported; want http/protobuf or http/json, usually on port 4318",
            ),
            ("OTEL_EXPORTER_OTLP_HEADERS", "b7c2d6a19e", "header 1 has no `=`; want name=value"),
        ],
    )
    def test_unusable_variable_of_opentelemetry_is_a_warning(self, variable: str, value: str, line: str) -> None:
        """It is set for every program of the machine. A header is not repeated: it may be a token."""
        done = subprocess.run(
            [*COMMAND, "check", "--web.listen-address=127.0.0.1:0"],
            env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", variable: value},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        assert f"environment variable {variable}: {line}; OpenTelemetry's variables are ignored" in " ".join(
            done.stdout.split()
        )
        assert done.returncode == 0

    def test_invalid_line_in_a_file_of_headers(self, tmp_path: Path) -> None:
        """It is not repeated: it may be a token."""
        file = tmp_path / "headers"
        file.write_text("api-key=b7c2d6a19e\nb7c2d6a19e\n")
        done = run(RECEIVER, f"--otlp.headers-file={file}")

        assert (done.returncode, done.stdout, done.stderr) == (
            2,
            "",
            f"gpu-stall-exporter: --otlp.headers-file: line 2 of {file} has no `=`; want name=value\n",
        )

    def test_certificate_and_key_of_different_pairs(self, tmp_path: Path) -> None:
        """Checked before any kernel program is loaded."""
        issued = certificates.issue(tmp_path)
        done = run(
            SECURE_RECEIVER,
            f"--otlp.client-certificate-file={issued.client}",
            f"--otlp.client-key-file={issued.untrusted_key}",
        )

        assert (done.returncode, done.stdout, done.stderr) == (
            2,
            "",
            f"gpu-stall-exporter: OTLP receiver default: the client certificate {issued.client} does not match the key"
            f" {issued.untrusted_key}; give a certificate and its own key, both PEM, the key without a passphrase\n",
        )

    def test_file_without_certificates(self, tmp_path: Path) -> None:
        file = tmp_path / "authority.pem"
        file.write_text("no certificate\n")
        done = run(SECURE_RECEIVER, f"--otlp.ca-file={file}")

        assert (done.returncode, done.stdout, done.stderr) == (
            2,
            "",
            f"gpu-stall-exporter: OTLP receiver default: {file} holds no certificates (PEM)\n",
        )

    def test_port_in_use(self) -> None:
        """The last step of the start."""
        need_tracing()
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = run(f"--web.listen-address=127.0.0.1:{port}")

        assert (done.returncode, done.stdout, done.stderr) == (
            2,
            "",
            f"gpu-stall-exporter: cannot listen on 127.0.0.1:{port}: Address already in use;"
            " choose another --web.listen-address\n",
        )


class TestNotPossibleHere:
    """Exit code 3, and one line with a remedy."""

    def test_root_without_capabilities(self) -> None:
        """An unprivileged container: still user 0."""
        need_tracing()
        need_command("setpriv", "util-linux")
        done = run(before=["setpriv", "--bounding-set=-all", "--inh-caps=-all"])

        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert "Operation not permitted" in done.stderr
        assert done.stderr.endswith("; run as root, or with CAP_BPF and CAP_PERFMON\n")

    def test_unprivileged_user(self) -> None:
        need_tracing()
        need_command("setpriv", "util-linux")
        as_user = ["setpriv", f"--reuid={UNPRIVILEGED}", f"--regid={UNPRIVILEGED}", "--clear-groups"]
        done = run(before=[*as_user, *_paths()], command=[_interpreter_of(as_user), "-m", "exporter"])

        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert "Operation not permitted" in done.stderr
        assert done.stderr.endswith("; run as root, or with CAP_BPF and CAP_PERFMON\n")

    def test_kernel_without_btf(self) -> None:
        """/sys/kernel/btf is hidden by an empty file system, in a mount namespace of its own."""
        need_tracing()
        need_command("unshare", "util-linux")
        hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"]
        done = run(before=hidden)

        assert (done.returncode, done.stdout, done.stderr) == (
            3,
            "",
            "gpu-stall-exporter: this kernel has no BTF at /sys/kernel/btf/vmlinux;"
            " use a kernel built with CONFIG_DEBUG_INFO_BTF\n",
        )


class TestStandin:
    """The stand-in GPU's own command."""

    def test_missing_program(self) -> None:
        if not standin.is_built():
            need_tracing()
        done = subprocess.run(
            [sys.executable, "-m", "gpustall_standin", "run", "no-such-program"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        assert (done.returncode, done.stdout, done.stderr) == (
            2,
            "",
            "gpu-stall-exporter-standin: cannot run 'no-such-program': No such file or directory\n",
        )


def _paths() -> list[str]:
    """For an interpreter outside the virtual environment: the exporter and prometheus-client."""
    packages = Path(prometheus_client.__file__).parent.parent
    return ["env", f"PYTHONPATH={ROOT}{os.pathsep}{packages}"]


def _interpreter_of(as_user: Sequence[str]) -> str:
    """This interpreter, or the distribution's if the user may not enter the folder of this one."""
    for python in (sys.executable, "/usr/bin/python3"):
        works = "import sys, exporter, prometheus_client; sys.exit(sys.version_info < (3, 11))"
        if subprocess.run([*as_user, *_paths(), python, "-c", works], capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip("needs Python 3.11 and this checkout in folders that an unprivileged user can read")
