"""`check` on this machine: what `run` would say, without running it."""

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
from tests.support.receiver import answer, receiver, refused
from tests.support.requirements import ROOT, need_command, need_tracing
from tests.support.traced import only

pytestmark = pytest.mark.end_to_end
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip, naming what is missing."""
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


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, Any]]]:
    """Subject -> its rows."""
    assert done.stderr == ""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(done.stdout)["findings"]:
        found.setdefault(row["subject"], []).append(row)
    return found


class TestHere:
    """On a machine where it works."""

    def test_exit_code_is_0_and_the_last_line_says_so(self) -> None:
        """For people."""
        done = check()

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1] == "`run` will work here."

    def test_the_document_has_every_subject(self) -> None:
        """For machines; libraries come on top, and stand as one row when there are none."""
        done = check("--format=json")
        rows = findings(done)

        assert done.returncode == 0
        assert json.loads(done.stdout)["ok"] is True
        assert [subject for subject in rows if not subject.endswith(("library", "libraries"))] == [
            "kernel",
            "BTF",
            "capabilities",
            "libbpf",
            "BPF objects",
            "return probes",
            "BPF programs",
            "perf events",
            "tracefs",
            "NVIDIA driver",
            "NVML",
            "bcc",
            "stand-in",
            "history",
            "port",
            "push",
        ]
        assert any(subject.endswith(("library", "libraries")) for subject in rows)

    def test_libraries_of_a_running_job_are_listed_with_their_functions(self, tmp_path: Path) -> None:
        """Three files that nothing else maps, and the functions that would be probed in each."""
        for name in ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2"):
            shutil.copy(standin.build_dir() / name, tmp_path)
        with held_calls.held_calls("ncclAllReduce:1:4096", libraries=tmp_path):
            rows = findings(check("--format=json"))

        symbols = {}
        for kind in ("runtime", "driver", "nccl"):
            row = only(row for row in rows[f"{kind} library"] if row["detail"].startswith(str(tmp_path)))
            symbols[kind] = row["symbols"]
            assert row["state"] == "ok"

        assert {"cudaLaunchKernel", "cudaMemcpyAsync_ptsz", "cudaStreamSynchronize"} <= set(symbols["runtime"])
        assert {"cuLaunchKernel", "cuMemcpyHtoD_v2"} <= set(symbols["driver"])
        assert {"ncclAllReduce", "ncclCommInitRank"} <= set(symbols["nccl"])


class TestReturnProbes:
    """Whether a job under a seccomp filter survives them is tried out on a child of `check`."""

    def test_the_experiment_is_reported(self) -> None:
        """This kernel's word for it; where it ends the child, what is lost without return probes."""
        row = only(findings(check("--format=json"))["return probes"])

        if hazards.fate_by_experiment() is Fate.SURVIVES:
            assert (row["state"], row["detail"]) == ("ok", "a child under a strict seccomp filter has survived them")
        else:
            assert row["state"] == "absent"
            assert row["detail"].endswith(hazards.WITHOUT_RETURNS)

    def test_without_them_the_loss_is_stated(self) -> None:
        """On demand; entries alone are loaded then, and `run` works."""
        done = check("--format=json", "--probes.returns=never")
        rows = findings(done)
        row = only(rows["return probes"])

        assert done.returncode == 0
        assert row["state"] == "absent"
        assert row["detail"] == (
            "left out by --probes.returns=never: CUDA calls are counted by operation as they begin, and that is all: no"
            " durations, errors, bytes or memory, nothing of NCCL, and no thread time or lost time"
        )
        assert only(rows["BPF programs"])["detail"].endswith("entries alone")

    def test_without_them_the_cuda_collector_is_needed(self) -> None:
        """Nothing else has anything to tell."""
        done = check("--format=json", "--probes.returns=never", "--no-collector.cuda")
        row = only(findings(done)["BPF programs"])

        assert done.returncode == 3
        assert (row["state"], row["remedy"]) == ("failed", "leave --collector.cuda on")


class TestHistory:
    """Whether `run` could keep one there, without leaving anything behind."""

    def test_place_and_bounds_are_told(self, tmp_path: Path) -> None:
        """In a directory that `run` would make."""
        path = tmp_path / "new" / "history.sqlite"
        row = only(findings(check("--format=json", f"--history.path={path}", "--history.max-bytes=8MiB"))["history"])

        assert (row["state"], row["detail"]) == ("ok", f"{path}: 8 MiB and 24 h at most")
        assert not path.parent.exists()

    def test_without_one_it_is_said_what_that_costs(self) -> None:
        """On demand."""
        row = only(findings(check("--format=json", "--history.path=none"))["history"])

        assert (row["state"], row["detail"]) == ("absent", "none is kept, as --history.path=none says")

    def test_unsafe_place_keeps_run_from_nothing(self, tmp_path: Path) -> None:
        """A directory that everybody writes to: `run` works, and keeps none."""
        tmp_path.chmod(0o777)
        done = check("--format=json", f"--history.path={tmp_path}/history.sqlite")
        row = only(findings(done)["history"])

        assert (done.returncode, row["state"]) == (0, "absent")
        assert row["detail"] == f"others may write to the directory {tmp_path}"


