"""The five labels and the process of a record. Attributes of the record come first, then those of its resource."""

from __future__ import annotations

from typing import Final

from exporter.catalog import COMMON_LABELS
from exporter.cluster.plain_records import Attributes
from exporter.text import untrusted

INT64_MAX: Final = (1 << 63) - 1
_PID_MAX: Final = 1 << 22
"""PID_MAX_LIMIT of the kernel."""
_IN_RESOURCE: Final = ("host.name", "gpustall.rank", "container.id", "k8s.namespace.name", "k8s.pod.name")
"""In the order of COMMON_LABELS."""


def labels_of(attributes: Attributes, resource: Attributes) -> tuple[str, str, str, str, str]:
    """node, rank, container, namespace and pod. Raises Untrusted."""
    node, rank, container, namespace, pod = (
        untrusted.text(attributes.get(label) or resource.get(name, ""))
        for label, name in zip(COMMON_LABELS, _IN_RESOURCE, strict=True)
    )
    return node, rank, container, namespace, pod


def pid_of(attributes: Attributes) -> int:
    """0 if it is not known. Raises Untrusted."""
    return untrusted.count(attributes.get("process.pid", 0), _PID_MAX)
