"""The orchestrator to poll: the one in the settings, else the one that the environment shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from exporter.config.orchestrator import OrchestratorKind, OrchestratorSettings, parse_url
from exporter.errors import BadInput
from exporter.workloads.orchestrators.ecs import EcsAgent, TaskMetadata
from exporter.workloads.orchestrators.http_json import Endpoint
from exporter.workloads.orchestrators.kubernetes import ApiServer, Kubelet
from exporter.workloads.orchestrators.pod_cache import PodCache
from exporter.workloads.orchestrators.poller import OrchestratorPoller, Source

_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_TASK_URL = "ECS_CONTAINER_METADATA_URI_V4"


def make_poller(
    settings: OrchestratorSettings, node: str, environment: Mapping[str, str], set_current: Callable[[bool], None]
) -> OrchestratorPoller | None:
    """None where there is no orchestrator. node: its name in Kubernetes, whose pods are wanted.

    Raises BadInput when the address of the orchestrator is unknown.
    """
    kind = _detected(settings, environment) if settings.kind is OrchestratorKind.AUTO else settings.kind
    if kind is OrchestratorKind.NONE:
        return None
    cache = PodCache()
    return OrchestratorPoller(_source(replace(settings, kind=kind), node, environment, cache), cache, set_current)


def _detected(settings: OrchestratorSettings, environment: Mapping[str, str]) -> OrchestratorKind:
    if environment.get(_HOST) and settings.token_file.exists():
        return OrchestratorKind.KUBERNETES
    return OrchestratorKind.ECS if environment.get(_TASK_URL) else OrchestratorKind.NONE


def _source(settings: OrchestratorSettings, node: str, environment: Mapping[str, str], cache: PodCache) -> Source:
    if settings.kind is OrchestratorKind.KUBERNETES:
        return ApiServer(_service_account_endpoint(settings, _api_url(settings, environment)), node, cache)
    if settings.kind is OrchestratorKind.KUBELET:
        return Kubelet(_service_account_endpoint(settings, settings.url or "https://127.0.0.1:10250"), cache)
    if settings.kind is OrchestratorKind.ECS_AGENT:
        return EcsAgent(Endpoint(settings.url or "http://127.0.0.1:51678"), cache)
    url = settings.url or environment.get(_TASK_URL, "")
    if not url.startswith("http://"):
        raise BadInput(
            f"--orchestrator.kind=ecs: {_TASK_URL} is not set, so this is not an ECS task",
            remedy="set --orchestrator.url",
        )
    return TaskMetadata(Endpoint(settings.url or _url_of(_TASK_URL, url)), cache)


def _url_of(variable: str, text: str) -> str:
    """A URL that an environment variable holds in whole or in part. Raises BadInput."""
    try:
        return parse_url(text)
    except ValueError:
        raise BadInput(f"{variable} does not make a valid URL", remedy="set --orchestrator.url") from None


def _service_account_endpoint(settings: OrchestratorSettings, url: str) -> Endpoint:
    ca_file = settings.ca_file if settings.ca_file.exists() else None
    token_file = settings.token_file if settings.token_file.exists() else None
    return Endpoint(url, ca_file, token_file, is_verified=settings.is_verified)


def _api_url(settings: OrchestratorSettings, environment: Mapping[str, str]) -> str:
    if settings.url:
        return settings.url
    host = environment.get(_HOST)
    if not host:
        raise BadInput(
            f"--orchestrator.kind=kubernetes: {_HOST} is not set, so this is not a pod", remedy="set --orchestrator.url"
        )
    port = environment.get(_PORT) or "443"
    return _url_of(f"{_HOST} or {_PORT}", f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")
