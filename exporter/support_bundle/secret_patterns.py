"""What looks like a secret or like a tenant's path in any text, whatever program wrote it.

In: a text. Out: the text without it. Rather too much is removed than too little: a reader of the bundle can ask for more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

REMOVED: Final = "[removed]"
DIRECTORY: Final = "[directory]"

_NAMES: Final = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|token|credential|api[-_.]?key|access[-_.]?key|private[-_.]?key|account[-_.]?key"
    r"|auth[-_.]?key|signing[-_.]?key|encryption[-_.]?key|session[-_.]?(?:id|key)|connection[-_.]?string"
)
"""Parts of the name of an option, a variable or a member that holds a secret."""
_SHORT_NAMES: Final = r"pass|auth|dsn|apikey|sig|signature|sas"
"""Whole words of such a name."""
_SECRET_NAME: Final = rf"(?:[\w-]{{0,60}}(?:{_NAMES})[\w.-]{{0,60}}|(?:[\w-]{{0,60}}[-_])?(?:{_SHORT_NAMES}))"
_VALUE: Final = r"(?:\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?|[^\s\"',;&}]+)"
_HEADERS: Final = (
    r"(?:set-)?cookie2?|(?:proxy-)?authorization|www-authenticate|x-[\w-]{0,40}(?:key|token|secret|auth|signature)"
)
_TOKENS: Final = (
    r"hf_[A-Za-z0-9]{8,}|api_org_[A-Za-z0-9]{8,}",  # Hugging Face
    r"gh[a-z]_[A-Za-z0-9]{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|gl[a-z]{2,5}-[\w-]{16,}",
    r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ABIA|ACCA)[A-Z0-9]{8,}",  # AWS
    r"xox[a-z](?:\.xox[a-z])?-[\w-]{8,}|xapp-[\w-]{8,}",  # Slack
    r"(?:sk|rk|pk)[-_](?:live|test|ant|proj|or|lf|svcacct|admin)?[\w-]{12,}",  # OpenAI, Anthropic, Stripe and alike
    r"AIza[\w-]{16,}|ya29\.[\w.-]{8,}|GOCSPX-[\w-]{8,}",  # Google
    r"nvapi-[\w-]{8,}|wandb_[\w-]{16,}|gsk_\w{16,}|r8_\w{16,}|tgp_[\w-]{16,}|lsv2_\w{16,}|fw_\w{16,}",
    r"npm_\w{16,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{8,}|SG\.[\w-]{8,}\.[\w-]{8,}|hv[bsr]\.[\w-]{8,}|dop_v1_\w{16,}|glsa_\w{16,}",
    r"eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*){0,3}",  # a JSON web token, signed or encrypted
    r"\d{8,10}:AA[\w-]{30,}",  # Telegram
    r"[0-9a-f]{40}(?![0-9a-f])",  # Weights & Biases, and other keys that are SHA-1
    r"AGE-SECRET-KEY-[A-Z0-9]{8,}",
)


def _without_user(match: re.Match[str]) -> str:
    """`://ann:pw@host/x` -> `://[removed]@host/x`."""
    user, at, rest = match[0].rpartition("@")
    return f"://{REMOVED}@{rest}" if at and user and rest else match[0]


_PATTERNS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL), REMOVED),
    # The whole of a URL is matched at once, and then its last @ is looked for: else each :// in it would be tried.
    (re.compile(r"://[^\s\"'<>]+"), _without_user),
    (re.compile(rf"\b({_HEADERS})([\"']?\s*[=:]\s*)[^\r\n]+", re.IGNORECASE), rf"\1\2{REMOVED}"),
    (re.compile(r"\b(Bearer|Basic|Negotiate|ApiKey)\s+[\w.~+/=-]{4,}", re.IGNORECASE), rf"\1 {REMOVED}"),
    (re.compile(r"\$(?:2[abxy]?|1|5|6|7|y|argon2\w*|scrypt)\$[\w./$+=,-]{8,}"), REMOVED),  # a hashed password
    (
        re.compile(rf"(?<![\w-])(--?{_SECRET_NAME}(?<!-file))(\s+)(?!-|\[removed\]){_VALUE}", re.IGNORECASE),
        rf"\1\2{REMOVED}",
    ),
    (re.compile(r"(?<![\w-])(-u|--user)(\s+|=)[^\s:]{1,128}:\S+"), rf"\1\2{REMOVED}"),
    (
        re.compile(
            rf"(?<![\w-])(-{{0,2}}{_SECRET_NAME})([\"']?\s*(?:=|:|%3D)\s*)(\"?)(?!//|\[removed\]){_VALUE}",
            re.IGNORECASE,
        ),
        rf"\1\2\3{REMOVED}",
    ),
    (re.compile(r"(?<=[?&])(key|sig|code|k|t|auth|se|skt?)=[^&\s\"'#]+", re.IGNORECASE), rf"\1={REMOVED}"),
    (re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_TOKENS)})"), REMOVED),
    (re.compile(r"(?<=/home/)[^/\s\"':,;]+|(?<=/Users/)[^/\s\"':,;]+"), "[user]"),
    (re.compile(r"\b(comm|exe|cmdline|proctitle|acct|user|hostname)=(\"[^\"]*\"|[^\s\"]\S*)"), rf"\1={REMOVED}"),
)
IS_SECRET_NAME: Final = re.compile(rf"(?!.*[-_.]file$){_SECRET_NAME}|{_HEADERS}", re.IGNORECASE)
"""Matches the whole name of a member whose value is removed."""

# ---- paths

_PATH: Final = re.compile(r"(?<![\w/\]@.~…-])/(?!/)[^\s\"'`:,;()<>|{}\\]+")
_OF_PROCESS: Final = re.compile(r"(/proc/(?:\d+|self|thread-self)/(?:task/\d+/)?(?:root|cwd))(/.*)")
_SYSTEM: Final = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys", "usr")
"""Directories that belong to the machine, whole."""
_OWN: Final = (
    "/var/lib/gpu-stall-exporter",
    "/run/gpu-stall-exporter",
    "/var/log/",
    "/run/systemd/",
    "/run/containerd/",
)
_KNOWN: Final = re.compile(
    r"\[user\]|home|Users|root|opt|srv|mnt|var|run|tmp|app|apps|local|share|s?bin|lib(?:32|64|exec)?|include|src|targets"
    r"|x86_64-linux(?:-gnu)?|aarch64-linux(?:-gnu)?|sbsa-linux|python\d(?:\.\d+)?|(?:site|dist)-packages|\.?v?envs?|env"
    r"|(?:mini|ana)?conda\d?|(?:mini|micro)?mamba|miniforge\d?|pkgs|nvidia|cuda(?:-\d+(?:\.\d+)?)?|cu\d\d|cuda_runtime|nccl|cudnn"
    r"|cublas|torch|triton|jax(?:lib)?|tensorflow|vllm|hpcx?|hpc_sdk|gpu-stall-exporter|containerd|docker|overlay2?|kubelet|pods"
    r"|\.\.?|metrics|healthz|readyz|v\d|logs|traces|api|otlp"
)
_LIBRARY: Final = re.compile(r"(?:lib)?[\w+.-]{1,60}\.so(?:\.[\d.]{1,20})?|python\d?(?:\.\d+)?")
_LISTED: Final = re.compile(r"history\.sqlite\S{0,30}|recordings|exporter\.toml|web\.ya?ml|config")


def without_secrets(text: str) -> str:
    """Everything that looks like a secret becomes `[removed]`, directories of tenants `[directory]`."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return _PATH.sub(_shown_path, text)


def _shown_path(match: re.Match[str]) -> str:
    return _without_names(match[0])


def _without_names(path: str) -> str:
    """`/scratch/ann/lib/libnccl.so.2` -> `/[directory]/[directory]/lib/libnccl.so.2`."""
    inside = _OF_PROCESS.fullmatch(path)
    if inside:
        return inside[1] + _without_names(inside[2])
    first, *rest = path[1:].split("/")
    if first in _SYSTEM or path.startswith(_OWN) or not any(rest):
        return path
    *folders, last = (first, *rest)
    shown = [_shown(folder, _KNOWN.fullmatch) for folder in folders]
    return "/".join(("", *shown, _shown(last, _is_known_file)))


def _is_known_file(name: str) -> object:
    return not name or _LIBRARY.fullmatch(name) or _KNOWN.fullmatch(name) or _LISTED.fullmatch(name)


def _shown(name: str, is_known: Callable[[str], object]) -> str:
    return name if is_known(name) or name.startswith("[") else DIRECTORY
