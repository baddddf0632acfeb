"""Where the API of an orchestrator is, by the settings or the environment of a pod, and the service account that asks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from exporter.config.orchestrator import OrchestratorSettings, parse_url
from exporter.errors import BadInput
from exporter.workloads.orchestrators.http_json import Endpoint

HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"
_REMEDY: Final = "set --orchestrator.url"


def api_server(settings: OrchestratorSettings, environment: Mapping[str, str], source: str) -> Endpoint:
    """The API server of Kubernetes. source: what needs it, for messages. Raises BadInput when its address is unknown."""
    if settings.url:
        return authenticated(settings, settings.url)
    host = environment.get(HOST)
    if not host:
        raise BadInput(f"{source}: {HOST} is not set, so this is not a pod", remedy=_REMEDY)
    port = environment.get(_PORT) or "443"
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return authenticated(settings, url_of(f"{HOST} or {_PORT}", url))


def authenticated(settings: OrchestratorSettings, url: str) -> Endpoint:
    """With the token and the authority of the settings, where these files exist."""
    ca_file = settings.ca_file if settings.ca_file.exists() else None
    token_file = settings.token_file if settings.token_file.exists() else None
    return Endpoint(url, ca_file, token_file, is_verified=settings.is_verified)


def url_of(variable: str, text: str) -> str:
    """A URL that an environment variable holds in whole or in part. Raises BadInput."""
    try:
        return parse_url(text)
    except ValueError:
        raise BadInput(f"{variable} does not make a valid URL", remedy=_REMEDY) from None
