"""The probed APIs: their names in labels, and the objects whose programs record their calls."""

from __future__ import annotations

from exporter.kernel.abi import Api

API_LABEL = {Api.RUNTIME: "runtime", Api.DRIVER: "driver", Api.NCCL: "nccl"}
SUBJECT_OF = {Api.RUNTIME: "cuda", Api.DRIVER: "cuda", Api.NCCL: "nccl"}
CALL_SUBJECTS = tuple(dict.fromkeys(SUBJECT_OF.values()))
