"""Unit tests of a module: in the same folder below tests/unit, in the file of its name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "exporter"
MAX_BRANCHES_WITHOUT_TESTS = 3
_BRANCHES = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While),
    *(ast.match_case, ast.ExceptHandler, ast.comprehension),
)

TESTED_ELSEWHERE = {
    "cluster/intake.py": "tests/end_to_end/test_cluster.py",
    "cluster/receiver_grpc.py": "tests/end_to_end/test_cluster.py",
    "cluster/receiver_http.py": "tests/end_to_end/test_cluster.py",
    "cluster/server.py": "tests/end_to_end/test_cluster.py",
    "commands/cluster.py": "tests/end_to_end/test_cluster.py",
    "service/bearer.py": "tests/unit/serve/test_gate.py",
    "app/daemon.py": "tests/end_to_end/test_run.py",
    "app/wakeups.py": "tests/end_to_end/test_run.py",
    "app/wiring.py": "tests/end_to_end/test_run.py",
    "app/direct_recording.py": "tests/end_to_end/test_record.py",
    "app/recording_request.py": "tests/end_to_end/test_record.py",
    "app/recording_socket.py": "tests/end_to_end/test_record.py",
    "commands/record.py": "tests/end_to_end/test_record.py",
    "commands/run.py": "tests/end_to_end/test_run.py",
    "host/eh_frame.py": "tests/contract/test_eh_frame.py",
    "host/reader_program.py": "tests/unit/host/test_reader.py",
    "kernel/call_recording.py": "tests/kernel/test_recorded.py",
    "kernel/calibration.py": "tests/kernel/test_calibration.py",
    "kernel/filtered_child.py": "tests/kernel/test_seccomp.py",
    "kernel/libbpf.py": "tests/kernel/test_loading.py",
    "kernel/libbpf_library.py": "tests/kernel/test_loading.py",
    "kernel/mapping_watch.py": "tests/kernel/test_mapping_watch.py",
    "kernel/recorded_events.py": "tests/kernel/test_recorded.py",
    "kernel/uprobe_events.py": "tests/end_to_end/test_single_probes.py",
    "kernel/recorded_ring.py": "tests/kernel/test_recorded.py",
    "output/otlp/json_records.py": "tests/contract/test_otlp_records.py",
    "output/otlp/protobuf_body.py": "tests/contract/test_otlp_bodies.py",
    "output/otlp/protobuf_records.py": "tests/contract/test_otlp_records.py",
    "probes/library_opener.py": "tests/kernel/test_one_file.py",
    "service/connections.py": "tests/end_to_end/test_serve.py",
    "serve/dispatcher.py": "tests/unit/serve/test_calls.py",
    "serve/http_api.py": "tests/end_to_end/test_serve.py",
    "serve/page_routes.py": "tests/end_to_end/test_dashboard.py",
    "serve/mcp_server.py": "tests/end_to_end/test_serve.py",
    "service/http_server.py": "tests/end_to_end/test_serve.py",
    "service/web_flags.py": "tests/end_to_end/test_serve.py",
    "commands/serve.py": "tests/end_to_end/test_serve.py",
    "serve/tools/chain_facts.py": "tests/unit/serve/tools/test_explanations.py",
    "serve/tools/tool.py": "tests/unit/serve/tools/test_registry.py",
    "ras/program.py": "tests/unit/ras/test_view.py",
    "recording/single_calls.py": "tests/end_to_end/test_record.py",
    "top/terminal.py": "tests/end_to_end/test_top.py",
}
"""Module -> its tests, where it needs a whole exporter, a kernel, a terminal, or a second implementation to compare with."""


def modules() -> list[Path]:
    """Every module, relative to the package, without those of a package itself."""
    found = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    return sorted(path for path in found if not path.name.startswith("__"))


def branches(module: Path) -> int:
    """Conditions, loops, cases and handlers of exceptions."""
    return sum(isinstance(node, _BRANCHES) for node in ast.walk(ast.parse((PACKAGE / module).read_text())))


def mirror_of(module: Path) -> Path:
    """`history/writer.py` -> `tests/unit/history/test_writer.py`."""
    return ROOT / "tests/unit" / module.parent / f"test_{module.name}"


def without_mirror() -> set[str]:
    return {
        str(module)
        for module in modules()
        if branches(module) > MAX_BRANCHES_WITHOUT_TESTS and not mirror_of(module).exists()
    }


class TestMirrors:
    """A module that decides something has its unit tests where one looks for them."""

    def test_module_with_branches_has_a_file_of_unit_tests(self) -> None:
        """An exception ends when the file exists."""
        assert without_mirror() == set(TESTED_ELSEWHERE)

    @pytest.mark.parametrize("tests", sorted(set(TESTED_ELSEWHERE.values())))
    def test_tests_elsewhere_exist(self, tests: str) -> None:
        assert (ROOT / tests).is_file()
