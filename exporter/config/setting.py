"""How a setting is declared: once, as a field of a frozen dataclass. Everything else follows from that field.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class SeriesSettings:
        ttl_seconds: float = setting("series.ttl", "15m", duration, "DURATION", "time to live", is_reloadable=True)

This is the flag `--series.ttl`, the key `ttl` in the table `[series]` of the file, the environment variable
`GPUSTALL_SERIES_TTL`, a line of `run --help`, a row of docs/flags.md, and the value `config.series.ttl_seconds`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, overload

from exporter.errors import BadInput


class SettingsClass(Protocol):
    """Any dataclass of settings."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


T = TypeVar("T")
G = TypeVar("G", bound=SettingsClass)

Parse = Callable[[str], Any]
"""Turns text into a value. Raises ValueError with what is wanted, such as `want true or false`."""

VARIABLE_PREFIX = "GPUSTALL_"
_SETTINGS, _READ, _IS_GROUP = "settings", "read", "is_group"


def variable_of(flag: str) -> str:
    """`probes.overhead-limit` -> `GPUSTALL_PROBES_OVERHEAD_LIMIT`."""
    return VARIABLE_PREFIX + flag.replace(".", "_").replace("-", "_").upper()


class SecretValueError(ValueError):
    """The value is wrong, and may hold a secret: the message for the user must not repeat it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One flag. default: its text; "" if there is none, or if it depends on the machine.

    also: other environment variables with their parsers, in order; they count after the setting's own.
    is_repeated: the flag may be given several times, and the values are joined by commas.
    """

    flag: str
    default: str
    parse: Parse
    metavar: str
    help: str
    also: Mapping[str, Parse] = dataclasses.field(default_factory=dict)
    fallback: Callable[[], Any] = lambda: None
    is_repeated: bool = False
    is_reloadable: bool = False

    @property
    def variable(self) -> str:
        """The environment variable of its own."""
        return variable_of(self.flag)

    @property
    def variables(self) -> dict[str, Parse]:
        """Every environment variable that may hold the value, in order of precedence."""
        return {self.variable: self.parse, **self.also}

    def default_value(self) -> Any:
        """The default, parsed; None if there is none."""
        return self.parse(self.default) if self.default else self.fallback()


@overload
def setting(
    flag: str,
    default: None,
    parse: Callable[[str], T],
    metavar: str,
    description: str,
    *,
    also: Mapping[str, Parse] | None = ...,
    is_reloadable: bool = ...,
) -> T | None: ...


@overload
def setting(
    flag: str,
    default: str | Callable[[], T],
    parse: Callable[[str], T],
    metavar: str,
    description: str,
    *,
    also: Mapping[str, Parse] | None = ...,
    is_repeated: bool = ...,
    is_reloadable: bool = ...,
) -> T: ...


def setting(
    flag: str,
    default: str | Callable[[], Any] | None,
    parse: Parse,
    metavar: str,
    description: str,
    *,
    also: Mapping[str, Parse] | None = None,
    is_repeated: bool = False,
    is_reloadable: bool = False,
) -> Any:
    """A field of a dataclass that holds the value of one flag. default: its text, a function of the value, or None."""
    declared = Setting(
        flag=flag,
        default=default if isinstance(default, str) else "",
        parse=parse,
        metavar=metavar,
        help=description,
        also=also or {},
        fallback=default if callable(default) else lambda: None,
        is_repeated=is_repeated,
        is_reloadable=is_reloadable,
    )
    return dataclasses.field(
        default_factory=declared.default_value,
        metadata={_SETTINGS: (declared,), _READ: lambda given: given.value(declared)},
    )


def group(settings: type[G], read: Callable[[Given], G] | None = None) -> G:
    """A field that holds a dataclass of settings. read: how it is made, where it takes more than reading each setting."""
    field: G = dataclasses.field(
        default_factory=settings,
        metadata={
            _SETTINGS: settings_of(settings),
            _READ: read or (lambda given: given.read(settings)),
            _IS_GROUP: True,
        },
    )
    return field


def made_from(settings: type[SettingsClass], default: T) -> T:
    """A field whose value is derived from a dataclass of settings, all of them reloadable or none."""
    field: T = dataclasses.field(default=default, metadata={_SETTINGS: settings_of(settings)})
    return field


def derived(default: T) -> T:
    """A field that no setting has: its value follows from those of others."""
    field: T = dataclasses.field(default=default, metadata={_SETTINGS: ()})
    return field


def settings_of(settings: type[SettingsClass]) -> tuple[Setting, ...]:
    """Every setting of a dataclass and of the groups in it, in the order of the fields."""
    return tuple(one for field in dataclasses.fields(settings) for one in field.metadata[_SETTINGS])


def declared(settings: type[SettingsClass]) -> dict[str, Setting]:
    """Field -> its setting, of a dataclass without groups."""
    return {field.name: field.metadata[_SETTINGS][0] for field in dataclasses.fields(settings)}


class Given(NamedTuple):
    """What a user has given. texts: flag -> (text, where it stands), of the command line and the file."""

    texts: Mapping[str, tuple[str, str]]
    environment: Mapping[str, str]

    def read(self, settings: type[G]) -> G:
        """A dataclass of settings. Raises BadInput, which names the setting, the place of its value and what is wanted."""
        return settings(**{field.name: field.metadata[_READ](self) for field in dataclasses.fields(settings)})

    def value(self, one: Setting) -> Any:
        """The value of a setting: of flag or file, else of the first variable that is set and not empty, else the default."""
        if one.flag in self.texts:
            text, source = self.texts[one.flag]
            return parsed(one.parse, text, source)
        for name, parse in one.variables.items():
            if self.environment.get(name):
                return parsed(parse, self.environment[name], f"environment variable {name}")
        return one.default_value()

    def without_foreign_variables(self) -> Given:
        """The same without the environment variables of other programs, such as OTEL_EXPORTER_OTLP_ENDPOINT."""
        own = {name: text for name, text in self.environment.items() if name.startswith(VARIABLE_PREFIX)}
        return self._replace(environment=own)


def parsed(parse: Callable[[str], T], text: str, source: str) -> T:
    """The value of a text. Raises BadInput, which names the source: a flag, a key with its file, or a variable."""
    try:
        return parse(text)
    except SecretValueError as error:
        raise BadInput(f"{source}: {error}") from None
    except ValueError as error:
        raise BadInput(f"{source}: invalid value {text!r}: {error}") from None


def reloaded(before: G, wanted: G) -> tuple[G, list[str]]:
    """`before` with the changes of `wanted` that are possible at runtime, and the flags of those that need a restart."""
    changes: dict[str, Any] = {}
    needs_restart: list[str] = []
    for field in dataclasses.fields(before):
        old, new = getattr(before, field.name), getattr(wanted, field.name)
        if old == new:
            continue
        settings = field.metadata[_SETTINGS]
        if _IS_GROUP in field.metadata:
            changes[field.name], more = reloaded(old, new)
            needs_restart += more
        elif all(one.is_reloadable for one in settings):
            changes[field.name] = new
        else:
            needs_restart += [one.flag for one in settings]
    return dataclasses.replace(before, **changes), needs_restart
