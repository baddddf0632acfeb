"""Sizes of classes, constructors and the root of exporter/; names of classes are unique."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "exporter"
MAX_ROOT_MODULES = 8
MAX_CLASS_LINES = 250
MAX_CONSTRUCTOR_ARGUMENTS = 8

LONG_CLASSES: dict[str, str] = {}
"""module:class of those that may be longer, and why."""


def modules() -> list[Path]:
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    """Every class at the top level of a module."""
    for module in modules():
        yield from ((module, node) for node in tree_of(module).body if isinstance(node, ast.ClassDef))


def constructor_arguments(node: ast.ClassDef) -> int:
    """Arguments of __init__, without self. Of a dataclass or NamedTuple, whose fields are no constructor written by hand, 0."""
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            return len(function.args.posonlyargs + function.args.args + function.args.kwonlyargs) - 1
    return 0


@cache
def imports(module: Path) -> frozenset[str]:
    """Dotted names: `from exporter import units` gives exporter and exporter.units."""
    found: set[str] = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def importers(name: str) -> set[Path]:
    """Modules that import `exporter.NAME`."""
    return {module for module in modules() if f"exporter.{name}" in imports(module)}


class TestSizes:
    """One subject for each module and class."""

    def test_few_modules_stand_at_the_root(self) -> None:
        """What belongs to a subject stands in its folder."""
        assert len(list(PACKAGE.glob("*.py"))) <= MAX_ROOT_MODULES

    def test_a_module_at_the_root_has_several_importers(self) -> None:
        """One that serves a single module belongs beside it."""
        names = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}

        assert {name for name in names if len(importers(name)) < 2} == set()

    def test_no_class_is_too_long(self) -> None:
        """A longer one holds two subjects."""
        long = {
            f"{module}:{node.name}"
            for module, node in classes()
            if (node.end_lineno or 0) - node.lineno + 1 > MAX_CLASS_LINES
        }

        assert long == set(LONG_CLASSES)

    def test_no_constructor_takes_too_many_arguments(self) -> None:
        """Dataclasses and NamedTuples are records: their fields do not count."""
        many = {
            f"{module}:{node.name}"
            for module, node in classes()
            if constructor_arguments(node) > MAX_CONSTRUCTOR_ARGUMENTS
        }

        assert many == set()


class TestNames:
    """A name leads to one thing."""

    def test_no_public_class_name_stands_twice(self) -> None:
        """So that a search finds the class that is meant."""
        places = defaultdict(list)
        for module, node in classes():
            if not node.name.startswith("_"):
                places[node.name].append(module.as_posix())

        assert {name: found for name, found in places.items() if len(found) > 1} == {}
