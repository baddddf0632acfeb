"""Answers of NCCL's RAS as tests need them: in JSON as NCCL lays it out, a member on each line, and in the text forms."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

HOST = "10.0.0.2"


def a_rank(rank: int, tgid: int, **changes: Any) -> dict[str, Any]:
    """One that answers. launched: counts by operation."""
    launched = changes.pop("launched", {"AllReduce": 100})
    status = {
        "init_state": 0,
        "async_error": 0,
        "finalize_called": False,
        "destroy_flag": False,
        "abort_flag": False,
    }
    place = {"host": HOST, "pid": tgid, "cuda_dev": rank, "nvml_dev": rank}
    return {"rank": rank} | place | {"status": status | changes, "collective_counts": launched}


def a_missing_rank(rank: int, tgid: int, *, unresponsive: bool = True, dead: bool = False) -> dict[str, Any]:
    """One of which NCCL has no data."""
    place = {"host": HOST, "pid": tgid, "cuda_dev": rank, "nvml_dev": rank}
    return {"rank": rank} | place | {"status": {"unresponsive": unresponsive, "considered_dead": dead}}


def a_communicator(
    ranks: Sequence[Mapping[str, Any]], missing: Sequence[Mapping[str, Any]] = (), /, **changes: Any
) -> dict[str, Any]:
    """It has as many ranks as are given, with those that are missing."""
    found = {
        "hash": "0xae94423cfbb2ef4a",
        "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
        "size": len(ranks) + len(missing),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(missing),
        "ranks": list(ranks),
        "missing_ranks": list(missing),
    }
    return found | changes


def in_json(*communicators: Mapping[str, Any], version: str = "2.29.1", timeouts: int = 0) -> bytes:
    """A whole answer."""
    document = {
        "nccl_version": version,
        "cuda_runtime_version": 13000,
        "cuda_driver_version": 13000,
        "timestamp": "2025-12-19 13:06:53",
        "communicators_count": len(communicators),
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.0, "timeouts_count": timeouts},
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def without_comma(answer: bytes) -> bytes:
    """As 2.28.9 writes it where ranks are missing."""
    before, name, after = answer.partition(b'"missing_ranks": [')
    return before + name + re.sub(rb'("nvml_dev": [0-9]+),', rb"\1", after)


def in_text(groups: str, errors: str = "", warnings: str = "", version: str = "2.26.2") -> bytes:
    """A whole answer. groups: rows of the table of communicators."""
    return f"""\
NCCL version {version} compiled with CUDA 12.4
CUDA runtime version 12040, driver version 12040

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.01s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
{groups}
Errors
======

{errors}
Warnings
========

{warnings}
""".encode()


EIGHT_OK = "    0         1         2         4         8         8   RUNNING      OK\n"
EIGHT_INCOMPLETE = "    0         1         2       3-4         8         8   RUNNING  INCOMPLETE\n"
EIGHT_MISMATCH = "    0         1         2         4         8         8   RUNNING  MISMATCH\n"
