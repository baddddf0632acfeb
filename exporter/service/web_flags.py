"""Flags of a server without privileges: its address, its certificate and its tokens. Without both it does not start."""

from __future__ import annotations

import argparse
import ipaddress
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from exporter.config import parsers
from exporter.errors import BadInput
from exporter.service.certificate import make_certificate
from exporter.service.tokens import new_token
from exporter.terminal.suggestion import suggest

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def add_arguments(parser: argparse.ArgumentParser, default_address: str) -> None:
    parser.add_argument(
        "--web.listen-address",
        dest="web.listen-address",
        default=default_address,
        metavar="HOST:PORT",
        help=f"address to serve on [{default_address}]",
    )
    parser.add_argument(
        "--web.config.file",
        dest="web.config.file",
        metavar="FILE",
        help="YAML file with the certificate and the rate limit (exporter-toolkit format)",
    )
    parser.add_argument(
        "--web.token-file", dest="web.token-file", metavar="FILE", help="TOML file with hashes of tokens"
    )
    parser.add_argument(
        "--web.insecure-no-tls", dest="web.insecure-no-tls", action="store_true", help="serve HTTP without encryption"
    )
    parser.add_argument(
        "--web.insecure-no-tokens",
        dest="web.insecure-no-tokens",
        action="store_true",
        help="answer requests without a token",
    )
    parser.add_argument(
        "--new-token", metavar="NAME", help="print a new token and its lines for --web.token-file, and exit"
    )
    parser.add_argument(
        "--make-certificate",
        metavar="FOLDER",
        help="make a certificate for this machine and a --web.config.file, and exit",
    )


def made(arguments: argparse.Namespace, command: str, names: tuple[str, ...]) -> bool:
    """Whether a token or a certificate was wanted, and is made. names: of this server. Raises BadInput and NotPossibleHere."""
    if arguments.new_token is not None:
        token, lines = new_token(arguments.new_token)
        print(f"token: {token}\n\n# for the file of --web.token-file\n{lines}", end="")
        suggest(f"{command} --web.token-file=FILE --web.config.file=FILE")
        return True
    if arguments.make_certificate is not None:
        config = make_certificate(Path(arguments.make_certificate), names)
        print(f"wrote {config}; it is for {', '.join(names)}")
        print(f"next: gpu-stall-exporter {command} --web.config.file={config} --web.token-file=FILE")
        return True
    return False


def secured(given: Mapping[str, object], command: str) -> tuple[Path | None, Path | None]:
    """The files of certificate and tokens; None where a flag says that none is wanted. Raises BadInput."""
    return (
        _secured(
            given,
            "web.config.file",
            "web.insecure-no-tls",
            f"{command} wants a certificate",
            f"gpu-stall-exporter {command} --make-certificate=FOLDER",
        ),
        _secured(
            given,
            "web.token-file",
            "web.insecure-no-tokens",
            f"{command} wants tokens",
            f"gpu-stall-exporter {command} --new-token=NAME",
        ),
    )


def address(text: str, flag: str) -> tuple[str, int]:
    try:
        ((host, port),) = parsers.addresses(text)
    except ValueError as error:
        raise BadInput(f"--{flag}: {error}") from None
    return host, port


def hosts(host: str, more: str) -> tuple[str, ...]:
    """Names of this server: of the address that it listens on, of the machine where it listens on all, and the given ones."""
    names = dict.fromkeys(_LOOPBACK)
    try:
        is_any = not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        is_any = False
    names |= dict.fromkeys((socket.gethostname(), socket.getfqdn()) if is_any else (host,))
    names |= dict.fromkeys(name.strip() for name in more.split(",") if name.strip())
    return tuple(names)


def _secured(given: Mapping[str, object], flag: str, insecure: str, wants: str, maker: str) -> Path | None:
    """The file of a flag; None where the other flag says that none is wanted. maker: a command. Raises BadInput."""
    path, is_insecure = given[flag], given[insecure]
    if bool(path) == bool(is_insecure):
        if path:
            raise BadInput(f"--{flag} cannot be combined with --{insecure}")
        raise BadInput(f"{wants}: --{flag}=FILE", remedy=f"`{maker}` makes one; --{insecure} does without")
    if not path:
        return None
    try:
        return parsers.absolute_file(str(path))
    except ValueError as error:
        raise BadInput(f"--{flag}: {error}") from None
