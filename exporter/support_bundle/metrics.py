"""What the exporter that runs on this machine serves, with names of workloads, machines and programs replaced by numbers."""

from __future__ import annotations

import re

from exporter.config import Config
from exporter.support_bundle.machine import Machine
from exporter.support_bundle.settings import web_config

# Labels whose values are numbers or from a closed set. All others name a workload, a machine or a program.
_SHOWN_LABELS = frozenset(
    {
        *("api", "attach_kind", "blocked_on", "cause", "code", "collector", "communicator", "communicator_rank"),
        *("container_runtime", "direction", "effect", "fate", "figure", "format", "kernel", "kind", "le", "libbpf"),
        *(
            "library",
            "local_rank",
            "map",
            "model",
            "nranks",
            "operation",
            "outcome",
            "pid",
            "program",
            "python",
            "rank",
        ),
        *("reason", "receiver", "result", "severity", "signal", "state", "version", "world_size"),
        *("implementation", "major", "minor", "patchlevel", "quantile"),
    }
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def metrics(config: Config, machine: Machine) -> str:
    """Text of /metrics. Raises OSError if no exporter answers."""
    if config.web.with_systemd_sockets:
        raise OSError("systemd holds the socket: its address is not known")
    content = web_config(config.web.config_file)
    is_tls = isinstance(content, dict) and "tls_server_config" in content
    why = ["no address has a fixed port"]
    for host, port in config.web.listen_addresses:
        if not port:
            continue
        where = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - a key, no address to listen on
        try:
            reply = machine.get(where, port, config.web.telemetry_path, is_tls=is_tls)
        except OSError as error:
            why.append(f"{where}:{port}: {error.strerror or error}")
            continue
        if reply.status != 200:
            why.append(f"{where}:{port} answers with status {reply.status}")
        elif "gpustall_" not in reply.body:
            why.append(f"the program at {where}:{port} is not gpu-stall-exporter")
        else:
            return without_names(reply.body)
    raise OSError(why[-1])


def without_names(exposition: str) -> str:
    """`pod="alice-0"` -> `pod="name-1"`, the same number for the same name."""
    numbers: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        label, value = match.groups()
        if label in _SHOWN_LABELS or not value:
            return match[0]
        return f'{label}="{numbers.setdefault(value, f"name-{len(numbers) + 1}")}"'

    return _LABEL.sub(replaced, exposition)
