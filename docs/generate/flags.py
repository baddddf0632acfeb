"""docs/flags.md, from the settings."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generate.markdown import GENERATED, code, table
from exporter import config
from exporter.config.setting import Setting
from exporter.config.toml_file import ENABLED
from exporter.errors import EXIT_CODES


def flags_page() -> str:
    """docs/flags.md."""
    return "\n\n".join(_flags_sections()) + "\n"


def _flags_sections() -> Iterator[str]:
    yield "# Flags"
    yield GENERATED
    yield (
        "For operators who configure the exporter: every setting of `run`, with its default, its environment variable and its key"
        " in the file. `check` takes the same settings, because they decide what is checked."
    )
    yield table(
        ("flag", "value", "default", "meaning", "environment variable", "reload"),
        map(_flag_row, (config.CONFIG_FILE, *config.SETTINGS)),
    )
    yield (
        "A BOOL may be left out: `--web.open-health` is `--web.open-health=true`. `--no-collector.nccl` is"
        " `--collector.nccl=false`. A DURATION is a number and one of `ms`, `s`, `m`, `h`; a SIZE is a number and one of `KiB`,"
        " `MiB`, `GiB`. `check` has two more flags: `--format=text` or `--format=json`, and `--support-bundle=FILE`, which"
        " writes a tar.gz for a bug report, without secrets. `explain`, `query` and `export` share `--history.path` and its"
        " variable, and have flags of their own: [history.md](history.md), [query.md](query.md), [timeline.md](timeline.md)."
    )
    yield (
        "Settings with “yes” under reload change at runtime: `SIGHUP`, or `POST /-/reload` with `--web.enable-lifecycle`, reads"
        " the file again. Changes of other settings are logged and need a restart."
    )
    yield "## File"
    yield (
        "`--config.file` names a TOML file. A key is the flag without its dashes, and a dot makes a table. A collector with"
        " settings of its own is a table, whose switch is `enabled`. Unknown keys are refused. Every default, as a file:"
    )
    yield f"```toml\n{toml_defaults()}```"
    yield (
        "A table `[otlp.receiver.NAME]` adds an OTLP receiver. It takes the keys of `[otlp]`, except `service-name` and"
        " `resource-attributes`, which are the same for all receivers. [push.md](push.md) has an example."
    )
    yield "## Environment"
    yield (
        "Flags of every command have a variable: `GPUSTALL_` and the flag in upper case, with underscores for dots and dashes."
        " Those that act, `--confirm`, `--yes` and `--force`, have none. `top --url=gpu7:10478` is"
        " `GPUSTALL_URL=gpu7:10478`, for `explain` as well; a flag without a value, such as"
        " `--once`, is on with `true`. An empty variable counts as not set. Unknown variables that begin with `GPUSTALL_` are"
        " ignored with a warning; those that Kubernetes sets for a Service, such as `GPUSTALL_EXPORTER_SERVICE_HOST`, without"
        " one."
    )
    yield (
        "These variables of other programs are read as well; the first one that is set counts, and `GPUSTALL_…` comes before"
        " them:"
    )
    yield table(
        ("flag", "environment variable"),
        ((f"`--{s.flag}`", code(s.also)) for s in config.SETTINGS if s.also),
    )
    yield (
        "In `OTEL_…` variables, durations are in milliseconds, the values of headers and attributes are percent-encoded, and"
        " `OTEL_EXPORTER_OTLP_HEADERS` holds the headers themselves, as OpenTelemetry specifies. With `OTEL_SDK_DISABLED=true`,"
        " or an `OTEL_METRICS_EXPORTER` without `otlp`, the variables of a receiver are ignored. Logs and traces have variables"
        " of their own, with `LOGS` and `TRACES` instead of `METRICS`. Pushes honor `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`."
    )
    yield "## Precedence"
    yield (
        "A flag overrides its variable `GPUSTALL_…`, the variable overrides the file, the file overrides variables of other"
        " programs, and these override the default."
    )
    yield "## Output"
    yield (
        "On a terminal, lines are wrapped between words and `check` and `top` use colours, unless `NO_COLOR` is set or `TERM` is"
        " `dumb`. In a file or a pipe no line is wrapped. A character that the encoding of the output lacks is replaced."
    )
    yield "## Exit codes"
    yield table(("code", "meaning"), EXIT_CODES.items())


def _flag_row(one: Setting) -> tuple[str, ...]:
    default = f"`{one.default}`" if one.default else ""
    return f"`--{one.flag}`", one.metavar, default, one.help, f"`{one.variable}`", "yes" if one.is_reloadable else ""


def toml_defaults() -> str:
    """A file with every default; settings without one are left out."""
    tables: dict[str, list[str]] = {}
    for setting in config.SETTINGS:
        table_name, _, key = setting.flag.rpartition(".")
        if any(other.flag.startswith(f"{setting.flag}.") for other in config.SETTINGS):
            table_name, key = setting.flag, ENABLED
        if setting.default:
            plain = setting.default in ("true", "false") or setting.default.isdigit()
            value = setting.default if plain else f'"{setting.default}"'
            tables.setdefault(table_name, []).append(f"{key} = {value}\n")
    return "\n".join(f"[{name}]\n" + "".join(lines) for name, lines in tables.items())
