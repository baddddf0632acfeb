"""The name and the page of a workload: its URL has the labels that select it, as --workload takes them."""

from __future__ import annotations

from exporter.explain.sums import ProcessSum
from exporter.history.process_names import process_name
from exporter.model import Identity
from exporter.serve.pages.markup import Markup, element
from exporter.serve.pages.span import PageSpan

_LABELS = ("rank", "container", "namespace", "pod", "node")


def selected(identity: Identity, tgid: int) -> str:
    """`pid=4027,rank=3`: the text of a Selection. A label that cannot stand in it is left out."""
    pairs = [(name, getattr(identity, name)) for name in _LABELS]
    known = [f"{name}={value}" for name, value in pairs if value and "," not in value and value == value.strip()]
    return ",".join(([f"pid={tgid}"] if tgid else []) + known)


def name_of(process: ProcessSum) -> str:
    labels = process.labels
    return process_name(labels.identity, labels.tgid, labels.comm)


def workload_link(text: str, identity: Identity, tgid: int, span: PageSpan) -> Markup:
    return element("a", text, href=span.link("workload", workload=selected(identity, tgid)))
