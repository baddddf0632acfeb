"""Charts, rendered by Helm, and objects as Kubernetes' own code judges them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.partners import need_partner
from tests.support.chart import CHART


def verdict(manifests: str) -> tuple[bool, list[str]]:
    """Whether the API server's code accepts the objects, and its message for each."""
    done = subprocess.run(
        [need_partner("manifests")], input=manifests, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.returncode == 0, done.stdout.splitlines()


def templated(
    values: str, *, release: str = "gpu", chart: Path = CHART, namespace: str = "monitoring"
) -> subprocess.CompletedProcess[str]:
    """`helm template` with these values."""
    return _helm(values, "template", release, chart, f"--namespace={namespace}")


def notes(values: str) -> str:
    """What Helm prints after an installation with these values as the release `gpu`; fails if it refuses them."""
    done = _helm(values, "install", "gpu", CHART, "--namespace=monitoring", "--dry-run=client")
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("\nNOTES:\n")[2]


def _helm(values: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [need_partner("helm"), *arguments, "--values=-"],
        input=values,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def accepted(
    values: str, *, release: str = "gpu", chart: Path = CHART, namespace: str = "monitoring"
) -> dict[str, Any]:
    """Kind -> the object that the chart makes; fails if Helm or Kubernetes refuses anything."""
    done = templated(values, release=release, chart=chart, namespace=namespace)
    assert done.returncode == 0, done.stderr
    taken, said = verdict(done.stdout)
    assert taken, said
    return {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one}


def refusal(values: str, *, chart: Path = CHART) -> str:
    """Helm's message; fails if the values are accepted."""
    done = templated(values, chart=chart)
    assert done.returncode != 0, done.stdout
    return done.stderr


def at(objects: dict[str, Any], place: str) -> Any:
    """What stands at "KIND PATH", None if nothing does."""
    kind, _, path = place.partition(" ")
    found: Any = objects.get(kind)
    for key in _keys(path):
        of_list = isinstance(found, list)
        found = dict(enumerate(found)).get(int(key)) if of_list else (found or {}).get(key)
    return found


def _keys(path: str) -> Iterator[str]:
    """Keys of a JSON pointer."""
    return (key.replace("~1", "/") for key in path.split("/")[1:])