class TestReceivers:
    """A row for each OTLP receiver; one that is down now does not keep `run` from working."""

    def test_without_one_it_is_said_how_to_push(self) -> None:
        """Absent, as nobody asked for it."""
        row = only(findings(check("--format=json"))["push"])

        assert (row["state"], row["detail"]) == ("absent", "no OTLP receiver is configured")
        assert row["remedy"] == "set --otlp.endpoint to push"

    def test_each_has_a_row(self, tmp_path: Path) -> None:
        """One that takes protobuf, one that nobody runs, one that denies; a query, which may be a key, is not shown."""
        config = tmp_path / "exporter.toml"
        with receiver() as well, refused() as gone, receiver([answer(401)]) as denying:
            config.write_text(
                f'[otlp]\nendpoint = "{well.url}"\nprotocol = "http/protobuf"\n'
                f'[otlp.receiver.gone]\nendpoint = "{gone}"\n'
                f'[otlp.receiver.denying]\nendpoint = "{denying.url}?key=b7c2d6a19e"\n'
            )
            done = check("--format=json", f"--config.file={config}")
        rows = findings(done)
        pushes = {name: only(found) for name, found in rows.items() if name.startswith("push")}
        shown = {name: (row["state"], row["detail"]) for name, row in pushes.items()}

        assert done.returncode == 0
        assert shown == {
            "push default": ("ok", f"{well.url}/v1/metrics takes http/protobuf"),
            "push default logs": ("ok", f"{well.url}/v1/logs takes http/protobuf"),
            "push default traces": ("ok", f"{well.url}/v1/traces takes http/protobuf"),
            "push denying": ("absent", f"{denying.url}/v1/metrics: rejected: status 401: {{}}"),
            "push denying logs": ("absent", f"{denying.url}/v1/logs: rejected: status 401: {{}}"),
            "push denying traces": ("absent", f"{denying.url}/v1/traces: rejected: status 401: {{}}"),
            "push gone": ("absent", f"{gone}/v1/metrics: no answer: Connection refused"),
        }
        assert [request.path for request in well.requests] == ["/v1/metrics", "/v1/logs", "/v1/traces"]


class TestNotHere:
    """Exit code 3; what FAILED is named, and what to do."""

    def test_port_taken(self) -> None:
        """By another program; of several addresses each is looked at."""
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = check("--format=json", f"--web.listen-address=127.0.0.1:{port}")

        first, row = findings(done)["port"]

        assert done.returncode == 3
        assert first["state"] == "ok"
        assert (row["state"], row["detail"]) == (
            "failed",
            f"cannot listen on 127.0.0.1:{port}: Address already in use",
        )
        assert row["remedy"] == "choose another --web.listen-address"

    def test_objects_missing(self, tmp_path: Path) -> None:
        """A checkout that was not built: a copy of the package without them."""
        shutil.copytree(
            ROOT / "exporter", tmp_path / "exporter", ignore=shutil.ignore_patterns("*.bpf.o", "build", "__pycache__")
        )
        done = check("--format=json", folder=tmp_path)
        rows = findings(done)

        assert done.returncode == 3
        assert only(rows["BPF objects"])["detail"] == "not built: " + ", ".join(
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
                "memory",
                "network",
                "block",
            )
        )
        assert only(rows["BPF objects"])["remedy"] == "run `make build`"
        assert only(rows["BPF programs"])["state"] == "failed"
        assert only(rows["stand-in"])["state"] == "absent"

    def test_privilege_missing(self) -> None:
        """Root without capabilities: every finding is there all the same."""
        need_command("setpriv", "util-linux")
        done = check("--format=json", before=["setpriv", "--bounding-set=-all", "--inh-caps=-all"])
        rows = findings(done)

        assert done.returncode == 3
        assert all(need.cost in only(rows["capabilities"])["detail"] for need in NEEDS)
        assert only(rows["BPF programs"])["state"] == "failed"
        assert only(rows["port"])["state"] == "ok"

    def test_the_table_says_what_to_do(self) -> None:
        """In its last line, and beside the row that failed."""
        need_command("unshare", "util-linux")
        hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"]
        done = check(before=hidden)

        assert (done.returncode, done.stderr) == (3, "")
        assert re.search(
            r"^BTF +FAILED  no /sys/kernel/btf/vmlinux\n +→ use a kernel built with", done.stdout, re.MULTILINE
        )
        assert done.stdout.splitlines()[-1] == "`run` will NOT work here; mend what FAILED, from the top."


class TestSupportBundle:
    """What a bug report needs, in one file."""

    def test_it_is_written_beside_the_answer(self, tmp_path: Path) -> None:
        """And one line says where, how large, and to look before it is sent."""
        path = tmp_path / "bundle.tar.gz"
        done = check(f"--support-bundle={path}")
        with tarfile.open(path) as archive:
            names = {Path(name).name for name in archive.getnames()}

        assert done.returncode == 0
        assert done.stdout.splitlines()[-1].startswith(f"{path}: {path.stat().st_size:,} bytes")
        assert done.stdout.splitlines()[-1].endswith("look at it before you send it")
        assert {"findings.json", "configuration.json", "kernel.json", "libraries.json", "contents.txt"} <= names

    def test_without_any_right_it_is_written_too(self, tmp_path: Path) -> None:
        """What could not be read is named in it."""
        need_command("setpriv", "util-linux")
        path = tmp_path / "bundle.tar.gz"
        done = check(f"--support-bundle={path}", before=["setpriv", "--bounding-set=-all", "--inh-caps=-all"])
        with tarfile.open(path) as archive:
            machine = json.load(archive.extractfile("gpu-stall-exporter-support/machine.json"))  # type: ignore[arg-type]
            contents = archive.extractfile("gpu-stall-exporter-support/contents.txt").read()  # type: ignore[union-attr]

        assert done.returncode == 3
        assert machine["rights"]["CapEff"] == "0000000000000000"
        assert b"metrics.txt: OSError: no address has a fixed port" in contents

    def test_file_that_exists_is_one_line(self, tmp_path: Path) -> None:
        """Before anything is looked at."""
        path = tmp_path / "bundle.tar.gz"
        path.touch()
        done = check(f"--support-bundle={path}")

        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"gpu-stall-exporter: --support-bundle: {path} exists; remove it, or choose another name\n"
        )
