"""The orchestrator to poll: the one in the settings, else the one that the environment shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from exporter.config.orchestrator import OrchestratorKind, OrchestratorSettings
from exporter.errors import BadInput
from exporter.workloads.orchestrators.api_server import HOST, api_server, authenticated, url_of
from exporter.workloads.orchestrators.ecs import EcsAgent, TaskMetadata
from exporter.workloads.orchestrators.http_json import Endpoint
from exporter.workloads.orchestrators.kubernetes import ApiServer, Kubelet
from exporter.workloads.orchestrators.pod_cache import PodCache
from exporter.workloads.orchestrators.poller import OrchestratorPoller, Source

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
    if environment.get(HOST) and settings.token_file.exists():
        return OrchestratorKind.KUBERNETES
    return OrchestratorKind.ECS if environment.get(_TASK_URL) else OrchestratorKind.NONE


def _source(settings: OrchestratorSettings, node: str, environment: Mapping[str, str], cache: PodCache) -> Source:
    if settings.kind is OrchestratorKind.KUBERNETES:
        return ApiServer(api_server(settings, environment, "--orchestrator.kind=kubernetes"), node, cache)
    if settings.kind is OrchestratorKind.KUBELET:
        return Kubelet(authenticated(settings, settings.url or "https://127.0.0.1:10250"), cache)
    if settings.kind is OrchestratorKind.ECS_AGENT:
        return EcsAgent(Endpoint(settings.url or "http://127.0.0.1:51678"), cache)
    url = settings.url or environment.get(_TASK_URL, "")
    if not url.startswith("http://"):
        raise BadInput(
            f"--orchestrator.kind=ecs: {_TASK_URL} is not set, so this is not an ECS task",
            remedy="set --orchestrator.url",
        )
    return TaskMetadata(Endpoint(settings.url or url_of(_TASK_URL, url)), cache)
