"""Names the functions that contain addresses of a process, with bcc. A program for the distribution's interpreter.

In: on standard input {"tgid": 4711, "addresses": [[address, is_return], ...]}. Out: on standard output a list with one
[name or null, offset, module or null] for each, the module's path as the process sees it.
bcc takes 130 MiB and a second, which end with this program. It imports nothing from this package.
"""

import json
import resource
import sys
from pathlib import Path

LIMIT_BYTES = 1 << 30
LIMIT_SECONDS = 20


def main() -> None:
    # When memory is short, the kernel kills this program first.
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
    from bcc import SymbolCache  # type: ignore[import-not-found]  # noqa: PLC0415 - within the limits

    request = json.load(sys.stdin)
    cache = SymbolCache(request["tgid"])
    found = []
    for address, is_return in request["addresses"]:
        # A call that never returns may be the last instruction of its function.
        name, offset, module = cache.resolve(address - is_return, True)
        found.append((_text(name), offset + is_return, _text(module)))
    json.dump(found, sys.stdout)


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
