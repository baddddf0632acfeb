"""Runs the tests of TESTS in each kernel of KERNELS: `make test-kernels`.

In: flags, see --help; unknown ones go to the guest's pytest. Out: pytest's output, live, and an exit status.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from pathlib import Path

from tests.kernels import KERNELS, TESTS, initramfs, machine
from tests.kernels.packages import NotHere, kernel_package, unpacked

ROOT = Path(__file__).parent.parent.parent


def _run(version: str, wanted: list[str]) -> int:
    kernel = unpacked(kernel_package(version), initramfs.is_needed, initramfs.EDITION)
    print(f"kernels: booting {kernel.name}", flush=True)
    begin = time.monotonic()
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "COLUMNS") if name in os.environ}
    tests = wanted if any(not word.startswith("-") for word in wanted) else [*TESTS, *wanted]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not hardware_speed", *tests]
    status = machine.run(kernel, command, ROOT, {**environment, "PYTHONUNBUFFERED": "1"})
    print(f"kernels: {kernel.name}: exit status {status} after {time.monotonic() - begin:.0f} s", flush=True)
    return status


def main() -> int:
    """Returns the exit status: 0 if every test passed in every kernel."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels", description="Run tests in other kernels.")
    parser.add_argument("--kernel", help=f"a version or a package of Debian's, instead of {', '.join(KERNELS)}")
    flags, wanted = parser.parse_known_args()
    if platform.machine() != "x86_64":
        print("kernels: skipped: the emulated machine is x86-64, and runs this machine's programs")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # also ends the emulator
    try:
        return max(_run(version, wanted) for version in ((flags.kernel,) if flags.kernel else KERNELS))
    except NotHere as reason:
        print(f"kernels: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
