"""Settings of the orchestrator that names containers and pods: Kubernetes or ECS."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from exporter.config.parsers import absolute_path, choice, switch
from exporter.config.setting import setting
from exporter.config.url import http_url

_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class OrchestratorKind(enum.StrEnum):
    """Which API names containers. AUTO: that of the pod or task that the exporter runs in. NONE: containers keep their ids."""

    AUTO = "auto"
    KUBERNETES = "kubernetes"
    KUBELET = "kubelet"
    ECS = "ecs"
    ECS_AGENT = "ecs-agent"
    NONE = "none"


def parse_url(text: str) -> str:
    """The base URL of an API, without a slash at its end."""
    url = http_url(text, example="https://10.96.0.1:443", credentials_flag="--orchestrator.token-file")
    return url.rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorSettings:
    """url: None for the default of this kind. ca_file, token_file: of a service account; they need not exist."""

    kind: OrchestratorKind = setting(
        "orchestrator.kind",
        "auto",
        choice(OrchestratorKind),
        "KIND",
        "source of pod and container names: auto, kubernetes, kubelet, ecs, ecs-agent, none",
    )
    url: str | None = setting(
        "orchestrator.url", None, parse_url, "URL", "URL of the orchestrator's API [the kind's default]"
    )
    ca_file: Path = setting(
        "orchestrator.ca-file",
        f"{_SERVICE_ACCOUNT}/ca.crt",
        absolute_path,
        "FILE",
        "CA of the API",
    )
    token_file: Path = setting(
        "orchestrator.token-file",
        f"{_SERVICE_ACCOUNT}/token",
        absolute_path,
        "FILE",
        "service account token",
    )
    is_verified: bool = setting("orchestrator.verify", "true", switch, "BOOL", "verify the certificate of the API")
