"""`make release`: wheels, sources, the Helm chart, a bill of materials, checksums. In: a commit. Out: files in an empty folder.

Everything is built in copies of the tree, so uncommitted and ignored files of this one do not matter.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from deploy.release import agreement, bill, packages, tree

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Returns 0, or 1 after an error message."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("folder", type=Path, help="output folder, created if missing; must be empty")
    parser.add_argument(
        "--allow-dirty", action="store_true", help="use files as they are now, uncommitted ones included"
    )
    arguments = parser.parse_args()
    os.umask(0o022)
    try:
        made = release(arguments.folder, with_uncommitted=arguments.allow_dirty)
    except (tree.NotPossible, agreement.Disagreement) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    for path in made:
        print(f"{path}: {path.stat().st_size:,} bytes")
    return 0


def release(folder: Path, *, with_uncommitted: bool) -> list[Path]:
    """The files of the release, the checksums last."""
    if folder.exists() and any(folder.iterdir()):
        raise tree.NotPossible(f"{folder} is not empty")
    epoch = tree.epoch(ROOT)
    files = tree.files(ROOT, with_uncommitted=with_uncommitted)
    version = agreement.version(ROOT)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="release-") as workshop:
        made = []
        for machine in packages.MACHINES:
            copy = Path(workshop) / machine
            tree.copy(ROOT, files, copy, epoch)
            made += [packages.wheel(copy, folder, machine, epoch), packages.standin_wheel(copy, folder, machine, epoch)]
        copy = Path(workshop) / "sources"
        tree.copy(ROOT, files, copy, epoch)
        made.append(packages.sources(copy, folder, epoch))
        charts = [packages.chart(copy, folder, version, epoch)]
    agreement.check(ROOT, version, made)
    made += charts
    made.append(bill.write(folder, version, made, ROOT / "deploy" / "release" / "runtime.txt", epoch))
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in sorted(made)))
    return [*made, sums]


if __name__ == "__main__":
    sys.exit(main())
