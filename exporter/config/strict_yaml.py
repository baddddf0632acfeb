"""YAML as others write it for us, read strictly: no key twice, no key that is not text. Imported by whoever reads such a file."""

from __future__ import annotations

from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Plain values only, and no mapping that says one thing twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Raises yaml.YAMLError with the line."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is no text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


def load(text: str) -> Any:
    """What the one document of a text holds; None for an empty one. Raises ValueError with what is wrong, and the line."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise ValueError(f"{error.problem}{line}") from None
    except Exception as error:  # a tag on a value that it does not fit makes the library fail in many ways
        raise ValueError(f"it is not YAML: {error or type(error).__name__}") from None
