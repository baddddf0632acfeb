"""Which module may import which: downwards only, siblings not at all, each external library in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_SECONDS

PACKAGE = Path(__file__).parents[2] / "exporter"

FLOORS = (
    {"__init__", "causes", "errors", "files", "units", "catalog"},
    {"assets", "clock", "config", "http_client", "rules", "terminal", "text", "threads", "totals"},
    {"model", "manual", "kernel", "host", "gpu"},
    {"accounting", "own_metrics", "python", "series", "workloads"},
    {"collectors", "chains", "probes"},
    {"stacks", "ras", "hostmetrics", "scrape", "history", "recording"},
    {"output", "pipeline", "top"},
    {"explain", "fleet", "investigate", "service", "timeline", "app", "confirm", "checks", "support_bundle", "demo"},
    {"cluster", "serve"},
    {"commands", "__main__"},
)
FLOOR_OF = {unit: floor for floor, units in enumerate(FLOORS) for unit in units}

FORBIDDEN = {
    "output": {
        "kernel",
        "host",
        "gpu",
        "collectors",
        "workloads",
        "series",
        "accounting",
    },  # a Snapshot is all it needs
    "scrape": {
        "kernel",
        "host",
        "gpu",
        "collectors",
        "workloads",
        "series",
        "accounting",
        "config",
    },  # it has an address
    "top": {"kernel", "host", "gpu", "collectors", "workloads", "series", "accounting", "config"},
    "collectors": {"host", "config"},
    "chains": {"kernel", "host", "gpu", "config", "workloads", "series"},  # pure: books and the time are passed in
    "accounting": {"host", "gpu", "config", "clock", "model"},  # pure: rows and the time are passed in
    "series": {"kernel", "host", "gpu", "config"},
    "own_metrics": {"kernel", "host", "gpu", "config"},
    "history": {"kernel", "host", "gpu", "collectors", "workloads", "series", "accounting", "config"},
    # pure: what was recorded and the time are passed in
    "explain": {"kernel", "host", "gpu", "collectors", "workloads", "series", "accounting", "config", "output"},
    "investigate": {"kernel", "host", "gpu", "collectors", "workloads", "series", "accounting", "config", "output"},
    # Without privileges: what it knows is in the history.
    "serve": {"kernel", "host", "gpu", "collectors", "workloads", "series", "accounting", "app"},
    "service": {"kernel", "host", "gpu", "collectors", "workloads", "series", "accounting"},
    "cluster": {"kernel", "host", "gpu", "collectors", "workloads", "series", "accounting"},
    "timeline": {"kernel", "host", "gpu", "collectors", "workloads", "series", "accounting", "config"},
}
"""Lower floors that a package must not import."""

EXTERNAL = {
    "grpc": {"cluster/receiver_grpc.py"},
    "duckdb": {"cluster/segment.py"},
    "bcrypt": {"output/web/users.py"},
    "h11": {"http_client/client.py", "output/web/http_exchange.py"},
    "yaml": {"config/strict_yaml.py"},
    "mcp": {"serve/mcp_messages.py", "serve/mcp_server.py", "serve/server.py"},
    "mcp_types": {"serve/mcp_messages.py", "serve/mcp_server.py"},
    "pydantic": {"serve/mcp_messages.py"},
    "starlette": {"serve/answering.py", "serve/http_api.py", "serve/page_routes.py", "serve/server.py"},
    "uvicorn": {"service/connections.py", "service/http_server.py"},
    "bcc": {"host/bcc_symbols.py"},  # run by the distribution's interpreter, and not imported
    "google": {"cluster/protobuf_request.py", "output/otlp/protobuf_body.py", "scrape/exposition.py"},
    "opentelemetry": {"cluster/protobuf_request.py", "output/otlp/protobuf_body.py", "output/otlp/protobuf_records.py"},
    "pynvml": {"gpu/nvml.py"},
    "pyroute2": {"host/interfaces.py"},
    "prometheus_client": {"output/own_exposition.py"},
    "tenacity": {"gpu/sampled_gpu.py", "output/otlp/retry.py", "workloads/orchestrators/poller.py"},
}
CTYPES = {
    "kernel/calibration.py": "machine code of our own, and where it is mapped",
    "kernel/libbpf.py": "the binding to libbpf and bpf(2)",
    "kernel/libbpf_library.py": "libbpf is a shared library of C",
    "kernel/maps.py": "buffers for batch look-ups",
    "kernel/filtered_child.py": "seccomp, perf_event_open(2), and machine code that is called",
    "kernel/perf_events.py": "perf_event_open(2) has no wrapper in Python",
    "host/cgroup_handles.py": "open_by_handle_at(2) has no wrapper in Python",
    "host/capabilities.py": "capget(2), capset(2) and prctl(2) have no wrapper in Python",
    "kernel/uprobe_events.py": "the address of a path in struct perf_event_attr",
    "host/reader_program.py": "mmap(2): the module mmap hides where its mappings are",
    "host/heap.py": "mallopt(3) and malloc_trim(3) have no wrapper in Python",
    "gpu/nvml.py": "dlopen(3): whether there is a driver, before its binding is imported",
    "host/network_namespaces.py": "setns(2): os.setns() is there since Python 3.12",
    "host/kernel_clock.py": "adjtimex(2) has no wrapper in Python",
    "host/libraries.py": "fstatfs(2): os.statvfs() leaves out the type of the file system",
}
"""Where ctypes is imported, and why."""


def modules() -> list[Path]:
    """Every module, relative to the package."""
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def unit_of(module: Path) -> str:
    """`kernel/tables.py` -> kernel, `daemon.py` -> daemon."""
    return module.parts[0].removesuffix(".py")


@cache
def nodes_of(module: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))))


def imported(module: Path) -> Iterator[tuple[str, ...]]:
    """Dotted names as tuples: `from exporter.host import elf` -> ("exporter", "host", "elf")."""
    for node in nodes_of(module):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            assert node.module is not None
            yield from ((*node.module.split("."), alias.name) for alias in node.names)


def units_imported(module: Path) -> set[str]:
    """Units of this package that a module imports, without its own. Names of exporter/__init__.py are `__init__`."""
    found = {name[1] if name[1] in FLOOR_OF else "__init__" for name in imported(module) if name[0] == "exporter"}
    return found - {unit_of(module)}


EVERY_MODULE = pytest.mark.parametrize("module", modules(), ids=str)


class TestFloors:
    """The order of packages, from the bottom up."""

    def test_there_are_at_most_ten(self) -> None:
        assert len(FLOORS) <= 10

    def test_every_module_has_a_floor(self) -> None:
        """Every entry of a floor exists."""
        assert {unit_of(module) for module in modules()} == set(FLOOR_OF)

    @EVERY_MODULE
    def test_imports_go_downwards(self, module: Path) -> None:
        """A sibling counts as upwards."""
        unit = unit_of(module)
        upwards = {other for other in units_imported(module) if FLOOR_OF[other] >= FLOOR_OF[unit]}

        assert upwards == set()

    @EVERY_MODULE
    def test_forbidden_packages_are_not_imported(self, module: Path) -> None:
        """Outputs get a Snapshot, never a map; pure packages stay pure."""
        assert units_imported(module) & FORBIDDEN.get(unit_of(module), set()) == set()

    def test_collectors_do_not_import_each_other(self) -> None:
        """Only the package's list names them all."""
        subjects = {path.stem for path in modules() if path.parts[0] == "collectors"} - {"__init__"}
        for subject in subjects:
            names = {
                name[2] for name in imported(Path(f"collectors/{subject}.py")) if name[:2] == ("exporter", "collectors")
            }
            assert names & subjects <= {"places"}

    def test_accounting_imports_rows_and_no_map(self) -> None:
        """All its input can be made by hand in tests."""
        imports = {
            name[2]
            for module in modules()
            if module.parts[0] == "accounting"
            for name in imported(module)
            if name[:2] == ("exporter", "kernel")
        }

        assert {name for name in imports if not name.endswith("_rows")} == {"abi", "operations", "readings"}

    def test_commands_do_not_import_each_other(self) -> None:
        """__main__ finds them by name."""
        for module in modules():
            if module.parts[0] == "commands":
                assert not [name for name in imported(module) if name[:2] == ("exporter", "commands")]


