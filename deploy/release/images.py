"""Pins every image in a copy of deploy/ by its digest: a tag may be moved to another image, a digest cannot.

In: a copy of deploy/, and the digest of each image. Out: the same files with `name@sha256:…`. It runs after the images
are pushed, since only then their digests are known: `python -m deploy.release.images FOLDER NAME=sha256:… …`
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from deploy.release.tree import NotPossible

CHART_VALUES: Final = "helm/gpu-stall-exporter/values.yaml"
DOCKERFILE: Final = "docker/Dockerfile"
COMPOSE: Final = "compose/compose.yaml"
MANIFESTS: Final = (
    "kustomize/base/daemon-set.yaml",
    "kustomize/components/serve/daemon-set.yaml",
    "kustomize/overlays/sidecar/sidecar.yaml",
)
EXPORTER: Final = "gpu-stall-exporter"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_REFERENCE: Final = r"(?P<name>[a-z0-9][a-z0-9./_-]*)(?::[A-Za-z0-9._-]+)?(?:@sha256:[0-9a-f]{64})?"
_PATTERNS: Final = {
    DOCKERFILE: re.compile(rf"^(?P<before>ARG BASE=){_REFERENCE}(?P<after>)$", re.MULTILINE),
    COMPOSE: re.compile(rf"^(?P<before> +image: \$\{{\w+:-){_REFERENCE}(?P<after>\}})$", re.MULTILINE),
    **dict.fromkeys(MANIFESTS, re.compile(rf"^(?P<before> +(?:- )?image: ){_REFERENCE}(?P<after>)$", re.MULTILINE)),
}


def references(deploy: Path) -> Iterator[tuple[str, str]]:
    """File and name of every image that the release pins, the chart's included."""
    for file, pattern in _PATTERNS.items():
        for found in pattern.finditer((deploy / file).read_text(encoding="utf-8")):
            yield file, found["name"]
    yield CHART_VALUES, EXPORTER


def pin(deploy: Path, digests: Mapping[str, str]) -> None:
    """Raises NotPossible, before anything is written, for an image without a digest and a digest that is none."""
    for name, digest in digests.items():
        if not _DIGEST.fullmatch(digest):
            raise NotPossible(f"{digest!r} of {name} is not a digest: want sha256: and 64 hexadecimal digits")
    if missing := sorted({name for _, name in references(deploy)} - digests.keys()):
        raise NotPossible(f"no digest given for {', '.join(missing)}")
    for file, pattern in _PATTERNS.items():
        path = deploy / file
        text = path.read_text(encoding="utf-8")
        path.write_text(
            pattern.sub(lambda one: f"{one['before']}{one['name']}@{digests[one['name']]}{one['after']}", text),
            encoding="utf-8",
        )
    values = deploy / CHART_VALUES
    text = values.read_text(encoding="utf-8")
    values.write_text(
        re.sub(r'^  digest: ".*"$', f'  digest: "{digests[EXPORTER]}"', text, count=1, flags=re.MULTILINE),
        encoding="utf-8",
    )


def main() -> int:
    """Returns 0, or 1 after an error message."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release.images", description=__doc__)
    parser.add_argument("folder", type=Path, help="a copy of deploy/, which is changed")
    parser.add_argument("digests", nargs="+", metavar="NAME=DIGEST", help="such as prom/prometheus=sha256:…")
    arguments = parser.parse_args()
    try:
        pin(arguments.folder, dict(one.partition("=")[::2] for one in arguments.digests))
    except NotPossible as error:
        print(f"deploy.release.images: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
