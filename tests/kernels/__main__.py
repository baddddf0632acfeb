"""Runs the tests of TESTS in each kernel of KERNELS: `make test-kernels`.

In: flags, see --help; unknown ones go to the guest's pytest. Out: pytest's output, live, and an exit status.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.kernels import KERNELS, TESTS, initramfs, machine
from tests.kernels.packages import CACHE, NotHere, kernel_package, unpacked
from tests.support import newer_compiler

ROOT = Path(__file__).parent.parent.parent


def _run(version: str, tests: list[str], boot_with: str, cpus: str) -> int:
    kernel = unpacked(kernel_package(version), initramfs.is_needed, initramfs.EDITION)
    print(f"kernels: booting {kernel.name} {boot_with}".rstrip(), flush=True)
    begin = time.monotonic()
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "COLUMNS") if name in os.environ}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not (hardware_speed or soak)", *tests]
    environment |= {"PYTHONUNBUFFERED": "1"}
    with ExitStack() as stack:
        if shutil.which(newer_compiler.COMPILER):
            objects = stack.enter_context(tempfile.TemporaryDirectory(dir=CACHE))
            newer_compiler.build(Path(objects))
            environment[newer_compiler.FOLDER] = objects
        status = machine.run(kernel, command, ROOT, environment, boot_with=boot_with, cpus=cpus)
    print(f"kernels: {kernel.name}: exit status {status} after {time.monotonic() - begin:.0f} s", flush=True)
    return status


def main() -> int:
    """Returns the exit status: 0 if every test passed in every kernel."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels", description="Run tests in other kernels.")
    parser.add_argument("--kernel", help=f"a version or a package of Debian's, instead of {', '.join(KERNELS)}")
    parser.add_argument("--boot-with", help="added to the kernel's command line, instead of what each test needs")
    parser.add_argument("--cpus", default="2", help="as for QEMU's -smp: 2,maxcpus=128 [2]")
    flags, wanted = parser.parse_known_args()
    if any(not word.startswith("-") for word in wanted):
        boots = [(flags.boot_with or "", wanted)]
    elif flags.boot_with is not None:
        boots = [(flags.boot_with, [*TESTS[""], *wanted])]
    else:
        boots = [(boot_with, [*tests, *wanted]) for boot_with, tests in TESTS.items()]
    if platform.machine() != "x86_64":
        print("kernels: skipped: the emulated machine is x86-64, and runs this machine's programs")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # also ends the emulator
    try:
        return max(
            _run(version, tests, boot_with, flags.cpus)
            for version in ((flags.kernel,) if flags.kernel else KERNELS)
            for boot_with, tests in boots
        )
    except NotHere as reason:
        print(f"kernels: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
