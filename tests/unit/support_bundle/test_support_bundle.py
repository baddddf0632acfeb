"""The bundle as a whole: what is in it, what is never in it, what happens when something fails."""

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
from exporter.output.own_metrics import OwnMetrics
from exporter.output.web.pages import Pages
from exporter.support_bundle import FOLDER, MEMBER_BYTES_MAX, TOTAL_BYTES_MAX, BundleFile, Written
from exporter.support_bundle.machine import Machine
from tests.support.records import point, snapshot_of
from tests.support.web_server import serving
from tests.unit.config.command_line import loaded

MEMBERS = {
    "contents.txt",
    "findings.json",
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
FINDING = {"subject": "kernel", "state": "ok", "detail": "6.18.0", "remedy": "", "symbols": []}
HASH = "$2y$10$abcdefghijklmnopqrstuuWGkzHQ8TsBQyNDbGMQXwCZKtFBUuCi6"
SNAPSHOT = snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaMalloc"))
JOURNAL = """\
ts=1 level=info msg="attached to /home/plantedalice/venv/libcudart.so.12: 54 functions"
ts=2 level=warning msg="chain opened: lost to plantedculprit" commands="kill plantedcommand"
{"ts": "3", "level": "warning", "msg": "chain opened: lost to plantedculprit"}
ts=4 level=error msg="push failed: Authorization: Bearer plantedinlog"
"""


class FakeMachine(Machine):
    """A tree of files; programs and web servers answer as told."""

    def output_of(self, command: Any) -> str:
        """What the journal has."""
        assert command[0] == "journalctl"
        return (self.root / "journal").read_text()


def machine(folder: Path, **environment: str) -> FakeMachine:
    """A machine with little on it."""
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
    """Of `run`, with an empty /proc for libraries."""
    (folder / "proc").mkdir(exist_ok=True)
    return loaded(f"--path.procfs={folder}/proc", "--web.listen-address=127.0.0.1:0", *flags, **environment)


def written(
    folder: Path, config: Config, on: Machine, findings: tuple[Mapping[str, Any], ...] = (FINDING,)
) -> tuple[Written, dict[str, str]]:
    """What is said of the bundle, and its members."""
    path = folder / "bundle.tar.gz"
    with BundleFile(path) as place:
        told = place.write(config, findings, "1.2.3", on)
    with tarfile.open(path) as archive:
        return told, {
            member.name.removeprefix(f"{FOLDER}/"): archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }


class TestWhatIsInIt:
    """What a bug report needs."""

    def test_every_part_has_a_member(self, tmp_path: Path) -> None:
        """But for one that could not be had: nothing serves here."""
        told, members = written(tmp_path, settings(tmp_path), machine(tmp_path))

        assert set(members) == MEMBERS - {"metrics.txt"}
        assert told.failures == ("metrics.txt: OSError: no address has a fixed port",)

    def test_findings_are_those_of_check(self, tmp_path: Path) -> None:
        """As JSON."""
        _, members = written(tmp_path, settings(tmp_path), machine(tmp_path))

        assert json.loads(members["findings.json"]) == [FINDING]

    def test_kernel_is_told_as_far_as_it_matters(self, tmp_path: Path) -> None:
        """Of its options and lines of its log those about BPF."""
        _, members = written(tmp_path, settings(tmp_path), machine(tmp_path))
        kernel = json.loads(members["kernel.json"])

        assert kernel["options"] == {"CONFIG_BPF": "y"}
        assert kernel["sysctls"]["kernel.unprivileged_bpf_disabled"] == "2"
        assert kernel["security_modules"] == "capability,yama,bpf"
        assert kernel["lockdown"] == "cannot be read: No such file or directory"
        assert members["kernel-log.txt"] == "[73615.541702] uprobe: failed to unregister, leaking uprobe\n"

    def test_rights_and_cgroups_are_told(self, tmp_path: Path) -> None:
        """Of the path of the own group its form."""
        _, members = written(tmp_path, settings(tmp_path), machine(tmp_path))

        assert json.loads(members["machine.json"])["rights"]["CapEff"] == "000000c000080004"
        assert json.loads(members["cgroups.json"]) == {
            "mounts": [{"at": "/sys/fs/cgroup", "type": "cgroup2", "options": "rw,nsdelegate"}],
            "controllers": "cannot be read: No such file or directory",
            "own": ["0::/user.slice/….slice/docker-<id>.scope"],
        }

    def test_exporter_that_runs_here_is_asked(self, tmp_path: Path) -> None:
        """Names in what it serves are replaced."""
        pages = Pages(lambda: SNAPSHOT, OwnMetrics(), lambda: True, with_exporter_metrics=False)
        with serving(pages) as (host, port):
            _, members = written(tmp_path, settings(tmp_path, f"--web.listen-address={host}:{port}"), machine(tmp_path))

        assert 'pod="",api="runtime",operation="cudaMalloc"} 12\n' in members["metrics.txt"]
        assert 'node="name-1"' in members["metrics.txt"]

    def test_what_another_program_serves_is_not_quoted(self, tmp_path: Path) -> None:
        """It may be anything."""
        nothing = replace(SNAPSHOT, families=())
        pages = Pages(lambda: nothing, OwnMetrics(), lambda: True, with_exporter_metrics=False)
        with serving(pages) as (host, port):
            told, members = written(
                tmp_path, settings(tmp_path, f"--web.listen-address={host}:{port}"), machine(tmp_path)
            )

        assert "metrics.txt" not in members
        assert told.failures == (f"metrics.txt: OSError: what answers at {host}:{port} is no gpu-stall-exporter",)


class TestWhatIsNeverInIt:
    """Secrets are planted wherever there can be some; none of the words may be found."""

    def test_no_word_of_them_is_in_any_member(self, tmp_path: Path) -> None:
        """Headers, users of URLs, keys in paths and queries, the web configuration, tokens, the environment, findings, logs."""
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
        finding = dict(
            FINDING,
            detail="https://u:plantedinurl@h/ said plantedheader, planted other, plantedquery, cGxhbnRlZHVzZXI6cGxhbnRlZHBhc3M=,"
            f" plantedpass, planted%20other, plantedtoken.of.an.account, {HASH}, plantedkeyline2, plantedvariable,"
            " /home/plantedbob/lib.so, user=plantedcarol, password: plantedword, by plantedalice and plantedbasic",
        )
        here = machine(tmp_path, **environment)
        (here.root / "journal").write_text(JOURNAL)
        told, members = written(
            tmp_path,
            settings(
                tmp_path,
                f"--config.file={config}",
                f"--web.config.file={web}",
                f"--orchestrator.token-file={token}",
                **environment,
            ),
            here,
            (finding,),
        )

        assert {name: word for name, text in members.items() for word in [_planted_in(text)] if word} == {}
        assert _planted_in(told.one_line()) == ""
        assert set(members) == MEMBERS - {"metrics.txt"}

    def test_of_the_environment_are_names(self, tmp_path: Path) -> None:
        """And few values that can only be ordinary."""
        _, members = written(tmp_path, settings(tmp_path), machine(tmp_path, LANG="C.UTF-8", MY_KEY="abc"))

        assert json.loads(members["environment.json"]) == {"LANG": "C.UTF-8", "MY_KEY": "set"}

    def test_of_the_web_configuration_are_keys(self, tmp_path: Path) -> None:
        """And how many users there are."""
        web = tmp_path / "web.yml"
        web.write_text(f"basic_auth_users:\n  ann: {HASH}\n  bob: {HASH}\nrate_limit:\n  interval: 1s\n  burst: 5\n")
        _, members = written(tmp_path, settings(tmp_path, f"--web.config.file={web}"), machine(tmp_path))

        assert json.loads(members["configuration.json"])["web_config_file"] == {
            "basic_auth_users": 2,
            "rate_limit": ["burst", "interval"],
        }

    def test_broken_web_configuration_is_not_quoted(self, tmp_path: Path) -> None:
        """Not even by what `check` says of it."""
        web = tmp_path / "web.yml"
        web.write_text("basic_auth_users:\n  plantedann: one\n  plantedann: two\n")
        finding = dict(FINDING, detail="web.yml: the key 'plantedann' stands twice (line 3)")
        _, members = written(tmp_path, settings(tmp_path, f"--web.config.file={web}"), machine(tmp_path), (finding,))

        assert {name for name, text in members.items() if _planted_in(text)} == set()
        assert json.loads(members["configuration.json"])["web_config_file"] == "cannot be read: ValueError"

    def test_member_belongs_to_nobody(self, tmp_path: Path) -> None:
        """An archive has names of users too."""
        written(tmp_path, settings(tmp_path), machine(tmp_path))
        with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
            owners = {(member.uid, member.gid, member.uname, member.gname) for member in archive.getmembers()}

        assert owners == {(0, 0, "", "")}


class TestFailures:
    """What cannot be had costs itself, and nothing else."""

    def test_part_that_fails_leaves_a_line(self, tmp_path: Path) -> None:
        """The others are there."""
        here = machine(tmp_path)
        (here.root / "dev/kmsg").unlink()
        told, members = written(tmp_path, settings(tmp_path), here)

        assert set(members) == MEMBERS - {"metrics.txt", "kernel-log.txt"}
        assert "kernel-log.txt: FileNotFoundError: [Errno 2] No such file or directory" in members["contents.txt"]
        assert told.one_line().startswith(f"{tmp_path}/bundle.tar.gz: ")
        assert ", without metrics.txt, kernel-log.txt; " in told.one_line()

    def test_long_member_is_cut_and_says_so(self, tmp_path: Path) -> None:
        """At a whole line."""
        here = machine(tmp_path)
        (here.root / "journal").write_text("level=info msg=0123456789\n" * 50_000)
        _, members = written(tmp_path, settings(tmp_path), here)

        assert len(members["log.txt"].encode()) <= MEMBER_BYTES_MAX
        assert members["log.txt"].endswith(
            f"msg=0123456789\n… cut here: a member holds at most {MEMBER_BYTES_MAX} bytes\n"
        )
        assert "log.txt: " in members["contents.txt"]

    def test_all_of_it_is_bounded(self, tmp_path: Path) -> None:
        """What does not fit is cut, the least telling first; five members of a MiB each want to be in here."""
        here = machine(tmp_path, **{f"NAME_{number:0900}": "" for number in range(1_200)})
        (here.root / "journal").write_text("level=info msg=0123456789\n" * 50_000)
        (here.root / "dev/kmsg").write_text("".join(f"6,1,2,-;bpf {n} {'-' * 5_000}\n" for n in range(300)))
        (here.root / "proc/self/cgroup").write_text(f"0::/{'/slice' * 150}\n" * 1_100)
        _, members = written(tmp_path, settings(tmp_path), here, (dict(FINDING, detail="a " * 500),) * 1_100)
        contents = members.pop("contents.txt")

        assert sum(len(text.encode()) for text in members.values()) <= TOTAL_BYTES_MAX
        assert len(members["findings.json"].encode()) > MEMBER_BYTES_MAX - 2_000
        assert len(members["kernel-log.txt"].encode()) < 100_000
        assert "kernel-log.txt: " in contents


class TestPlace:
    """Where it is written."""

    def test_file_that_exists_is_left_alone(self, tmp_path: Path) -> None:
        """Nothing of anybody's is overwritten."""
        path = tmp_path / "there"
        path.write_text("mine")
        with pytest.raises(BadInput) as raised:
            BundleFile(path)

        assert raised.value.one_line() == f"--support-bundle: {path} exists; remove it, or choose another name"
        assert path.read_text() == "mine"

    def test_link_is_not_followed(self, tmp_path: Path) -> None:
        """It counts as a file that exists."""
        path = tmp_path / "link"
        path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(BadInput, match="exists"):
            BundleFile(path)

        assert not (tmp_path / "elsewhere").exists()

    def test_directory_must_be_there(self, tmp_path: Path) -> None:
        """It is not made."""
        with pytest.raises(BadInput) as raised:
            BundleFile(tmp_path / "gone" / "bundle")

        assert (
            raised.value.one_line()
            == f"--support-bundle: there is no directory {tmp_path}/gone; make it, or choose another"
        )

    def test_path_with_a_null_byte_is_one_line(self, tmp_path: Path) -> None:
        """As any other bad input."""
        with pytest.raises(BadInput, match="cannot write"):
            BundleFile(tmp_path / "a\0b")

    def test_file_is_the_owners_alone(self, tmp_path: Path) -> None:
        """Whatever the umask says."""
        written(tmp_path, settings(tmp_path), machine(tmp_path))

        assert (tmp_path / "bundle.tar.gz").stat().st_mode & 0o777 == 0o600

    def test_nothing_is_left_when_nothing_was_written(self, tmp_path: Path) -> None:
        """An empty file would be taken for a bundle."""
        path = tmp_path / "bundle"
        with pytest.raises(KeyboardInterrupt), BundleFile(path):
            raise KeyboardInterrupt

        assert not path.exists()


def _planted_in(text: str) -> str:
    """The surroundings of the first planted word; "" for none."""
    at = max(text.find("planted"), text.find("cGxhbnRlZ"), text.find(HASH))
    return text[max(at - 40, 0) : at + 60] if at >= 0 else ""
