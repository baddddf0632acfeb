"""`check` on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import gpustall_standin as standin
from exporter.host.privileges import NEEDS
from exporter.kernel import hazards
from exporter.kernel.hazards import Fate
from tests.support import held_calls
from tests.support.exporter_process import COMMAND
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import answer, receiver, refused
from tests.support.requirements import ROOT, need_command, need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import only

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    need_tracing()


def check(*flags: str, before: Sequence[str] = (), folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`check` with flags, on a free port unless flags say otherwise. folder: of the program."""
    return subprocess.run(
        [*before, *COMMAND, "check", "--web.listen-address=127.0.0.1:0", *flags],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=folder,
        env={**os.environ, "NO_PROXY": "*", "no_proxy": "*"},
        check=False,
    )


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, Any]]]:
    """Name of a check -> its rows."""
    assert done.stderr == ""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(done.stdout)["checks"]:
        found.setdefault(row["name"], []).append(row)
    return found


class TestHere:
    def test_exit_code_is_0_and_the_last_line_agrees(self) -> None:
        done = check()

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1] == "`run` can start"

    def test_json_has_every_check(self) -> None:
        """Besides, a row for each library, one row if there is none, and one about lockdown where securityfs is mounted."""
        done = check("--format=json")
        rows = checks(done)

        assert done.returncode == 0
        assert json.loads(done.stdout)["ok"] is True
        assert [name for name in rows if not name.endswith(("library", "libraries", "lockdown"))] == [
            "kernel",
            "BTF",
            "capabilities",
            "libbpf",
            "BPF objects",
            "return probes",
            "BPF programs",
            "perf events",
            "NVIDIA driver",
            "NVML",
            "Python",
            "bcc",
            "history",
            "port",
            "push",
        ]
        assert any(name.endswith(("library", "libraries")) for name in rows)

    def test_libraries_of_a_running_job_are_listed_with_their_functions(self, tmp_path: Path) -> None:
        """Three files that no other process maps, and the functions that would be probed in each."""
        for name in ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2"):
            shutil.copy(standin.build_dir() / name, tmp_path)
        with held_calls.held_calls("ncclAllReduce:1:4096", libraries=tmp_path):
            rows = checks(check("--format=json"))

        symbols = {}
        for kind in ("runtime", "driver", "nccl"):
            row = only(row for row in rows[f"{kind} library"] if row["found"].startswith(str(tmp_path)))
            symbols[kind] = row["symbols"]
            assert row["state"] == "ok"

        assert {"cudaLaunchKernel", "cudaMemcpyAsync_ptsz", "cudaStreamSynchronize"} <= set(symbols["runtime"])
        assert {"cuLaunchKernel", "cuMemcpyHtoD_v2"} <= set(symbols["driver"])
        assert {"ncclAllReduce", "ncclCommInitRank"} <= set(symbols["nccl"])


class TestPython:
    def test_interpreter_of_a_gpu_process_is_shown(self) -> None:
        """With its version and file; its frames can be read."""
        built()
        program = "import ctypes, sys; ctypes.CDLL('libcudart.so.12'); print(flush=True); sys.stdin.read()"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(["/usr/bin/python3", "-c", program], env=standin.environment(), **pipes) as job:
            assert job.stdout is not None
            job.stdout.readline()
            row = only(row for row in checks(check("--format=json"))["Python"] if str(job.pid) in row["found"])
            job.kill()

        assert row["state"] == "ok"
        assert re.match(rf"Python 3\.\d+ in /usr/\S+, pid .*{job.pid}.*: chains name lines of Python$", row["found"])


