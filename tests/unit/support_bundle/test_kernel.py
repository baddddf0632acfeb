"""support_bundle.kernel: what decides whether BPF programs load, from files of the machine."""

from __future__ import annotations

import gzip
import platform
from pathlib import Path

from exporter.support_bundle.kernel import kernel, kernel_log
from exporter.support_bundle.machine import Machine


def machine(root: Path, **files: bytes) -> Machine:
    """files: name with __ for / -> content."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return Machine(root, {})


class TestKernel:
    def test_sysctls_and_security_modules_are_read(self, tmp_path: Path) -> None:
        found = kernel(
            machine(
                tmp_path,
                proc__sys__kernel__unprivileged_bpf_disabled=b"2\n",
                sys__kernel__security__lsm=b"capability,yama,bpf\n",
                sys__kernel__btf__vmlinux=bytes(77),
            )
        )

        assert found["sysctls"]["kernel.unprivileged_bpf_disabled"] == "2"
        assert (found["security_modules"], found["btf_bytes"]) == ("capability,yama,bpf", 77)

    def test_missing_file_is_a_reason(self, tmp_path: Path) -> None:
        found = kernel(machine(tmp_path))

        assert found["lockdown"] == "cannot be read: No such file or directory"
        assert found["btf_bytes"] is None


class TestOptions:
    def test_only_options_about_bpf_are_included(self, tmp_path: Path) -> None:
        """An option that is not set has no line of its own kind."""
        config = gzip.compress(b"CONFIG_BPF=y\nCONFIG_USB=y\n# CONFIG_UPROBES is not set\nCONFIG_HZ=1000\n")
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/config.gz").write_bytes(config)

        assert kernel(Machine(tmp_path, {}))["options"] == {"CONFIG_BPF": "y", "CONFIG_HZ": "1000"}

    def test_file_in_boot_is_read_where_proc_has_none(self, tmp_path: Path) -> None:
        (tmp_path / "boot").mkdir()
        (tmp_path / f"boot/config-{platform.release()}").write_text("CONFIG_UPROBES=y\n")

        assert kernel(Machine(tmp_path, {}))["options"] == {"CONFIG_UPROBES": "y"}

    def test_missing_options_are_a_reason(self, tmp_path: Path) -> None:
        assert kernel(Machine(tmp_path, {}))["options"].startswith("cannot be read: neither /proc/config.gz nor")


class TestLog:
    def log_of(self, root: Path, *records: str) -> str:
        return kernel_log(machine(root, dev__kmsg="".join(f"{record}\n" for record in records).encode()))

    def test_only_lines_about_bpf_and_probes_are_included(self, tmp_path: Path) -> None:
        """With seconds since boot."""
        assert (
            self.log_of(
                tmp_path,
                "6,1,73615541702,-;uprobe: failed to unregister, leaking uprobe",
                "6,2,5,-;usb 1-1: new device",
            )
            == "[73615.541702] uprobe: failed to unregister, leaking uprobe\n"
        )

    def test_line_that_repeats_stands_once(self, tmp_path: Path) -> None:
        """With the number and the last time; another line in between ends the repetition."""
        records = [f"6,{number},{number}000000,-;bpf: denied" for number in (1, 2, 3)]

        assert self.log_of(tmp_path, *records, "6,4,4000000,-;lockdown: on", "6,5,5000000,-;bpf: denied") == (
            "[1.000000] bpf: denied (3 times, until 3.000000)\n[4.000000] lockdown: on\n[5.000000] bpf: denied\n"
        )

    def test_log_without_such_lines_has_one_about_it(self, tmp_path: Path) -> None:
        assert self.log_of(tmp_path, "6,2,5,-;usb 1-1: new device") == "no lines about BPF or probes\n"
