"""Completions of bash, zsh and fish: commands -> a script that needs nothing but the shell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exporter.manual.command import Command, Flag

_BASH_HEAD = """\
# Completion of {program} for bash, made by `{program} completion bash`.
_{function}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command="" flag="" word
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in
        {names}) command=$word; break ;;
        esac
    done
    # bash splits --flag=value into three words.
    if [[ $current == = ]]; then
        flag=$before current=""
    elif [[ $before == = ]]; then
        flag=${{COMP_WORDS[COMP_CWORD-2]}}
    elif [[ $before == --* ]]; then
        flag=$before
    fi
    case "$command $flag" in
"""
_BASH_MIDDLE = """\
    esac
    case $command in
"""
_BASH_TAIL = """\
    *) word="{words} --help --version" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$word" -- "$current")
    if [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == *= ]]; then
        compopt -o nospace
    fi
}}
complete -F _{function} {program}
"""


def bash(program: str, commands: Sequence[Command]) -> str:
    """For ~/.local/share/bash-completion/completions, or to be sourced."""
    names = [command.name for command in commands]
    function = program.replace("-", "_")
    lines = [_BASH_HEAD.format(program=program, function=function, names="|".join(names))]
    for command in commands:
        lines += [
            f'    "{command.name} {flag.name}") {_bash_values(flag)}; return ;;\n'
            for flag in command.flags
            if flag.value
        ]
    lines.append(_BASH_MIDDLE)
    for command in commands:
        words = [*command.words, "--help", *(f"{flag.name}{'=' * bool(flag.value)}" for flag in command.flags)]
        lines.append(f'    {command.name}) word="{" ".join(words)}" ;;\n')
    lines.append(_BASH_TAIL.format(program=program, function=function, words=" ".join(names)))
    return "".join(lines)


def _bash_values(flag: Flag) -> str:
    if flag.is_file or flag.is_folder:
        return (
            f'mapfile -t COMPREPLY < <(compgen -{"d" if flag.is_folder else "f"} -- "$current"); compopt -o filenames'
        )
    return f'mapfile -t COMPREPLY < <(compgen -W "{" ".join(flag.choices)}" -- "$current")' if flag.choices else ":"


def zsh(program: str, commands: Sequence[Command]) -> str:
    """For a folder of fpath, as the file _PROGRAM."""
    return "".join(_zsh_lines(program, commands))


def _zsh_lines(program: str, commands: Sequence[Command]) -> Iterator[str]:
    yield f"#compdef {program}\n# Completion of {program} for zsh, made by `{program} completion zsh`.\n"
    yield f"_{program}() {{\n    local curcontext=$curcontext state line\n    local -A opt_args\n"
    yield "    _arguments -C '--help[show the help]' '--version[show the version]' '1: :->command' '*:: :->flags'\n"
    yield "    case $state in\n    command)\n        local -a commands=(\n"
    for command in commands:
        yield f"            {_quoted(f'{command.name}:{command.purpose}')}\n"
    yield "        )\n        _describe command commands ;;\n    flags)\n        case $words[1] in\n"
    for command in commands:
        yield f"        {command.name})\n            _arguments '--help[show the help]' \\\n"
        for flag in command.flags:
            yield f"                {_quoted(_zsh_flag(flag))} \\\n"
        words = _quoted(f"*: :({' '.join(command.words)})")
        yield f"                {words} ;;\n"
    yield f'        esac ;;\n    esac\n}}\n_{program} "$@"\n'


def _zsh_flag(flag: Flag) -> str:
    text = "".join(f"\\{one}" if one in "[]:\\" else one for one in flag.help)
    if not flag.value:
        return f"{flag.name}[{text}]"
    action = "_files" if flag.is_file else "_files -/" if flag.is_folder else f"({' '.join(flag.choices)})"
    return f"{flag.name}=[{text}]:{flag.value.replace(':', '')}:{action}"


def fish(program: str, commands: Sequence[Command]) -> str:
    """For ~/.config/fish/completions."""
    return "".join(_fish_lines(program, commands))


def _fish_lines(program: str, commands: Sequence[Command]) -> Iterator[str]:
    yield f"# Completion of {program} for fish, made by `{program} completion fish`.\ncomplete -c {program} -f\n"
    yield f"complete -c {program} -l help -d 'show the help'\n"
    first = "-n __fish_use_subcommand"
    yield f"complete -c {program} {first} -l version -d 'show the version'\n"
    for command in commands:
        yield f"complete -c {program} {first} -a {command.name} -d {_quoted(command.purpose, fish=True)}\n"
    for command in commands:
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            yield f"complete -c {program} {seen} -a '{' '.join(command.words)}'\n"
        for flag in command.flags:
            value = ""
            if flag.value:
                value = " -r -F" if flag.is_file or flag.is_folder else f" -x -a '{' '.join(flag.choices)}'"
            text = _quoted(flag.help, fish=True)
            yield f"complete -c {program} {seen} -l {flag.name.removeprefix('--')}{value} -d {text}\n"


def _quoted(text: str, *, fish: bool = False) -> str:
    """Text in single quotes, inside of which fish knows a backslash, and zsh does not."""
    if fish:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\\''") + "'"
