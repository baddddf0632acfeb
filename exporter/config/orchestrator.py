"""Who is asked what containers are called: the settings of Kubernetes and ECS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exporter.config import settings
from exporter.config.settings import Setting

KINDS = ("auto", "kubernetes", "kubelet", "ecs", "ecs-agent", "none")
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """kind: one of KINDS. url: "" for where it usually is. ca_file, token_file: of a service account; they need not be there."""

    kind: str
    url: str
    ca_file: Path
    token_file: Path
    is_verified: bool


def _url(text: str) -> str:
    parts = urlsplit(text)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise ValueError("want a URL such as https://10.96.0.1:443")
    return text.rstrip("/")


SETTINGS = (
    Setting(
        "orchestrator.kind",
        "auto",
        settings.one_of(*KINDS),
        "KIND",
        "who is asked for the names of pods and containers: kubernetes (its API server), kubelet, ecs (our own task), ecs-agent"
        " (all tasks of the machine); auto finds out whether we run in a pod or a task; none: containers have ids for names",
    ),
    Setting("orchestrator.url", "", _url, "URL", "where to ask, if not where it usually is"),
    Setting(
        "orchestrator.ca-file",
        f"{_SERVICE_ACCOUNT}/ca.crt",
        settings.absolute_path,
        "FILE",
        "authority of its certificate; if there is no such file, the system's",
    ),
    Setting(
        "orchestrator.token-file",
        f"{_SERVICE_ACCOUNT}/token",
        settings.absolute_path,
        "FILE",
        "token of a service account that may list and watch pods; read anew whenever it is asked",
    ),
    Setting(
        "orchestrator.verify",
        "true",
        settings.switch,
        "BOOL",
        "check the certificate; a kubelet's is often signed by nobody",
    ),
)


def orchestrator(values: Mapping[str, Any]) -> Orchestrator:
    """Of the values of all flags."""
    return Orchestrator(
        values["orchestrator.kind"],
        values["orchestrator.url"] or "",
        values["orchestrator.ca-file"],
        values["orchestrator.token-file"],
        values["orchestrator.verify"],
    )
