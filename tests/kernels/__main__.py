"""Runs the tests of TESTS in the kernels of KERNELS, one after the other: `make test-kernels`.

In: flags, see --help; what it does not know goes to the guest's pytest. Out: pytest's own words, live, and an exit status.
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
    """Returns the exit status: 0 when every test passed in every kernel."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels", description="Run tests in other kernels.")
    parser.add_argument("--kernel", help=f"a version or a package of Debian's, instead of {', '.join(KERNELS)}")
    flags, wanted = parser.parse_known_args()
    if platform.machine() != "x86_64":
        print("kernels: left out: the guest runs this machine's own programs, and is an x86-64 machine")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without ending the emulator
    try:
        return max(_run(version, wanted) for version in ((flags.kernel,) if flags.kernel else KERNELS))
    except NotHere as reason:
        print(f"kernels: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
