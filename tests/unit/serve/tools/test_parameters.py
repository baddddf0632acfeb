"""Parameters: values that are checked, and their schema."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.errors import BadInput
from exporter.serve.tools.parameters import Parameter, checked, input_schema

SINCE = Parameter("since", "how far to look back", default="15m")
NAME = Parameter("name", "its name", default=None)
FORMAT = Parameter("format", "of the answer", choices=("", "text", "json"))
OFFSET = Parameter("offset", "items to leave out", int, 0)
ALL = (SINCE, NAME, FORMAT, OFFSET)


class TestChecked:
    def test_defaults_stand_for_what_is_not_given(self) -> None:
        assert checked(ALL, {"name": "x"}) == {"since": "15m", "name": "x", "format": "", "offset": 0}

    @pytest.mark.parametrize(
        ("given", "message", "remedy"),
        [
            (None, "want a JSON object", ""),
            ([], "want a JSON object", ""),
            ({}, "name is missing", "its name"),
            ({"name": 1}, "name: want a value of type string", "its name"),
            ({"name": None}, "name: want a value of type string", "its name"),
            ({"name": "x", "offset": "1"}, "offset: want a value of type integer", ""),
            ({"name": "x", "offset": True}, "offset: want a value of type integer", ""),
            ({"name": "x", "offset": -1}, "offset: want no negative number", ""),
            ({"name": "x", "format": "xml"}, "format: 'xml' is none of its values", "use , text, json"),
            ({"name": "x", "sinse": "1h"}, "there is no parameter 'sinse'", "did you mean since?"),
            ({"name": "x", "\x1b[2J": "1h"}, "there is no parameter '\ufffd[2J'", "there are since, name"),
            ({"name": "x" * 10_001}, "name: longer than 10000 characters", ""),
        ],
    )
    def test_mistake_is_named_with_a_remedy(self, given: Any, message: str, remedy: str) -> None:
        with pytest.raises(BadInput) as refused:
            checked(ALL, given)

        assert message in str(refused.value)
        assert remedy in refused.value.remedy


class TestInputSchema:
    def test_says_what_checked_accepts(self) -> None:
        assert input_schema((NAME, FORMAT, OFFSET)) == {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "its name"},
                "format": {"type": "string", "description": "of the answer", "enum": ["", "text", "json"]},
                "offset": {
                    "type": "integer",
                    "description": "items to leave out",
                    "default": 0,
                    "minimum": 0,
                },
            },
            "additionalProperties": False,
            "required": ["name"],
        }
