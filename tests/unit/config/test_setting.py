"""setting: one declaration -> flag, key, environment variable, help and reloadability."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace

import pytest

from exporter.config import CONFIG_FILE, SETTINGS, Config
from exporter.config.command_line import help_of
from exporter.config.log import LogLevel
from exporter.config.parsers import count, switch
from exporter.config.setting import Given, group, reloaded, setting, settings_of
from exporter.errors import BadInput
from tests.unit.config.command_line import loaded

EVERY_SETTING = pytest.mark.parametrize("one", [CONFIG_FILE, *SETTINGS], ids=lambda one: one.flag)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """Settings of a subject."""

    size: int = setting("inner.max-size", "3", count, "N", "size", also={"SIZE": count}, is_reloadable=True)
    is_on: bool = setting("inner.on", None, switch, "BOOL", "on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """Settings and a subject."""

    name: str = setting("name", lambda: "nameless", str, "NAME", "name")
    inner: Inner = group(Inner)


class TestDeclaration:
    def test_flags_of_groups_come_in_the_order_of_the_fields(self) -> None:
        assert [one.flag for one in settings_of(Outer)] == ["name", "inner.max-size", "inner.on"]

    def test_variable_is_the_flag_in_upper_case(self) -> None:
        assert settings_of(Inner)[0].variable == "GPUSTALL_INNER_MAX_SIZE"

    def test_defaults_are_parsed_computed_or_none(self) -> None:
        assert Outer() == Outer(name="nameless", inner=Inner(size=3, is_on=None))


class TestGiven:
    def test_values_come_from_texts_and_variables(self) -> None:
        given = Given({"inner.on": ("true", "--inner.on")}, {"SIZE": "7"})

        assert given.read(Outer) == Outer(name="nameless", inner=Inner(size=7, is_on=True))

    def test_own_variable_overrides_another_one(self) -> None:
        assert Given({}, {"SIZE": "7", "GPUSTALL_INNER_MAX_SIZE": "8"}).read(Inner).size == 8

    def test_variables_of_other_programs_can_be_left_out(self) -> None:
        given = Given({}, {"SIZE": "7", "GPUSTALL_INNER_ON": "true"})

        assert given.without_foreign_variables().read(Inner) == Inner(size=3, is_on=True)

    def test_error_names_the_variable_and_what_is_wanted(self) -> None:
        with pytest.raises(BadInput) as raised:
            Given({}, {"GPUSTALL_INNER_ON": "maybe"}).read(Inner)

        assert str(raised.value) == "environment variable GPUSTALL_INNER_ON: invalid value 'maybe': want true or false"


class TestReload:
    def test_reloadable_settings_change_and_the_flags_of_the_others_are_returned(self) -> None:
        before, wanted = Outer(name="a"), Outer(name="b", inner=Inner(size=4, is_on=True))

        assert reloaded(before, wanted) == (Outer(name="a", inner=Inner(size=4)), ["name", "inner.on"])

    def test_nothing_needs_a_restart_when_nothing_has_changed(self) -> None:
        assert reloaded(loaded(), loaded()) == (loaded(), [])

    def test_config_keeps_what_needs_a_restart(self) -> None:
        before = loaded("--node=a", "--tick.interval=1s", "--log.level=info")
        wanted = loaded("--node=b", "--tick.interval=2s", "--log.level=debug", "--web.max-requests=7")
        config, flags = reloaded(before, wanted)

        assert (config.tick_interval_seconds, config.log.level) == (2.0, LogLevel.DEBUG)
        assert (config.node, config.web.max_requests) == ("a", 40)
        assert flags == ["web.max-requests", "node"]

    def test_receivers_are_replaced_as_a_whole(self) -> None:
        before, wanted = loaded(), loaded("--otlp.endpoint=http://a:4318", "--otlp.service-name=b")

        assert reloaded(before, wanted) == (replace(before, otlp=wanted.otlp), [])

    def test_reloadable_settings(self) -> None:
        reloadable = {one.flag for one in SETTINGS if one.is_reloadable and not one.flag.startswith("otlp.")}

        assert reloadable == {
            "probes.overhead-limit",
            "probes.discovery-interval",
            "tick.interval",
            "series.ttl",
            "log.level",
            "log.format",
        }
        assert all(one.is_reloadable for one in SETTINGS if one.flag.startswith("otlp."))


DERIVED = {"unusable"}
"""Fields that follow from those of others."""


class TestEverySetting:
    def test_flags_are_unique(self) -> None:
        flags = [one.flag for one in (CONFIG_FILE, *SETTINGS)]

        assert len(set(flags)) == len(flags)

    def test_environment_variables_are_unique(self) -> None:
        """`a.b` and `a-b` would have the same one."""
        variables = [name for one in (CONFIG_FILE, *SETTINGS) for name in one.variables]

        assert len(set(variables)) == len(variables)

    def test_every_field_of_config_is_made_from_settings(self) -> None:
        for field in fields(Config):
            value = getattr(Config(), field.name)
            for inner in fields(value) if is_dataclass(value) else [field]:
                assert inner.metadata["settings"] or inner.name in DERIVED

    @EVERY_SETTING
    def test_default_is_valid(self, one: object) -> None:
        one.default_value()  # type: ignore[attr-defined]

    @EVERY_SETTING
    def test_help_has_at_most_90_characters(self, one: object) -> None:
        assert len(help_of(one)) <= 90  # type: ignore[arg-type]

    @EVERY_SETTING
    def test_help_is_a_phrase(self, one: object) -> None:
        """No full stop, no capital at the start except in abbreviations."""
        text = one.help  # type: ignore[attr-defined]
        first = text.split()[0]

        assert not text.endswith(".")
        assert first[0].islower() or first[1].isupper()
