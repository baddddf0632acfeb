"""Reads GPUs from the NVIDIA driver: the only module that uses NVML, through nvidia-ml-py.

In: libnvidia-ml.so.1, a part of the driver. Out: frozen records of exporter/gpu/model.py. Any call may block for as long as the
driver likes, so each is preceded by before_call(), from which exporter/gpu/call_timeout.py knows its name and start.

Nothing is imported before the library is there: nvidia-ml-py takes 1.6 MiB and 10 ms, 4.3 MiB where it is compiled first. A
sample is 15 calls: 0.2 ms with the stand-in. An open handle keeps the driver from being unloaded and the GPU from being reset.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from exporter.errors import NotPossibleHere
from exporter.gpu.call_timeout import BeforeCall
from exporter.gpu.driver_calls import DriverFailure, OptionalCalls
from exporter.gpu.model import FailureKind, GpuFacts, GpuMemory, GpuProcess, Instance, Sample

LIBRARY: Final = "libnvidia-ml.so.1"
MAX_GPUS: Final = 64
PCIE_SECONDS: Final = 10.0
"""Between two readings of PCIe throughput, where the driver does not count bytes: each reading takes twice 20 ms."""
LINKS_SECONDS: Final = 30.0
"""Between two readings of errors of single NVLinks: 54 values, each of which the driver may fetch from the GPU."""

_MEMORY_V2: Final = 0x02000028
_SLOWDOWN: Final = 1  # NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
_TEMPERATURE_OF_GPU: Final = 0
_SM, _MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_PCIE_SENT, _PCIE_RECEIVED = 0, 1  # NVML_PCIE_UTIL_TX_BYTES, _RX_BYTES
_XID: Final = 0x8  # nvmlEventTypeXidCriticalError
_MAX_XIDS: Final = 64  # taken from the driver for one sample
_ALL_LINKS: Final = 0xFFFFFFFF
_MAX_LINKS: Final = 18
_KIB, _KB = 1024, 1000
_MHZ: Final = 1_000_000

_NOT_LOADED: Final = frozenset({9, 12})  # DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND
_UNSUPPORTED: Final = frozenset({3, 6, 26})  # NOT_SUPPORTED, NOT_FOUND, DEPRECATED
_TIMEOUT: Final = 10
_KINDS: Final = {
    1: FailureKind.RELOADED,  # UNINITIALIZED
    2: FailureKind.RECONFIGURED,  # INVALID_ARGUMENT, of a handle
    4: FailureKind.NO_PERMISSION,
    9: FailureKind.RELOADED,  # DRIVER_NOT_LOADED
    13: FailureKind.NO_FUNCTION,
    15: FailureKind.LOST,  # GPU_IS_LOST
    16: FailureKind.RESET_REQUIRED,
    18: FailureKind.RELOADED,  # LIB_RM_VERSION_MISMATCH: another driver than the library's
    25: FailureKind.NO_FUNCTION,  # ARGUMENT_VERSION_MISMATCH
    28: FailureKind.LOST,  # GPU_NOT_FOUND
}


class _Field(NamedTuple):
    """A field value. scope: for NVLink, the link, or all of them."""

    number: int
    scope: int = 0


_MEMORY_CELSIUS, _ENERGY = _Field(82), _Field(83)
_CORRECTED, _UNCORRECTED = _Field(3), _Field(4)
_CORRECTED_PAGES, _UNCORRECTED_PAGES, _PAGES_PENDING = _Field(29), _Field(30), _Field(31)
_CORRECTED_ROWS, _UNCORRECTED_ROWS, _ROWS_PENDING, _ROWS_FAILED = (_Field(number) for number in (142, 143, 144, 145))
_PCIE_REPLAYS = _Field(94)
_PCIE_SENT_BYTES, _PCIE_RECEIVED_BYTES = _Field(197), _Field(198)
_NVLINK_SENT, _NVLINK_RECEIVED = _Field(138, _ALL_LINKS), _Field(139, _ALL_LINKS)
_REPLAYS, _RECOVERIES, _CRC_ERRORS = _Field(52), _Field(59), _Field(38)
_BY_LINK: Final = {_REPLAYS: 161, _RECOVERIES: 162, _CRC_ERRORS: 163}
"""Field of the sum over all links -> field of one link. From Hopper on only the latter exists."""
_FIELDS: Final = (
    *(_MEMORY_CELSIUS, _ENERGY, _CORRECTED, _UNCORRECTED, _CORRECTED_PAGES, _UNCORRECTED_PAGES, _PAGES_PENDING),
    *(_CORRECTED_ROWS, _UNCORRECTED_ROWS, _ROWS_PENDING, _ROWS_FAILED, _PCIE_REPLAYS, _PCIE_SENT_BYTES),
    *(_PCIE_RECEIVED_BYTES, _NVLINK_SENT, _NVLINK_RECEIVED, _REPLAYS, _RECOVERIES, _CRC_ERRORS),
)
_VALUE_OF_TYPE: Final = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_WIDE_TYPES: Final = frozenset({2, 3, 4})


class Nvml:
    """The driver. Every method may block for ever."""

    def __init__(self) -> None:
        self._pynvml: Any = None
        self.version = ""
        """Version of the driver, once it is open."""

    def open(self, before_call: BeforeCall) -> None:
        """Raises NotPossibleHere without a driver, and DriverFailure when it refuses."""
        before_call(f"dlopen({LIBRARY})")
        try:
            ctypes.CDLL(LIBRARY)
        except OSError:
            raise NotPossibleHere(
                f"no {LIBRARY}: the NVIDIA driver is not installed, or not visible in this container"
            ) from None
        try:
            import pynvml  # noqa: PLC0415 - memory, only for those who have a driver
        except ImportError as error:
            raise NotPossibleHere("nvidia-ml-py is not installed: no GPU metrics") from error
        self._pynvml = pynvml
        try:
            self.call(before_call, "nvmlInit")
        except DriverFailure as error:
            if error.code in _NOT_LOADED:
                raise NotPossibleHere(f"the NVIDIA driver is not loaded ({error})") from error
            raise
        self.version = str(self.call(before_call, "nvmlSystemGetDriverVersion"))

    def close(self, before_call: BeforeCall) -> None:
        """Needed before it is opened again. Raises DriverFailure."""
        self.call(before_call, "nvmlShutdown")

    def count(self, before_call: BeforeCall) -> int:
        """How many GPUs there are. Raises DriverFailure."""
        return min(int(self.call(before_call, "nvmlDeviceGetCount")), MAX_GPUS)

    def gpu(self, index: int, before_call: BeforeCall) -> NvmlGpu:
        """A GPU, ready to be sampled. Raises DriverFailure."""
        return NvmlGpu(self, index, before_call)

    def call(self, before_call: BeforeCall, name: str, *arguments: Any) -> Any:
        """The result of a function of NVML. Raises DriverFailure."""
        before_call(name)
        pynvml = self._pynvml
        try:
            return getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            code = int(error.value)
            kind = _KINDS.get(code, FailureKind.DRIVER)
            raise DriverFailure(name, kind, str(error), code=code, is_unsupported=code in _UNSUPPORTED) from error
        except (AttributeError, pynvml.NVMLLibraryMismatchError) as error:
            raise DriverFailure(name, FailureKind.NO_FUNCTION, "not in this driver", code=13) from error

    def fields(self, before_call: BeforeCall, handle: Any, wanted: Iterable[_Field]) -> dict[_Field, tuple[int, bool]]:
        """Field -> value, and whether it has 64 bits; only fields that the GPU has. Raises DriverFailure."""
        fields = list(wanted)
        values = self.call(before_call, "nvmlDeviceGetFieldValues", handle, [(one.number, one.scope) for one in fields])
        return {
            field: (int(getattr(value.value, _VALUE_OF_TYPE[value.valueType])), value.valueType in _WIDE_TYPES)
            for field, value in zip(fields, values, strict=True)
            if value.nvmlReturn == 0 and value.valueType in _VALUE_OF_TYPE
        }


class NvmlGpu:
    """One GPU, by a handle that is valid until the driver is reloaded. One thread at a time may use it."""

    def __init__(self, nvml: Nvml, index: int, before_call: BeforeCall) -> None:
        self._nvml = nvml
        self._calls = OptionalCalls(nvml.call)
        self._handle = self._calls.handle = nvml.call(before_call, "nvmlDeviceGetHandleByIndex", index)
        self._xids: list[int] = []
        self._pcie_read_at = -PCIE_SECONDS
        self._pcie: tuple[int | None, int | None] = (None, None)
        self._events = self._open_events(before_call)
        self.facts = self._facts(index, before_call)
        self._links = self._find_links(before_call)
        self._links_read_at = -LINKS_SECONDS
        self._link_errors: dict[_Field, int] = {}

    def sample(self, before_call: BeforeCall) -> Sample:
        """Raises DriverFailure when no call succeeds. Values of single calls that fail are None; see take_failures()."""
        if str(self._nvml.call(before_call, "nvmlDeviceGetUUID", self._handle)) != self.facts.uuid:
            raise DriverFailure("nvmlDeviceGetUUID", FailureKind.RECONFIGURED, "another GPU has this number now")
        self._collect_xids(before_call)
        sample = self._with_fields(before_call, self._plain(before_call))
        if sample.pcie_sent_bytes is None:
            received, sent = self._pcie_throughput(before_call)
            sample = sample._replace(pcie_received_bytes_per_second=received, pcie_sent_bytes_per_second=sent)
        mode = self._calls.value(before_call, "nvmlDeviceGetMigMode", self._handle)
        if mode is None or not mode[0]:
            processes = self._processes(before_call, self._handle)
            return sample._replace(is_mig=None if mode is None else False, processes=processes)
        instances = tuple(self._instances(before_call))
        known = [one.processes for one in instances if one.processes is not None]
        processes = tuple(itertools.chain.from_iterable(known)) if known or not instances else None
        return sample._replace(is_mig=True, instances=instances, processes=processes)

    def take_failures(self) -> list[DriverFailure]:
        """Failures of single calls since the last time."""
        return self._calls.take_failures()

    def take_xids(self) -> list[int]:
        """Numbers of the XID errors since the last time, also when the sample failed."""
        found, self._xids = self._xids, []
        return found

    def close(self, before_call: BeforeCall) -> None:
        """Release the set of events. Raises DriverFailure."""
        if self._events is not None:
            events, self._events = self._events, None
            self._nvml.call(before_call, "nvmlEventSetFree", events)

    def _facts(self, index: int, before_call: BeforeCall) -> GpuFacts:
        value, handle = partial(self._calls.value, before_call), self._handle
        pci = value("nvmlDeviceGetPciInfo", handle)
        return GpuFacts(
            gpu=str(index),
            uuid=str(self._nvml.call(before_call, "nvmlDeviceGetUUID", handle)),
            model=str(self._nvml.call(before_call, "nvmlDeviceGetName", handle)),
            pci_bus_id=_decoded(pci.busId) if pci else "",
            driver_version=self._nvml.version,
            sm_clock_max_hz=_times(_MHZ, value("nvmlDeviceGetMaxClockInfo", handle, _SM)),
            memory_clock_max_hz=_times(_MHZ, value("nvmlDeviceGetMaxClockInfo", handle, _MEMORY)),
            slowdown_celsius=value("nvmlDeviceGetTemperatureThreshold", handle, _SLOWDOWN),
            link_generation_max=value("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            link_width_max=value("nvmlDeviceGetMaxPcieLinkWidth", handle),
        )

    def _plain(self, before_call: BeforeCall) -> Sample:
        """What has a function of its own."""
        value, handle = partial(self._calls.value, before_call), self._handle
        utilization = value("nvmlDeviceGetUtilizationRates", handle)
        reasons = self._calls.either(
            before_call,
            ("nvmlDeviceGetCurrentClocksEventReasons", handle),
            ("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
        )
        return Sample(
            reasons=reasons,
            sm_clock_hz=_times(_MHZ, value("nvmlDeviceGetClockInfo", handle, _SM)),
            memory_clock_hz=_times(_MHZ, value("nvmlDeviceGetClockInfo", handle, _MEMORY)),
            power_mw=value("nvmlDeviceGetPowerUsage", handle),
            power_limit_mw=value("nvmlDeviceGetEnforcedPowerLimit", handle),
            celsius=value("nvmlDeviceGetTemperature", handle, _TEMPERATURE_OF_GPU),
            utilization_percent=utilization.gpu if utilization else None,
            memory_utilization_percent=utilization.memory if utilization else None,
            memory=self._memory(before_call, handle),
            link_generation=value("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            link_width=value("nvmlDeviceGetCurrPcieLinkWidth", handle),
        )

    def _with_fields(self, before_call: BeforeCall, sample: Sample) -> Sample:
        """What is a field value."""
        found = self._fields(before_call, _FIELDS)
        values = self._read_link_errors(before_call) | {field: value for field, (value, _) in found.items()}
        pending = [values[one] for one in (_PAGES_PENDING, _ROWS_PENDING) if one in values]

        def wide(field: _Field) -> int | None:
            """A count of bytes in 32 bits wraps several times a second, and is useless."""
            return found[field][0] if found.get(field, (0, False))[1] else None

        return sample._replace(
            memory_celsius=values.get(_MEMORY_CELSIUS),
            energy_mj=values.get(_ENERGY),
            corrected_errors=values.get(_CORRECTED),
            uncorrected_errors=values.get(_UNCORRECTED),
            corrected_pages=values.get(_CORRECTED_PAGES),
            uncorrected_pages=values.get(_UNCORRECTED_PAGES),
            corrected_rows=values.get(_CORRECTED_ROWS),
            uncorrected_rows=values.get(_UNCORRECTED_ROWS),
            is_repair_pending=any(pending) if pending else None,
            has_repair_failed=bool(values[_ROWS_FAILED]) if _ROWS_FAILED in values else None,
            pcie_received_bytes=wide(_PCIE_RECEIVED_BYTES),
            pcie_sent_bytes=wide(_PCIE_SENT_BYTES),
            pcie_replays=values.get(_PCIE_REPLAYS),
            nvlink_received_bytes=_times(_KIB, values.get(_NVLINK_RECEIVED)),
            nvlink_sent_bytes=_times(_KIB, values.get(_NVLINK_SENT)),
            nvlink_replays=values.get(_REPLAYS),
            nvlink_recoveries=values.get(_RECOVERIES),
            nvlink_crc_errors=values.get(_CRC_ERRORS),
        )

    def _fields(self, before_call: BeforeCall, wanted: Iterable[_Field]) -> dict[_Field, tuple[int, bool]]:
        return self._calls.attempt(lambda: self._nvml.fields(before_call, self._handle, wanted), {})

    def _find_links(self, before_call: BeforeCall) -> tuple[_Field, ...]:
        """Fields of single links, for errors of which this GPU has no sum over all links."""
        sums = self._fields(before_call, _BY_LINK)
        wanted = [
            _Field(number, link)
            for total, number in _BY_LINK.items()
            if total not in sums
            for link in range(_MAX_LINKS)
        ]
        return tuple(self._fields(before_call, wanted)) if wanted else ()

    def _read_link_errors(self, before_call: BeforeCall) -> dict[_Field, int]:
        """Sums over single links; of the last reading until the next one is due."""
        now = time.monotonic()
        if self._links and now - self._links_read_at >= LINKS_SECONDS:
            self._links_read_at = now
            found = self._fields(before_call, self._links)
            for total, number in _BY_LINK.items():
                of_links = [value for field, (value, _) in found.items() if field.number == number]
                if of_links:
                    self._link_errors[total] = sum(of_links)
        return self._link_errors

    def _pcie_throughput(self, before_call: BeforeCall) -> tuple[int | None, int | None]:
        """Bytes received and sent per second; of the last reading until the next one is due."""
        now = time.monotonic()
        if now - self._pcie_read_at >= PCIE_SECONDS:
            self._pcie_read_at = now
            received, sent = (
                _times(_KB, self._calls.value(before_call, "nvmlDeviceGetPcieThroughput", self._handle, way))
                for way in (_PCIE_RECEIVED, _PCIE_SENT)
            )
            self._pcie = received, sent
        return self._pcie

    def _memory(self, before_call: BeforeCall, handle: Any) -> GpuMemory | None:
        info = self._calls.either(
            before_call, ("nvmlDeviceGetMemoryInfo", handle, _MEMORY_V2), ("nvmlDeviceGetMemoryInfo", handle)
        )
        if info is None:
            return None
        return GpuMemory(info.total, info.used, info.free, getattr(info, "reserved", None))

    def _processes(self, before_call: BeforeCall, handle: Any) -> tuple[GpuProcess, ...] | None:
        found = self._calls.value(before_call, "nvmlDeviceGetComputeRunningProcesses_v3", handle)
        return None if found is None else tuple(GpuProcess(one.pid, one.usedGpuMemory) for one in found)

    def _instances(self, before_call: BeforeCall) -> Iterable[Instance]:
        """One for each GPU instance, whose memory its compute instances share. Their handles change, and are read each time."""
        value = partial(self._calls.value, before_call)
        found: dict[str, Instance] = {}
        for index in range(value("nvmlDeviceGetMaxMigDeviceCount", self._handle) or 0):
            handle = value("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, index)
            number = None if handle is None else value("nvmlDeviceGetGpuInstanceId", handle)
            if number is None:
                continue
            mig, processes = str(number), self._processes(before_call, handle)
            if mig in found:
                if processes is not None:
                    found[mig] = found[mig]._replace(processes=(*(found[mig].processes or ()), *processes))
                continue
            uuid, model = (value(name, handle) or "" for name in ("nvmlDeviceGetUUID", "nvmlDeviceGetName"))
            found[mig] = Instance(mig, uuid, model, self._memory(before_call, handle), processes)
        return found.values()

    def _open_events(self, before_call: BeforeCall) -> Any:
        """A set of events for each GPU: in a shared set, one lost GPU makes the waiting for all others fail. None: no XIDs."""

        def register() -> Any:
            events = self._nvml.call(before_call, "nvmlEventSetCreate")
            self._nvml.call(before_call, "nvmlDeviceRegisterEvents", self._handle, _XID, events)
            return events

        return self._calls.attempt(register, None)

    def _collect_xids(self, before_call: BeforeCall) -> None:
        for _ in range(_MAX_XIDS if self._events is not None else 0):
            try:
                event = self._nvml.call(before_call, "nvmlEventSetWait", self._events, 0)
            except DriverFailure as error:
                if error.code != _TIMEOUT:
                    self._calls.record(error)
                return
            if event.eventType & _XID:
                self._xids.append(int(event.eventData))


def _times(factor: int, number: int | None) -> int | None:
    return None if number is None else number * factor


def _decoded(text: bytes | str) -> str:
    return text.decode("ascii", "replace") if isinstance(text, bytes) else text
