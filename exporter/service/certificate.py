"""A self-signed certificate for the names of this machine, and the --web.config.file that uses it. Made by openssl."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from exporter.errors import BadInput, NotPossibleHere
from exporter.files import content

DAYS: Final = 825
_SECONDS: Final = 30.0
_CERTIFICATE, _KEY, _CONFIG = "serve.crt", "serve.key", "web.yml"
_PRIVATE: Final = 0o600


def make_certificate(folder: Path, names: Iterable[str]) -> Path:
    """The configuration file in the folder. names: DNS names and addresses. Raises BadInput and NotPossibleHere."""
    certificate, key, config = (folder / name for name in (_CERTIFICATE, _KEY, _CONFIG))
    if existing := [one.name for one in (certificate, key, config) if one.exists()]:
        raise BadInput(f"--make-certificate: {folder} has {', '.join(existing)} already", remedy="use another folder")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key.touch(_PRIVATE, exist_ok=False)
    except OSError as error:
        raise BadInput(f"--make-certificate: cannot write to {folder}: {error.strerror}") from None
    alternative = ",".join(f"{'IP' if _is_address(name) else 'DNS'}:{name}" for name in names)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", str(DAYS), "-subj", "/CN=gpu-stall-exporter", "-addext", f"subjectAltName={alternative}"]
    command += ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except FileNotFoundError:
        key.unlink()
        raise NotPossibleHere("--make-certificate: openssl is missing", remedy="install the package openssl") from None
    except (OSError, subprocess.SubprocessError) as error:
        key.unlink()
        reason = getattr(error, "stderr", None) or str(error)
        raise NotPossibleHere(f"--make-certificate: openssl failed: {str(reason).strip().splitlines()[-1]}") from None
    lines = f"tls_server_config:\n  cert_file: {_CERTIFICATE}\n  key_file: {_KEY}\n"
    content.replace(config, [lines.encode()])
    return config


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()