class TestLibraries:
    """External libraries."""

    def test_each_external_library_is_imported_in_one_place(self) -> None:
        """A change of a library affects one file."""
        found: dict[str, set[str]] = {}
        for module in modules():
            for name in imported(module):
                if name[0] != "exporter" and name[0] not in sys.stdlib_module_names:
                    found.setdefault(name[0], set()).add(str(module))

        assert found == EXTERNAL

    def test_libraries_of_extras_are_imported_when_a_server_starts(self) -> None:
        """A command without them works, and no other command takes their memory."""
        source = (
            "import importlib, sys, exporter.__main__ as main\n"
            "for name in main.COMMANDS: importlib.import_module(f'exporter.commands.{name}')\n"
            "print(*sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
        )

        assert {*done.stdout.split()} & {"duckdb", "grpc", "mcp", "starlette", "uvicorn"} == set()

    def test_only_demo_names_the_standin(self) -> None:
        """It looks for live demos at run time; the product ships without libraries that pretend to be NVIDIA's."""
        naming = {str(path) for path in modules() if "gpustall_standin" in (PACKAGE / path).read_text(encoding="utf-8")}

        assert naming == {"demo/live.py"}

    def test_http_requests_are_sent_by_one_client(self) -> None:
        """Its package has the deadline; http.client and urllib.request have timeouts of single waits only."""
        others = {
            str(module)
            for module in modules()
            for name in imported(module)
            if name[:2] in (("http", "client"), ("urllib", "request")) and module.parts[0] != "http_client"
        }

        assert others == set()

    def test_ctypes_is_imported_where_there_is_a_reason(self) -> None:
        """Few modules handle raw memory."""
        assert {str(module) for module in modules() if any(name[0] == "ctypes" for name in imported(module))} == set(
            CTYPES
        )

    def test_only_main_exits(self) -> None:
        """Everything else raises or returns."""
        leaving = {
            str(module)
            for module in modules()
            for node in nodes_of(module)
            if isinstance(node, ast.Attribute)
            and node.attr in ("exit", "_exit")
            and isinstance(node.value, ast.Name)
            and node.value.id in ("sys", "os")
        }

        assert leaving <= {"__main__.py"}
