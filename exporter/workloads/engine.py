"""The serving engine or framework that a process belongs to.

In: /proc of the process and of its ancestors, read once. Out: one of ENGINES, or "" without a sign of one. An engine is never
guessed: a word in a path or an argument does not count, only the name of a program, the title that an engine gives its processes,
or a mapped library.

Signs, in the process itself and then in its ancestors; the nearest one decides:

    vllm     titles `VLLM::EngineCore_DP0`, `VLLM::Worker_TP0`, since 0.10; with VLLM_PROCESS_NAME_PREFIX that prefix instead;
             the script `vllm`, the module `vllm`; with vLLM's own kernels mapped such a title with any prefix, and
             `ray::RayWorkerWrapper` under Ray
    sglang   titles `sglang::scheduler_TP0`, `sglang::detokenizer`, since 0.3; the script `sglang`, the module `sglang`
    tgi      `text-generation-server`, `-launcher` and `-router`, 1.0 to 3.3
    triton   the program `tritonserver`, and the `triton_python_backend_stub` that runs a model in Python, 2.x
    pytorch  none of these, but libtorch is mapped, or torchrun has started it

A worker that its engine starts by multiprocessing has no sign of its own before it sets its title: its parent decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

SERVING: Final = ("vllm", "sglang", "tgi", "triton")
"""Engines that answer requests, and so have iterations."""

ENGINES: Final = (*SERVING, "pytorch")
"""Values of the label `engine`."""

PREFIX_NAME: Final = "VLLM_PROCESS_NAME_PREFIX"
ENVIRONMENT_NAMES: Final = frozenset({PREFIX_NAME})

_VLLM_PREFIX: Final = "VLLM"
_VLLM_ROLE: Final = re.compile(r"(EngineCore|Worker|APIServer|DPCoordinator)(_.*)?")
_SGLANG_TITLE: Final = re.compile(r"sglang::\w+.*")
_RAY_WORKER: Final = re.compile(r"ray::RayWorkerWrapper(\..*)?")
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*t?")
_PROGRAMS: Final = {
    "tritonserver": "triton",
    "triton_python_backend_stub": "triton",
    "text-generation-launcher": "tgi",
    "text-generation-router": "tgi",
    "text-generation-server": "tgi",
}
"""Program name -> engine, for programs that are not Python."""
_SCRIPTS: Final = {
    "vllm": "vllm",
    "sglang": "sglang",
    "text-generation-server": "tgi",
    "torchrun": "pytorch",
}
_MODULES: Final = {"vllm": "vllm", "sglang": "sglang", "text_generation_server": "tgi"}
"""First word of the module in `python -m` -> engine."""
_TORCH_LAUNCHERS: Final = ("torch.distributed.run", "torch.distributed.launch")
_VLLM_KERNELS: Final = re.compile(r".*/vllm/_C[^/]*\.so")
_LIBTORCH: Final = re.compile(r".*/libtorch(_cuda|_cpu|_python)?\.so")
_WITH_ARGUMENT: Final = "WX"  # flags of the interpreter that take an argument


def engine_by_programs(programs: Iterable[tuple[Sequence[str], str]], title_prefix: str = "") -> str:
    """The engine of the first of these programs that has one.

    programs: (command line, path of the executable) of the process, of its parent, and so on; () and "" when unreadable. Iterated
    only as far as needed. title_prefix: VLLM_PROCESS_NAME_PREFIX of its environment.
    """
    prefix = title_prefix or _VLLM_PREFIX
    return next(filter(None, (_of_program(arguments, path, prefix) for arguments, path in programs)), "")


def engine_by_libraries(arguments: Sequence[str], libraries: Collection[str]) -> str:
    """The engine of a process whose programs show none. arguments: its own command line. libraries: mapped paths."""
    title = arguments[0] if arguments else ""
    has_role = bool(_RAY_WORKER.fullmatch(title) or _VLLM_ROLE.fullmatch(title.partition("::")[2]))
    if has_role and any(map(_VLLM_KERNELS.fullmatch, libraries)):
        return "vllm"
    return "pytorch" if any(map(_LIBTORCH.fullmatch, libraries)) else ""


def _of_program(arguments: Sequence[str], path: str, prefix: str) -> str:
    """The engine of one program. A title replaces the command line."""
    if not arguments:
        return _PROGRAMS.get(_name(path), "")
    first = arguments[0]
    if _is_title(first, prefix):
        return "vllm"
    if _SGLANG_TITLE.fullmatch(first):
        return "sglang"
    by_name = _PROGRAMS.get(_name(path)) or _PROGRAMS.get(_name(first))
    if by_name or not _PYTHON.fullmatch(_name(first)):
        return by_name or ""
    module, script = _run_by_python(arguments[1:])
    if module in _TORCH_LAUNCHERS:
        return "pytorch"
    return _MODULES.get(module.partition(".")[0], "") or _SCRIPTS.get(_name(script), "")


def _is_title(first: str, prefix: str) -> bool:
    before, separator, role = first.partition("::")
    return bool(separator) and before in (prefix, _VLLM_PREFIX) and bool(_VLLM_ROLE.fullmatch(role))


def _run_by_python(arguments: Iterable[str]) -> tuple[str, str]:
    """The module and the script that an interpreter runs; "" for each that it does not.

    Before: ["-u", "-X", "dev", "-m", "vllm.entrypoints.openai.api_server"]. After: ("vllm.entrypoints.openai.api_server", "").
    """
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-"):
            return "", argument
        if argument == "-" or argument.startswith("--"):
            if argument == "--check-hash-based-pycs":
                next(rest, "")
                continue
            return "", ""
        for at, flag in enumerate(argument[1:], 2):
            if flag == "c":
                return "", ""
            if flag == "m":
                return argument[at:] or next(rest, ""), ""
            if flag in _WITH_ARGUMENT:
                if not argument[at:]:
                    next(rest, "")
                break
    return "", ""


def _name(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(" (deleted)")
