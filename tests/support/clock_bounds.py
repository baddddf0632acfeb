"""Finds tests that compare a time with an upper bound: assertions that a loaded machine can break.

In: the source of a test file. Out: the lines of such assertions in tests that no marker excludes from `make test`. A time is a
difference of two readings of a clock, also by way of names and of functions of the file. It may be compared from below, and with
another time that was measured around the same event.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

OUTSIDE = frozenset({"acceptance", "whole_machine", "idle_machine", "hardware_speed", "soak", "nvidia"})
"""Markers of tests that `make test` leaves out."""
CLOCKS = frozenset(
    f"{name}{unit}"
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "time")
    for unit in ("", "_ns")
) | {"getrusage", "clock_gettime", "clock_gettime_ns"}
EXCUSE = "# steady: "
ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"monotonic|perf_counter|process_time|thread_time|time\.time|getrusage|clock_gettime")
_AGGREGATES = frozenset(
    {"abs", "float", "int", "list", "max", "min", "round", "sorted", "sum", "tuple", "median", "mean"}
)


class Kind(enum.Enum):
    """What an expression is made from."""

    READING = "a reading of a clock"
    LIMIT = "a reading and something added"
    TIME = "a difference of two readings"
    SCALED = "such a difference, and a factor or something added"


@dataclass
class _Names:
    """Kinds of the names and attributes in a scope, and of what the functions of the file return."""

    kinds: dict[str, Kind] = field(default_factory=dict)

    def kind(self, node: ast.expr | None) -> Kind | None:
        match node:
            case ast.Call(func=function, args=arguments):
                name = _last_name(function)
                if _is_clock(function):
                    return Kind.READING
                if name in _AGGREGATES and arguments:
                    return self.kind(arguments[0])
                return self.kinds.get(f"{name}()")
            case ast.Name() | ast.Attribute():
                inner = self.kind(node.value) if isinstance(node, ast.Attribute) else None
                return inner or self.kinds.get(ast.unparse(node))
            case ast.BinOp(left=left, op=operator, right=right):
                return _combined(self.kind(left), operator, self.kind(right))
            case ast.Subscript(value=value) | ast.Starred(value=value) | ast.NamedExpr(value=value):
                return self.kind(value)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
                return self.kind(element)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return next(filter(None, map(self.kind, elements)), None)
        return None

    def learn(self, body: ast.AST) -> None:
        """Add what is assigned in it, in the order of the lines; twice, since a loop may read what stands below."""
        for _ in range(2):
            for node in ast.walk(body):
                match node:
                    case ast.Assign(targets=targets, value=value):
                        for target in targets:
                            self._assign(target, value)
                    case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value) if value:
                        self._assign(target, value)
                    case ast.comprehension(target=target, iter=value) | ast.For(target=target, iter=value):
                        self._assign(target, value)
                    case ast.Call(func=ast.Attribute(value=target, attr="append"), args=[value]):
                        self._assign(target, value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, its_value in zip(target.elts, value.elts, strict=True):
                self._assign(one, its_value)
        elif isinstance(target, ast.Name | ast.Attribute) and (kind := self.kind(value)):
            self.kinds[ast.unparse(target)] = kind


@cache
def _returned_of(path: Path) -> dict[str, Kind]:
    source = path.read_text(encoding="utf-8") if path.is_file() else ""
    return _returned(ast.parse(source)).kinds if _NAMED.search(source) else {}


@cache
def _modules_with_times() -> tuple[str, ...]:
    """Dotted names of the modules in tests/support with functions that return a reading of a clock, or a time."""
    paths = sorted((ROOT / "tests" / "support").glob("*.py"))
    return tuple(f"tests.support.{path.stem}" for path in paths if _returned_of(path))


def _imported(tree: ast.Module) -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tests."):
            kinds = _returned_of(ROOT / f"{str(node.module).replace('.', '/')}.py")
            names = {f"{alias.name}()" for alias in node.names}
            found |= {name: kind for name, kind in kinds.items() if name in names}
    return found


def _returned(tree: ast.Module) -> _Names:
    """`name()` -> kind, of the functions of a file and of those that it imports from tests/."""
    returned = _Names(_imported(tree))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            inside = _Names(dict(returned.kinds))
            inside.learn(function)
            kinds = (inside.kind(node.value) for node in ast.walk(function) if isinstance(node, ast.Return))
            if kind := next(filter(None, kinds), None):
                returned.kinds[f"{function.name}()"] = kind
    return returned


def offences(path: Path) -> list[int]:
    """The first line of each assertion of an upper bound that has no excuse."""
    source = path.read_text(encoding="utf-8")
    if not _NAMED.search(source) and not any(f"from {module} import" in source for module in _modules_with_times()):
        return []
    tree, lines = ast.parse(source), source.splitlines()
    returned = _returned(tree)
    found = []
    for test in _tests_of_the_gate(tree):
        names = _Names(dict(returned.kinds))
        names.learn(test)
        for node in ast.walk(test):
            if isinstance(node, ast.Assert) and _has_bound(node.test, names):
                text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                if EXCUSE not in text:
                    found.append(node.lineno)
    return sorted(set(found))


def _tests_of_the_gate(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    aliases = {
        target.id: _markers(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if aliases.get("pytestmark", frozenset()) & OUTSIDE:
        return

    def is_outside(node: ast.ClassDef | ast.FunctionDef) -> bool:
        own = frozenset[str]().union(*map(_markers, node.decorator_list))
        named = {ast.unparse(one) for one in node.decorator_list}
        inner = [
            one.value
            for one in node.body
            if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark"
        ]
        marks = own.union(*map(_markers, inner), *(aliases.get(name, frozenset()) for name in named))
        return bool(marks & OUTSIDE)

    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not is_outside(node):
            yield from (one for one in node.body if isinstance(one, ast.FunctionDef) and not is_outside(one))
        elif isinstance(node, ast.FunctionDef) and not is_outside(node):
            yield node


def _markers(node: ast.expr) -> frozenset[str]:
    return frozenset(
        one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "pytest.mark"
    )


def _has_bound(asserted: ast.expr, names: _Names) -> bool:
    return any(_is_bound(node, names) for node in ast.walk(asserted))


def _is_bound(node: ast.AST, names: _Names) -> bool:
    """Whether a comparison bounds a time from above."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    if len(sides) == 3 and {names.kind(sides[0]), names.kind(sides[2])} <= {Kind.READING, Kind.TIME}:
        return False  # what another clock has measured, between two times of the test
    for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(operator, ast.Gt | ast.GtE):
            left, right = right, left  # noqa: PLW2901
        small, large = names.kind(left), names.kind(right)
        if isinstance(operator, ast.Eq) and "approx(" in ast.unparse(node) and Kind.TIME in (small, large):
            return True
        if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and (
            (small in (Kind.TIME, Kind.SCALED) and large in (None, Kind.SCALED))
            or (small is Kind.READING and large is Kind.LIMIT)
        ):
            return True
    return False


def _combined(left: Kind | None, operator: ast.operator, right: Kind | None) -> Kind | None:
    clock = (Kind.READING, Kind.LIMIT)
    if isinstance(operator, ast.Sub) and left in clock and right in clock:
        return Kind.TIME
    if left is Kind.TIME and right is Kind.TIME and isinstance(operator, ast.Add | ast.Sub):
        return Kind.TIME
    if Kind.TIME in (left, right) or Kind.SCALED in (left, right):
        return Kind.SCALED
    if left in clock or right in clock:
        return Kind.LIMIT if isinstance(operator, ast.Add | ast.Sub) else (left or right)
    return None


def _is_clock(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id="time" | "resource"), attr=name):
            return name in CLOCKS
        case ast.Name(id=name):
            return name in CLOCKS - {"time"}
    return False


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
