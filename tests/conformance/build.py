"""Builds the programs that check the exporter's output from source: a Collector, Prometheus 3, linters, helm, kustomize and more.

Three are ours: `manifests` is what of Kubernetes' API server looks at an object before it is stored, `compose-file` shows how
Compose reads a file, `proxy-rules` which proxy Go's clients use.

In: folders of their names beside this. Their go.mod and go.sum pin every source by version and checksum.
Out: programs in the user's cache, in folders named after what they were made from, so that nothing is built twice.

To raise a version: in a copy of the folder change it in go.mod (and builder.yaml), remove go.sum and what is indirect, and run
the command below with GOFLAGS=-mod=mod, for the Collector after `go list -deps go.opentelemetry.io/collector/cmd/builder`.
Keep the go.mod and go.sum that this leaves: they list what the build needs and nothing else, which `go mod tidy` would not.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
COMMANDS = {
    "collector": ("go", "tool", "builder", "--config=builder.yaml", "--skip-get-modules"),
    "prometheus": (
        *("go", "build", "-tags=remove_all_sd", "-ldflags=-s -w", "-o=prometheus"),
        "github.com/prometheus/prometheus/cmd/prometheus",
    ),
    "pint": ("go", "build", "-ldflags=-s -w", "-o=pint", "github.com/cloudflare/pint/cmd/pint"),
    "compose-file": ("go", "build", "-ldflags=-s -w", "-o=compose-file", "."),
    "dashboard-linter": ("go", "build", "-ldflags=-s -w", "-o=dashboard-linter", "github.com/grafana/dashboard-linter"),
    "helm": ("go", "build", "-ldflags=-s -w", "-o=helm", "helm.sh/helm/v4/cmd/helm"),
    "kustomize": ("go", "build", "-ldflags=-s -w", "-o=kustomize", "sigs.k8s.io/kustomize/kustomize/v5"),
    "manifests": ("go", "build", "-ldflags=-s -w", "-o=manifests", "."),
    "proxy-rules": ("go", "build", "-ldflags=-s -w", "-o=proxy-rules", "."),
}
"""Partner -> what makes a program of that name in a copy of the folder of that name."""

ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-p=2 -trimpath -buildvcs=false -mod=readonly", "GOWORK": "off"}
LEFT_OUT = 3
"""Exit status: nothing has failed, but there is no Go to build with."""


class NoGo(Exception):
    """No Go toolchain here can build a partner; the text has the reason."""


def program(name: str) -> Path:
    """The path of a partner's program, also before it is built."""
    recipe = hashlib.sha256(repr((COMMANDS[name], ENVIRONMENT, platform.machine())).encode())
    for path in sorted((HERE / name).iterdir()):
        recipe.update(path.name.encode() + b"\0" + path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "gpu-stall-exporter" / "conformance" / f"{name}-{recipe.hexdigest()[:12]}" / name


def need_go(name: str) -> None:
    """Raises NoGo unless the Go toolchain found here is new enough for a partner, or fetches one that is."""
    if shutil.which("go") is None:
        raise NoGo("no Go toolchain on PATH")
    asked = subprocess.run(["go", "env", "GOVERSION"], cwd=HERE / name, capture_output=True, text=True, check=False)
    found = re.search(r"go(\d+)\.(\d+)", asked.stdout)
    wanted = re.search(r"^go (\d+)\.(\d+)", (HERE / name / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    assert wanted is not None
    if asked.returncode != 0 or found is None or tuple(map(int, found.groups())) < tuple(map(int, wanted.groups())):
        said = asked.stdout.strip() or asked.stderr.strip().rpartition("\n")[2]
        raise NoGo(f"{name} needs Go {'.'.join(wanted.groups())} or newer, here is: {said}")


def build(name: str) -> None:
    """Build a partner, unless it is there. Two processes may build it at the same time."""
    wanted = program(name)
    if wanted.exists():
        return
    need_go(name)
    wanted.parent.parent.mkdir(parents=True, exist_ok=True)
    print(f"conformance: building {name} from source, which takes minutes and is done once", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=wanted.parent.parent) as folder:
        shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
        subprocess.run(
            COMMANDS[name], cwd=folder, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=True
        )
        made = Path(folder, "made")
        made.mkdir()
        Path(folder, name).rename(made / name)
        try:
            made.rename(wanted.parent)
        except OSError:
            if not wanted.exists():  # another process may have been faster
                raise
    megabytes = wanted.stat().st_size // 1_000_000
    print(f"conformance: built {name} in {time.monotonic() - begin:.0f} s, {megabytes} MB", flush=True)


def main() -> int:
    """Build what is missing; returns the exit status."""
    try:
        for name in COMMANDS:
            build(name)
    except NoGo as reason:
        print(f"conformance: left out: {reason}")
        return LEFT_OUT
    except subprocess.CalledProcessError as error:
        print(f"{error.stderr}conformance: `{' '.join(error.cmd)}` failed with exit status {error.returncode}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