class TestReturnProbes:
    def test_result_of_the_experiment_is_shown(self) -> None:
        """Whether a child process under a seccomp filter survives a return probe; if not, what is missing without them."""
        row = only(checks(check("--format=json"))["return probes"])

        if hazards.fate_by_experiment() is Fate.SURVIVES:
            assert (row["state"], row["found"]) == (
                "ok",
                "a child under a strict seccomp filter has survived a return probe",
            )
        else:
            assert row["state"] == "warning"
            assert row["found"].endswith(hazards.WITHOUT_RETURNS)

    def test_disabled_return_probes_are_a_warning_that_names_what_is_missing(self) -> None:
        """Only entry probes are loaded, and `run` can start."""
        done = check("--format=json", "--probes.returns=never")
        rows = checks(done)
        row = only(rows["return probes"])

        assert done.returncode == 0
        assert row["state"] == "warning"
        assert row["found"] == (
            "disabled by --probes.returns=never: CUDA calls are only counted, by operation: no durations, errors, bytes or"
            " memory, no NCCL, no thread time, no lost time"
        )
        assert only(rows["BPF programs"])["found"].endswith("entries only")

    def test_without_return_probes_the_cuda_collector_is_required(self) -> None:
        done = check("--format=json", "--probes.returns=never", "--no-collector.cuda")
        row = only(checks(done)["BPF programs"])

        assert done.returncode == 3
        assert (row["state"], row["remedy"]) == ("failed", "leave --collector.cuda on")


class TestHistory:
    def test_path_and_limits_are_shown(self, tmp_path: Path) -> None:
        """`run` would create the directory, `check` does not."""
        path = tmp_path / "new" / "history.sqlite"
        row = only(checks(check("--format=json", f"--history.path={path}", "--history.max-bytes=8MiB"))["history"])

        assert (row["state"], row["found"]) == ("ok", f"{path}: at most 8 MiB and 24 h")
        assert not path.parent.exists()

    def test_disabled_history_is_a_warning(self) -> None:
        row = only(checks(check("--format=json", "--history.path=none"))["history"])

        assert (row["state"], row["found"]) == (
            "warning",
            "disabled by --history.path=none: `explain` has nothing to read",
        )

    def test_directory_that_others_may_write_to_is_a_warning(self, tmp_path: Path) -> None:
        """`run` can start, without a history."""
        tmp_path.chmod(0o777)
        done = check("--format=json", f"--history.path={tmp_path}/history.sqlite")
        row = only(checks(done)["history"])

        assert (done.returncode, row["state"]) == (0, "warning")
        assert row["found"] == f"the directory {tmp_path} is writable by others"


class TestReceivers:
    def test_no_receiver_is_ok(self) -> None:
        row = only(checks(check("--format=json"))["push"])

        assert (row["state"], row["found"]) == ("ok", "no OTLP receiver is configured (--otlp.endpoint)")

    def test_each_signal_of_each_receiver_has_a_row(self, tmp_path: Path) -> None:
        """One receiver accepts protobuf, one is down, one rejects; the query of a URL may be a key and is not shown."""
        config = tmp_path / "exporter.toml"
        with receiver() as well, refused() as gone, receiver([answer(401)]) as denying:
            config.write_text(
                f'[otlp]\nendpoint = "{well.url}"\nprotocol = "http/protobuf"\nwindows = true\n'
                f'[otlp.receiver.gone]\nendpoint = "{gone}"\n'
                f'[otlp.receiver.denying]\nendpoint = "{denying.url}?key=b7c2d6a19e"\n'
            )
            done = check("--format=json", f"--config.file={config}")
        rows = checks(done)
        pushes = {name: only(found) for name, found in rows.items() if name.startswith("push")}
        shown = {name: (row["state"], row["found"]) for name, row in pushes.items()}

        assert done.returncode == 0
        assert shown == {
            "push default": ("ok", f"{well.url}/v1/metrics accepts http/protobuf"),
            "push default logs": ("ok", f"{well.url}/v1/logs accepts http/protobuf"),
            "push default traces": ("ok", f"{well.url}/v1/traces accepts http/protobuf"),
            "push default windows": ("ok", f"{well.url}/v1/logs accepts http/protobuf"),
            "push denying": ("warning", f"{denying.url}/v1/metrics: rejected: status 401: {{}}"),
            "push denying logs": ("warning", f"{denying.url}/v1/logs: rejected: status 401: {{}}"),
            "push denying traces": ("warning", f"{denying.url}/v1/traces: rejected: status 401: {{}}"),
            "push gone": ("warning", f"{gone}/v1/metrics: no answer: connection refused"),
        }
        assert [request.path for request in well.requests] == ["/v1/metrics", "/v1/logs", "/v1/traces", "/v1/logs"]


