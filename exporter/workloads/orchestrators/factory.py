"""Which orchestrator is asked for names, and where: what the settings say, else what the environment shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from exporter.config.orchestrator import OrchestratorKind, OrchestratorSettings
from exporter.errors import BadInput
from exporter.workloads.orchestrators.ecs import Agent, TaskMetadata
from exporter.workloads.orchestrators.http_json import Endpoint
from exporter.workloads.orchestrators.kubernetes import ApiServer, Kubelet
from exporter.workloads.orchestrators.pod_cache import PodCache
from exporter.workloads.orchestrators.poller import OrchestratorPoller, Source

_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_TASK_URL = "ECS_CONTAINER_METADATA_URI_V4"


def enquirer_of(
    settings: OrchestratorSettings, node: str, environment: Mapping[str, str], report: Callable[[bool], None]
) -> OrchestratorPoller | None:
    """None where nobody is asked. node: whose pods are wanted, as Kubernetes calls it.

    Raises BadInput when it cannot be found whom to ask.
    """
    kind = _found(settings, environment) if settings.kind is OrchestratorKind.AUTO else settings.kind
    if kind is OrchestratorKind.NONE:
        return None
    directory = PodCache()
    return OrchestratorPoller(_source(replace(settings, kind=kind), node, environment, directory), directory, report)


def _found(settings: OrchestratorSettings, environment: Mapping[str, str]) -> OrchestratorKind:
    if environment.get(_HOST) and settings.token_file.exists():
        return OrchestratorKind.KUBERNETES
    return OrchestratorKind.ECS if environment.get(_TASK_URL) else OrchestratorKind.NONE


def _source(settings: OrchestratorSettings, node: str, environment: Mapping[str, str], directory: PodCache) -> Source:
    if settings.kind is OrchestratorKind.KUBERNETES:
        return ApiServer(_of_service_account(settings, _api_url(settings, environment)), node, directory)
    if settings.kind is OrchestratorKind.KUBELET:
        return Kubelet(_of_service_account(settings, settings.url or "https://127.0.0.1:10250"), directory)
    if settings.kind is OrchestratorKind.ECS_AGENT:
        return Agent(Endpoint(settings.url or "http://127.0.0.1:51678"), directory)
    url = settings.url or environment.get(_TASK_URL, "")
    if not url.startswith("http://"):
        raise BadInput(
            f"--orchestrator.kind=ecs: {_TASK_URL} is not set, so this is no task of ECS",
            remedy="set --orchestrator.url",
        )
    return TaskMetadata(Endpoint(url), directory)


def _of_service_account(settings: OrchestratorSettings, url: str) -> Endpoint:
    ca_file = settings.ca_file if settings.ca_file.exists() else None
    token_file = settings.token_file if settings.token_file.exists() else None
    return Endpoint(url, ca_file, token_file, is_verified=settings.is_verified)


def _api_url(settings: OrchestratorSettings, environment: Mapping[str, str]) -> str:
    if settings.url:
        return settings.url
    host = environment.get(_HOST)
    if not host:
        raise BadInput(
            f"--orchestrator.kind=kubernetes: {_HOST} is not set, so this is no pod", remedy="set --orchestrator.url"
        )
    port = environment.get(_PORT) or "443"
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
