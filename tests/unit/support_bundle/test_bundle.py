"""bundle: what it holds, what it never holds, and what happens if a part fails."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter import catalog
from exporter.config import Config
from exporter.errors import BadInput
from exporter.output.web.pages import Pages
from exporter.own_metrics.store import OwnMetrics
from exporter.support_bundle.bundle import FILE_BYTES_MAX, FOLDER, TOTAL_BYTES_MAX, BundleFile, Written
from exporter.support_bundle.machine import Machine
from tests.support.records import point, snapshot_of
from tests.support.web_server import serving
from tests.unit.config.command_line import loaded

FILES = {
    "contents.txt",
    "checks.json",
    "exporter.json",
    "configuration.json",
    "kernel.json",
    "machine.json",
    "cgroups.json",
    "environment.json",
    "libraries.json",
    "metrics.txt",
    "log.txt",
    "kernel-log.txt",
}
CHECK = {"name": "kernel", "state": "ok", "found": "6.18.0", "remedy": "", "symbols": []}
HASH = "$2y$10$abcdefghijklmnopqrstuuWGkzHQ8TsBQyNDbGMQXwCZKtFBUuCi6"
SNAPSHOT = snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaMalloc"))
JOURNAL = """\
ts=1 level=info msg="attached to /home/plantedalice/venv/libcudart.so.12: 54 functions"
ts=2 level=warning msg="chain opened: lost to plantedculprit" commands="kill plantedcommand"
{"ts": "3", "level": "warning", "msg": "chain opened: lost to plantedculprit"}
ts=4 level=error msg="push failed: Authorization: Bearer plantedinlog"
"""


class FakeMachine(Machine):
    """journalctl prints the file `journal`."""

    def output_of(self, command: Any) -> str:
        assert command[0] == "journalctl"
        return (self.root / "journal").read_text()


def machine(folder: Path, **environment: str) -> FakeMachine:
    root = folder / "root"
    for name, text in {
        "dev/kmsg": "6,1,73615541702,-;uprobe: failed to unregister, leaking uprobe\n6,2,73615541703,-;usb 1-1: new device\n",
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "proc/self/cgroup": "0::/user.slice/plantedalice.slice/docker-" + "a1" * 32 + ".scope\n",
        "proc/self/mountinfo": "31 23 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
        "proc/self/status": "Name:\tx\nCapEff:\t000000c000080004\nSeccomp:\t2\n",
        "proc/sys/kernel/unprivileged_bpf_disabled": "2\n",
        "sys/kernel/security/lsm": "capability,yama,bpf\n",
        "journal": "",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_BPF=y\nCONFIG_USB=y\n# CONFIG_UPROBES is not set\n"))
    return FakeMachine(root, environment)


def settings(folder: Path, *flags: str, **environment: str) -> Config:
    """Settings of `run`, with an empty /proc."""
    (folder / "proc").mkdir(exist_ok=True)
    return loaded(f"--path.procfs={folder}/proc", "--web.listen-address=127.0.0.1:0", *flags, **environment)


def written(
    folder: Path, config: Config, on: Machine, checks: tuple[Mapping[str, Any], ...] = (CHECK,)
) -> tuple[Written, dict[str, str]]:
    path = folder / "bundle.tar.gz"
    with BundleFile(path) as place:
        result = place.write(config, checks, "1.2.3", on)
    with tarfile.open(path) as archive:
        return result, {
            member.name.removeprefix(f"{FOLDER}/"): archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }


class TestContents:
    def test_every_part_is_a_file(self, tmp_path: Path) -> None:
        """Except for one that failed: no exporter runs here."""
        result, files = written(tmp_path, settings(tmp_path), machine(tmp_path))

        assert set(files) == FILES - {"metrics.txt"}
        assert result.failures == ("metrics.txt: OSError: no address has a fixed port",)

    def test_results_of_check_are_included(self, tmp_path: Path) -> None:
        _, files = written(tmp_path, settings(tmp_path), machine(tmp_path))

        assert json.loads(files["checks.json"]) == [CHECK]

    def test_metrics_of_the_running_exporter_are_included_without_names(self, tmp_path: Path) -> None:
        pages = Pages(lambda: SNAPSHOT, OwnMetrics(), lambda: True, with_exporter_metrics=False)
        with serving(pages) as (host, port):
            _, files = written(tmp_path, settings(tmp_path, f"--web.listen-address={host}:{port}"), machine(tmp_path))

        assert 'pod="",api="runtime",operation="cudaMalloc"} 12\n' in files["metrics.txt"]
        assert 'node="name-1"' in files["metrics.txt"]

    def test_response_of_another_program_is_not_included(self, tmp_path: Path) -> None:
        nothing = replace(SNAPSHOT, families=())
        pages = Pages(lambda: nothing, OwnMetrics(), lambda: True, with_exporter_metrics=False)
        with serving(pages) as (host, port):
            result, files = written(
                tmp_path, settings(tmp_path, f"--web.listen-address={host}:{port}"), machine(tmp_path)
            )

        assert "metrics.txt" not in files
        assert result.failures == (f"metrics.txt: OSError: the program at {host}:{port} is not gpu-stall-exporter",)


class TestSecrets:
    """Secrets are planted wherever there can be some; none of them may be in the bundle."""

    def test_no_secret_is_in_any_file(self, tmp_path: Path) -> None:
        """Headers, users of URLs, keys in paths and queries, web configuration, tokens, environment, results of checks, logs."""
        headers = tmp_path / "headers"
        headers.write_text("api-key=plantedheader\nauthorization=Basic cGxhbnRlZHVzZXI6cGxhbnRlZHBhc3M=\n")
        web = tmp_path / "web.yml"
        web.write_text(
            f"basic_auth_users:\n  plantedbasic: {HASH}\n"
            "tls_server_config:\n  cert: plantedcert\n  key: |\n    plantedkeyline1\n    plantedkeyline2\n"
            "  client_allowed_sans: [plantedsan]\nplantedkeyname: 1\n"
        )
        token = tmp_path / "token"
        token.write_text("plantedtoken.of.an.account\n")
        config = tmp_path / "exporter.toml"
        config.write_text(
            f'[otlp]\nendpoint = "https://in.example/plantedpath/v1/metrics?key=plantedquery"\nheaders-file = "{headers}"\n'
            '[otlp.receiver.second]\nendpoint = "http://localhost:1/v1/metrics"\n'
        )
        environment = {
            "OTEL_RESOURCE_ATTRIBUTES": "team=plantedteam",
            "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "x-key=planted%20other",
            "SOME_SECRET": "plantedvariable",
            "HTTPS_PROXY": "http://plantedproxyuser:plantedproxypass@proxy.example:3128",
            "USER": "plantedalice",
            "LANG": "C.UTF-8",
        }
        check = dict(
            CHECK,
            found="https://u:plantedinurl@h/ said plantedheader, planted other, plantedquery, cGxhbnRlZHVzZXI6cGxhbnRlZHBhc3M=,"
            f" plantedpass, planted%20other, plantedtoken.of.an.account, {HASH}, plantedkeyline2, plantedvariable,"
            " /home/plantedbob/lib.so, user=plantedcarol, password: plantedword, by plantedalice and plantedbasic",
        )
        here = machine(tmp_path, **environment)
        (here.root / "journal").write_text(JOURNAL)
        result, files = written(
            tmp_path,
            settings(
                tmp_path,
                f"--config.file={config}",
                f"--web.config.file={web}",
                f"--orchestrator.token-file={token}",
                **environment,
            ),
            here,
            (check,),
        )

        assert {name: word for name, text in files.items() for word in [_planted_in(text)] if word} == {}
        assert _planted_in(result.one_line()) == ""
        assert set(files) == FILES - {"metrics.txt"}

    def test_invalid_web_configuration_is_not_quoted(self, tmp_path: Path) -> None:
        """Not in the result of its check either."""
        web = tmp_path / "web.yml"
        web.write_text("basic_auth_users:\n  plantedann: one\n  plantedann: two\n")
        check = dict(CHECK, found="web.yml: the key 'plantedann' is a duplicate (line 3)")
        _, files = written(tmp_path, settings(tmp_path, f"--web.config.file={web}"), machine(tmp_path), (check,))

        assert {name for name, text in files.items() if _planted_in(text)} == set()
        assert json.loads(files["configuration.json"])["web"]["config_file"] == "cannot be read: ValueError"

    def test_files_have_no_owner(self, tmp_path: Path) -> None:
        """A tar file may hold names of users."""
        written(tmp_path, settings(tmp_path), machine(tmp_path))
        with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
            owners = {(member.uid, member.gid, member.uname, member.gname) for member in archive.getmembers()}

        assert owners == {(0, 0, "", "")}


class TestFailures:
    def test_part_that_fails_leaves_a_line_and_the_others_are_written(self, tmp_path: Path) -> None:
        here = machine(tmp_path)
        (here.root / "dev/kmsg").unlink()
        result, files = written(tmp_path, settings(tmp_path), here)

        assert set(files) == FILES - {"metrics.txt", "kernel-log.txt"}
        assert "kernel-log.txt: FileNotFoundError: [Errno 2] No such file or directory" in files["contents.txt"]
        assert result.one_line().startswith(f"{tmp_path}/bundle.tar.gz: ")
        assert ", without metrics.txt, kernel-log.txt; " in result.one_line()

    def test_long_file_is_truncated_at_a_whole_line(self, tmp_path: Path) -> None:
        here = machine(tmp_path)
        (here.root / "journal").write_text("level=info msg=0123456789\n" * 50_000)
        _, files = written(tmp_path, settings(tmp_path), here)

        assert len(files["log.txt"].encode()) <= FILE_BYTES_MAX
        assert files["log.txt"].endswith(f"msg=0123456789\n… truncated: a file holds at most {FILE_BYTES_MAX} bytes\n")
        assert "log.txt: " in files["contents.txt"]

    def test_size_of_the_whole_is_bounded(self, tmp_path: Path) -> None:
        """The last of five files of 1 MiB each is truncated."""
        here = machine(tmp_path, **{f"NAME_{number:0900}": "" for number in range(1_200)})
        (here.root / "journal").write_text("level=info msg=0123456789\n" * 50_000)
        (here.root / "dev/kmsg").write_text("".join(f"6,1,2,-;bpf {n} {'-' * 5_000}\n" for n in range(300)))
        (here.root / "proc/self/cgroup").write_text(f"0::/{'/slice' * 150}\n" * 1_100)
        _, files = written(tmp_path, settings(tmp_path), here, (dict(CHECK, found="a " * 500),) * 1_100)
        contents = files.pop("contents.txt")

        assert sum(len(text.encode()) for text in files.values()) <= TOTAL_BYTES_MAX
        assert len(files["checks.json"].encode()) > FILE_BYTES_MAX - 2_000
        assert len(files["kernel-log.txt"].encode()) < 100_000
        assert "kernel-log.txt: " in contents


class TestPath:
    def test_existing_file_is_not_overwritten(self, tmp_path: Path) -> None:
        path = tmp_path / "there"
        path.write_text("mine")
        with pytest.raises(BadInput) as raised:
            BundleFile(path)

        assert raised.value.one_line() == f"--support-bundle: {path} exists; remove it, or choose another name"
        assert path.read_text() == "mine"

    def test_link_is_not_followed(self, tmp_path: Path) -> None:
        path = tmp_path / "link"
        path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(BadInput, match="exists"):
            BundleFile(path)

        assert not (tmp_path / "elsewhere").exists()

    def test_missing_directory_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput) as raised:
            BundleFile(tmp_path / "gone" / "bundle")

        assert (
            raised.value.one_line() == f"--support-bundle: no directory {tmp_path}/gone; create it, or choose another"
        )

    def test_path_with_a_null_byte_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="cannot write"):
            BundleFile(tmp_path / "a\0b")

    def test_only_the_owner_may_read_the_file(self, tmp_path: Path) -> None:
        written(tmp_path, settings(tmp_path), machine(tmp_path))

        assert (tmp_path / "bundle.tar.gz").stat().st_mode & 0o777 == 0o600

    def test_file_is_removed_if_nothing_was_written(self, tmp_path: Path) -> None:
        path = tmp_path / "bundle"
        with pytest.raises(KeyboardInterrupt), BundleFile(path):
            raise KeyboardInterrupt

        assert not path.exists()


def _planted_in(text: str) -> str:
    """The surroundings of the first planted word; "" for none."""
    at = max(text.find("planted"), text.find("cGxhbnRlZ"), text.find(HASH))
    return text[max(at - 40, 0) : at + 60] if at >= 0 else ""