class TestFailed:
    """Exit code 3."""

    def test_port_in_use_fails(self) -> None:
        """Each of several addresses is checked."""
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = check("--format=json", f"--web.listen-address=127.0.0.1:{port}")

        first, row = checks(done)["port"]

        assert done.returncode == 3
        assert first["state"] == "ok"
        assert (row["state"], row["found"]) == (
            "failed",
            f"cannot listen on 127.0.0.1:{port}: Address already in use",
        )
        assert row["remedy"] == "choose another --web.listen-address"

    def test_missing_objects_fail(self, tmp_path: Path) -> None:
        """A copy of the package that was not built."""
        shutil.copytree(
            ROOT / "exporter", tmp_path / "exporter", ignore=shutil.ignore_patterns("*.bpf.o", "build", "__pycache__")
        )
        done = check("--format=json", folder=tmp_path)
        rows = checks(done)

        assert done.returncode == 3
        assert only(rows["BPF objects"])["found"] == "not built: " + ", ".join(
            f"{subject}.bpf.o"
            for subject in (
                "process",
                "mappings",
                "cuda",
                "nccl",
                "sched",
                "reclaim",
                "fault",
                "interrupt",
                "threads",
                "stacks",
                "python",
                "memory",
                "network",
                "block",
            )
        )
        assert only(rows["BPF objects"])["remedy"] == "run `make build`"
        assert only(rows["BPF programs"])["state"] == "failed"

    def test_missing_capabilities_fail(self) -> None:
        """Root without capabilities; the other checks are still done."""
        need_command("setpriv", "util-linux")
        done = check("--format=json", before=["setpriv", "--bounding-set=-all", "--inh-caps=-all"])
        rows = checks(done)

        assert done.returncode == 3
        assert all(need.cost in only(rows["capabilities"])["found"] for need in NEEDS)
        assert only(rows["BPF programs"])["state"] == "failed"
        assert only(rows["port"])["state"] == "ok"

    def test_text_shows_the_remedy_below_the_failed_check(self) -> None:
        need_command("unshare", "util-linux")
        hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"]
        done = check(before=hidden)

        assert (done.returncode, done.stderr) == (3, "")
        assert re.search(
            r"^BTF +FAILED +no /sys/kernel/btf/vmlinux\n +→ use a kernel built with", done.stdout, re.MULTILINE
        )
        assert done.stdout.splitlines()[-1] == "`run` cannot start: fix the FAILED checks above, first one first"


class TestSupportBundle:
    def test_last_line_shows_path_and_size(self, tmp_path: Path) -> None:
        path = tmp_path / "bundle.tar.gz"
        done = check(f"--support-bundle={path}")
        with tarfile.open(path) as archive:
            names = {Path(name).name for name in archive.getnames()}

        assert done.returncode == 0
        assert done.stdout.splitlines()[-1].startswith(f"{path}: {path.stat().st_size:,} bytes")
        assert done.stdout.splitlines()[-1].endswith("review it before you send it")
        assert {"checks.json", "configuration.json", "kernel.json", "libraries.json", "contents.txt"} <= names

    def test_is_written_without_any_capability(self, tmp_path: Path) -> None:
        """contents.txt names the parts that failed."""
        need_command("setpriv", "util-linux")
        path = tmp_path / "bundle.tar.gz"
        done = check(f"--support-bundle={path}", before=["setpriv", "--bounding-set=-all", "--inh-caps=-all"])
        with tarfile.open(path) as archive:
            machine = json.load(archive.extractfile("gpu-stall-exporter-support/machine.json"))  # type: ignore[arg-type]
            contents = archive.extractfile("gpu-stall-exporter-support/contents.txt").read()  # type: ignore[union-attr]

        assert done.returncode == 3
        assert machine["capabilities"]["CapEff"] == "0000000000000000"
        assert b"metrics.txt: OSError: no address has a fixed port" in contents

    def test_existing_file_is_an_error_of_one_line(self, tmp_path: Path) -> None:
        """Before any check is done."""
        path = tmp_path / "bundle.tar.gz"
        path.touch()
        done = check(f"--support-bundle={path}")

        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"gpu-stall-exporter: --support-bundle: {path} exists; remove it, or choose another name\n"
        )
