"""A machine of two CPUs, emulated, that boots a kernel with this machine's user space and runs one command in it.

In: an unpacked kernel package and a command. Out: the command's output, live, and its exit status. The guest has this machine's
files, read-only: its writes go to a disk that is deleted afterwards.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kernels import initramfs
from tests.kernels.packages import NotHere, unpacked

MEMORY_MIB = 3072
DISK_BYTES = 4 << 30
LIMIT_SECONDS = 3600
INIT = Path(__file__).with_name("init")

# rcu_expedited: otherwise each of the hundreds of perf events of single probes takes 0.1 s to remove. tsc=reliable: the clock
# that the kernel would compare it with is emulated as well, and slower.
COMMAND_LINE = "console=ttyS0 quiet panic=-1 rcupdate.rcu_expedited=1 mitigations=off tsc=reliable"


def run(
    kernel: Path,
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    boot_with: str = "",
    cpus: str = "2",
) -> int:
    """Boot, run `command` in `folder`, power off. Returns its exit status. Raises NotHere if the guest does not get that far.

    boot_with: added to the kernel's command line, such as `lockdown=integrity`. cpus: as for -smp of QEMU: `2,maxcpus=128`.
    """
    with tempfile.TemporaryDirectory() as temporary:
        initrd, disk, status = (Path(temporary, name) for name in ("initramfs", "disk", "status"))
        initrd.write_bytes(_initramfs(kernel, command, folder, environment))
        _make_disk(disk)
        (image,) = (kernel / "boot").glob("vmlinuz-*")
        try:
            subprocess.run(
                _qemu(image, initrd, disk, status, boot_with=boot_with, cpus=cpus),
                stdin=subprocess.DEVNULL,
                check=True,
                timeout=LIMIT_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise NotHere(f"the guest did not end within {LIMIT_SECONDS} s") from error
        except subprocess.CalledProcessError as error:
            raise NotHere(f"the emulator ended with exit status {error.returncode}") from error
        result = status.read_text(encoding="ascii").strip() if status.exists() else ""
        if not result.isdigit():
            raise NotHere("the guest ended without an exit status of its tests: see above")
        return int(result)


def _initramfs(kernel: Path, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bytes:
    busybox = unpacked("busybox-static", lambda path: path.name == "busybox") / "bin/busybox"
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
    job = f"{exports}cd {shlex.quote(str(folder))} && {shlex.join(command)} </dev/null\n"
    job += "echo $? >/dev/ttyS1\necho o >/proc/sysrq-trigger\nwhile :; do :; done\n"
    return initramfs.archive(
        {
            "init": (0o755, INIT.read_bytes()),
            "bin/busybox": (0o755, busybox.read_bytes()),
            "job": (0o644, job.encode()),
            **{f"modules/{i:02}": (0o644, content) for i, content in enumerate(initramfs.modules(kernel))},
        }
    )


def _make_disk(path: Path) -> None:
    tool = shutil.which("mke2fs", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if tool is None:
        raise NotHere("mke2fs is not installed")
    with path.open("wb") as disk:
        disk.truncate(DISK_BYTES)
    subprocess.run([tool, "-q", "-t", "ext4", "-E", "lazy_itable_init=1", path], check=True)


def _qemu(image: Path, initrd: Path, disk: Path, status: Path, *, boot_with: str, cpus: str) -> list[str | Path]:
    if shutil.which("qemu-system-x86_64") is None:
        raise NotHere("qemu-system-x86_64 is not installed")
    return [
        *("qemu-system-x86_64", "-accel", "tcg,thread=multi"),
        *("-cpu", "max", "-smp", cpus, "-m", str(MEMORY_MIB), "-no-reboot", "-nodefaults", "-display", "none"),
        *("-kernel", image, "-initrd", initrd, "-append", f"{COMMAND_LINE} {boot_with}".rstrip()),
        *("-virtfs", "local,path=/,mount_tag=machine,security_model=none,readonly=on,multidevs=remap"),
        *("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"),
        *("-serial", "stdio", "-serial", f"file:{status}"),
    ]
