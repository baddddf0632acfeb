"""A systemd with the unit file that we ship, in namespaces of its own, on an overlay of this machine's root file system."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import gpustall_standin as standin
from tests.support import sweep
from tests.support.named_cgroup import hierarchies
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

ROOT = Path(__file__).parents[2]
SERVICE = "gpu-stall-exporter"
UNIT = ROOT / "deploy/systemd/gpu-stall-exporter.service"
_SYSTEMD = "/lib/systemd/systemd"
_LOG = "/run/exporter.log"
CHECKOUT, PYTHON, STANDIN = Path("/opt/checkout"), Path("/opt/python"), Path("/opt/standin")
"""Inside: the checkout, the environment of the running Python, and the stand-in's libraries and programs."""
# The overlay keeps systemd's own services, which clean /tmp and /var, away from the files of this machine. /tmp, /run and /home
# are not those of this machine either: what the unit and the tests need is mounted at a place of its own.
_BOOT = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs {folder}
cd {folder}
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work root
cd root
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs tmpfs sys/fs/cgroup
mount -t cgroup2 none sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p run/lock run/systemd/system/{service}.service.d usr/local/bin etc/default var/lib .{checkout} .{python} .{standin}
mount --bind {checkout_here} .{checkout}
mount --bind {python_here} .{python}
mount --bind {standin_here} .{standin}
rm -rf var/lib/{service}
cp {unit} run/systemd/system
printf '%s\\n' '[Unit]' 'Requires={service}.service' 'DefaultDependencies=no' > run/systemd/system/for-tests.target
printf '%s\\n' '[Service]' 'StandardError=append:{log}' {settings} > run/systemd/system/{service}.service.d/tests.conf
echo OPTIONS={options} > etc/default/{service}
printf '%s\\n' '#!/bin/sh' 'cd {checkout}' 'exec {python}/bin/python -m exporter "$@"' > usr/local/bin/{service}
chmod +x usr/local/bin/{service}
export container=tests
exec chroot . {systemd} --system --unit=for-tests.target --log-target=console
"""


# The groups that systemd makes are in one of the tests'.
_UNSHARE = "unshare --pid --mount --uts --ipc --cgroup --fork --kill-child"


@dataclass(frozen=True)
class Machine:
    """tgid: of its systemd, in the PID namespace of the tests."""

    tgid: int

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside, to its end."""
        return subprocess.run(
            [*self.inside(), *command], check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )

    def inside(self) -> tuple[str, ...]:
        """The beginning of a command line that runs inside."""
        return ("nsenter", f"--target={self.tgid}", "--pid", "--mount", "--uts", "--ipc", "--cgroup", "--root", "--wd")

    def show(self, name: str) -> str:
        """A property of the service."""
        return self.run("systemctl", "show", "--value", f"--property={name}", SERVICE).stdout.strip()

    @property
    def logs(self) -> str:
        """What the exporter has logged."""
        return self.run("cat", _LOG).stdout

    @property
    def url(self) -> str:
        """URL of the metrics of the exporter that was started last."""
        return re.findall(r"serving (http://\S+?)\"", self.logs)[-1]


@contextmanager
def booted(*settings: str) -> Iterator[Machine]:
    """A machine whose service is active. settings: of its [Service] section, over those of the unit: "WatchdogSec=3"."""
    with tempfile.TemporaryDirectory() as folder, sweep.group_tree(hierarchies()["v2"], "systemd") as group:
        script = _BOOT.format(
            folder=folder,
            service=SERVICE,
            unit=UNIT,
            settings=" ".join(map(shlex.quote, settings)),
            options="--web.listen-address=127.0.0.1:0",
            checkout=CHECKOUT,
            checkout_here=shlex.quote(str(ROOT)),
            python=PYTHON,
            python_here=shlex.quote(sys.prefix),
            standin=STANDIN,
            standin_here=shlex.quote(str(standin.build_dir())),
            log=_LOG,
            systemd=_SYSTEMD,
        )
        log = Path(folder).with_suffix(".log")
        with log.open("w") as to:
            boot = subprocess.Popen(
                ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec {_UNSHARE} sh -c "$0"', script],
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=to,
                start_new_session=True,
            )
        try:
            machine = _machine(boot, log)
            # systemd hands controllers down to the groups within, which it cannot while a process is in the outermost one.
            (group.parent / "cgroup.procs").write_text(str(boot.pid))
            yield machine
        finally:
            boot.kill()
            boot.wait()
            log.unlink()


def _machine(boot: subprocess.Popen[bytes], log: Path) -> Machine:
    def child() -> int:
        assert boot.poll() is None, log.read_text()
        found = Path(f"/proc/{boot.pid}/task/{boot.pid}/children").read_text().split()
        return int(found[0]) if found and Path(f"/proc/{found[0]}/comm").read_text() == "systemd\n" else 0

    machine = Machine(eventually(child, "systemd runs"))
    try:
        eventually(lambda: machine.show("ActiveState") == "active", "the service is active")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()}\n{machine.logs}") from None
    return machine
