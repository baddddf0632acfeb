"""capabilities: those of the calling thread, and that dropped ones do not come back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from exporter.host import capabilities
from exporter.host.capabilities import Capability


def status(name: str) -> str:
    """A line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(name + ":"))


class TestEffective:
    """effective(), has()."""

    def test_mask_is_capeff_of_proc_status(self) -> None:
        assert capabilities.effective() == int(status("CapEff"), 16)

    def test_each_capability_is_one_bit(self) -> None:
        for one in Capability:
            assert capabilities.has(one) == bool(int(status("CapEff"), 16) >> one.value & 1)


class TestKeepOnly:
    """keep_only(), in a process of its own."""

    def test_dropped_capabilities_do_not_come_back(self) -> None:
        """A thread without any keeps none; a set-user-id program that it starts gets none."""
        program = (
            "from exporter.host import capabilities as c\n"
            "c.keep_only([c.Capability.BPF])\n"
            "print(open('/proc/self/status').read())\n"
        )
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        lines = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
        bpf = int(status("CapPrm"), 16) & 1 << Capability.BPF

        assert [int(lines[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")] == [bpf, bpf, 0, 0]
        assert lines["NoNewPrivs"] == "1"
