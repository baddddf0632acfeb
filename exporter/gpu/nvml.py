"""What does the NVIDIA driver tell of each GPU? The only module that sees NVML, by nvidia-ml-py, in this process.

In: libnvidia-ml.so.1, which is the driver's own. Out: frozen records of exporter/gpu/model.py. Any call may block for as long as
the driver likes. So its name is told beforehand, through `note`, to exporter/gpu/sampler.py, which does not wait itself.

Nothing is imported before the library is there: nvidia-ml-py takes 1.6 MiB and 10 ms, 4.3 MiB where it is compiled first. A
sample is 15 calls: 0.2 ms with the stand-in. An open handle keeps the driver from being unloaded and the GPU from being reset.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from exporter.errors import ExporterError, NotPossibleHere
from exporter.gpu.model import FailureKind, GpuFacts, GpuMemory, GpuProcess, Instance, Sample

LIBRARY: Final = "libnvidia-ml.so.1"
MAX_GPUS: Final = 64
PCIE_SECONDS: Final = 10.0
"""Between two looks at the PCIe throughput where the driver does not count bytes: each takes it 20 ms, twice."""
LINKS_SECONDS: Final = 30.0
"""Between two looks at the errors of single NVLinks: 54 values, each of which the driver may fetch from the GPU."""

Note = Callable[[str], None]
"""Is told the name of a function before it is called. What it raises ends the errand."""

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
_LASTING: Final = frozenset({FailureKind.NO_FUNCTION, FailureKind.NO_PERMISSION})
_FATAL: Final = frozenset({FailureKind.LOST, FailureKind.RESET_REQUIRED, FailureKind.RELOADED})
"""Those in which no other call has an answer either."""


class _Field(NamedTuple):
    """A field value. scope: of NVLink the link, or all of them."""

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
"""The sum over all links -> the field of one link: from Hopper on only the latter is there."""
_FIELDS: Final = (
    *(_MEMORY_CELSIUS, _ENERGY, _CORRECTED, _UNCORRECTED, _CORRECTED_PAGES, _UNCORRECTED_PAGES, _PAGES_PENDING),
    *(_CORRECTED_ROWS, _UNCORRECTED_ROWS, _ROWS_PENDING, _ROWS_FAILED, _PCIE_REPLAYS, _PCIE_SENT_BYTES),
    *(_PCIE_RECEIVED_BYTES, _NVLINK_SENT, _NVLINK_RECEIVED, _REPLAYS, _RECOVERIES, _CRC_ERRORS),
)
_VALUE_OF_TYPE: Final = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_WIDE_TYPES: Final = frozenset({2, 3, 4})


class DriverFailure(ExporterError):
    """A call that the driver answered with an error. call: the function's name. trouble: what it means."""

    def __init__(self, call: str, trouble: FailureKind, text: str, *, code: int = 0) -> None:
        super().__init__(f"{call}: {text}")
        self.call = call
        self.kind = trouble
        self.code = code

    @property
    def is_unsupported(self) -> bool:
        """The device has no such thing, which is no trouble."""
        return self.code in _UNSUPPORTED


class Nvml:
    """The driver."""

    def __init__(self) -> None:
        self._pynvml: Any = None
        self.version = ""
        """Of the driver, once it is open."""

    def open(self, note: Note) -> None:
        """Raises NotPossibleHere where there is no driver, and DriverFailure where it does not let us in."""
        note(LIBRARY)
        try:
            ctypes.CDLL(LIBRARY)
        except OSError:
            raise NotPossibleHere(f"there is no {LIBRARY}: no NVIDIA driver is installed, or not for us") from None
        try:
            import pynvml  # noqa: PLC0415 - memory, only for those who have a driver
        except ImportError as error:
            raise NotPossibleHere("nvidia-ml-py is not installed: GPUs are not asked") from error
        self._pynvml = pynvml
        try:
            self.ask(note, "nvmlInit")
        except DriverFailure as error:
            if error.code in _NOT_LOADED:
                raise NotPossibleHere(f"the NVIDIA driver is not loaded ({error})") from error
            raise
        self.version = str(self.ask(note, "nvmlSystemGetDriverVersion"))

    def close(self, note: Note) -> None:
        """Before it is opened again. Raises DriverFailure."""
        self.ask(note, "nvmlShutdown")

    def count(self, note: Note) -> int:
        """GPUs. Raises DriverFailure."""
        return min(int(self.ask(note, "nvmlDeviceGetCount")), MAX_GPUS)

    def gpu(self, index: int, note: Note) -> NvmlGpu:
        """One of them, ready to be sampled. Raises DriverFailure."""
        return NvmlGpu(self, index, note)

    def ask(self, note: Note, name: str, *arguments: Any) -> Any:
        """What a function of NVML says. Raises DriverFailure."""
        note(name)
        pynvml = self._pynvml
        try:
            return getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            code = int(error.value)
            raise DriverFailure(name, _KINDS.get(code, FailureKind.DRIVER), str(error), code=code) from error
        except (AttributeError, pynvml.NVMLLibraryMismatchError) as error:
            raise DriverFailure(name, FailureKind.NO_FUNCTION, "not in this driver", code=13) from error

    def fields(self, note: Note, handle: Any, wanted: Iterable[_Field]) -> dict[_Field, tuple[int, bool]]:
        """Those that the device has, with whether each has 64 bits. Raises DriverFailure."""
        fields = list(wanted)
        values = self.ask(note, "nvmlDeviceGetFieldValues", handle, [(one.number, one.scope) for one in fields])
        return {
            field: (int(getattr(value.value, _VALUE_OF_TYPE[value.valueType])), value.valueType in _WIDE_TYPES)
            for field, value in zip(fields, values, strict=True)
            if value.nvmlReturn == 0 and value.valueType in _VALUE_OF_TYPE
        }


class NvmlGpu:
    """One GPU, by a handle that is good until the driver is loaded anew. sample() by one thread at a time."""

    def __init__(self, nvml: Nvml, index: int, note: Note) -> None:
        self._nvml = nvml
        self._handle = nvml.ask(note, "nvmlDeviceGetHandleByIndex", index)
        self._left_out: set[tuple[Any, ...]] = set()
        self._failures: list[DriverFailure] = []
        self._xids: list[int] = []
        self._pcie_asked_at = -PCIE_SECONDS
        self._pcie: tuple[int | None, int | None] = (None, None)
        self._events = self._open_events(note)
        self.facts = self._facts(index, note)
        """What it is."""
        self._links = self._find_links(note)
        self._links_asked_at = -LINKS_SECONDS
        self._link_errors: dict[_Field, int] = {}

    def sample(self, note: Note) -> Sample:
        """Raises DriverFailure where it cannot be asked at all. What it does not tell is missing; see take_failures()."""
        if self._text(note, "nvmlDeviceGetUUID") != self.facts.uuid:
            raise DriverFailure("nvmlDeviceGetUUID", FailureKind.RECONFIGURED, "this is another GPU now")
        self._collect_xids(note)
        sample = self._with_fields(note, self._plain(note))
        if sample.pcie_sent_bytes is None:
            received, sent = self._pcie_throughput(note)
            sample = sample._replace(pcie_received_bytes_per_second=received, pcie_sent_bytes_per_second=sent)
        mode = self._maybe(note, "nvmlDeviceGetMigMode", self._handle)
        if mode is None or not mode[0]:
            processes = self._processes(note, self._handle)
            return sample._replace(is_mig=None if mode is None else False, processes=processes)
        instances = tuple(self._instances(note))
        told = [one.processes for one in instances if one.processes is not None]
        processes = tuple(process for of_one in told for process in of_one) if told or not instances else None
        return sample._replace(is_mig=True, instances=instances, processes=processes)

    def take_failures(self) -> list[DriverFailure]:
        """Of single calls, since the last time: the others went on."""
        found, self._failures = self._failures, []
        return found

    def take_xids(self) -> list[int]:
        """Numbers of XID errors that came since the last time; also of a sample that failed."""
        found, self._xids = self._xids, []
        return found

    def close(self, note: Note) -> None:
        """Give back what waits for events. Raises DriverFailure."""
        if self._events is not None:
            events, self._events = self._events, None
            self._nvml.ask(note, "nvmlEventSetFree", events)

    def _facts(self, index: int, note: Note) -> GpuFacts:
        pci = self._maybe(note, "nvmlDeviceGetPciInfo", self._handle)
        return GpuFacts(
            gpu=str(index),
            uuid=self._text(note, "nvmlDeviceGetUUID"),
            model=self._text(note, "nvmlDeviceGetName"),
            pci_bus_id=_decoded(pci.busId) if pci else "",
            driver_version=self._nvml.version,
            sm_clock_max_hz=_times(_MHZ, self._maybe(note, "nvmlDeviceGetMaxClockInfo", self._handle, _SM)),
            memory_clock_max_hz=_times(_MHZ, self._maybe(note, "nvmlDeviceGetMaxClockInfo", self._handle, _MEMORY)),
            slowdown_celsius=self._maybe(note, "nvmlDeviceGetTemperatureThreshold", self._handle, _SLOWDOWN),
            link_generation_max=self._maybe(note, "nvmlDeviceGetMaxPcieLinkGeneration", self._handle),
            link_width_max=self._maybe(note, "nvmlDeviceGetMaxPcieLinkWidth", self._handle),
        )

    def _plain(self, note: Note) -> Sample:
        utilization = self._maybe(note, "nvmlDeviceGetUtilizationRates", self._handle)
        reasons = self._either(
            note,
            ("nvmlDeviceGetCurrentClocksEventReasons", self._handle),
            ("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle),
        )
        return Sample(
            reasons=reasons,
            sm_clock_hz=_times(_MHZ, self._maybe(note, "nvmlDeviceGetClockInfo", self._handle, _SM)),
            memory_clock_hz=_times(_MHZ, self._maybe(note, "nvmlDeviceGetClockInfo", self._handle, _MEMORY)),
            power_mw=self._maybe(note, "nvmlDeviceGetPowerUsage", self._handle),
            power_limit_mw=self._maybe(note, "nvmlDeviceGetEnforcedPowerLimit", self._handle),
            celsius=self._maybe(note, "nvmlDeviceGetTemperature", self._handle, _TEMPERATURE_OF_GPU),
            utilization_percent=utilization.gpu if utilization else None,
            memory_utilization_percent=utilization.memory if utilization else None,
            memory=self._memory(note, self._handle),
            link_generation=self._maybe(note, "nvmlDeviceGetCurrPcieLinkGeneration", self._handle),
            link_width=self._maybe(note, "nvmlDeviceGetCurrPcieLinkWidth", self._handle),
        )

    def _with_fields(self, note: Note, sample: Sample) -> Sample:
        found = self._fields(note, _FIELDS)
        told = self._errors_of_links(note) | {field: value for field, (value, _) in found.items()}
        pending = [told[one] for one in (_PAGES_PENDING, _ROWS_PENDING) if one in told]

        def wide(field: _Field) -> int | None:
            """32 bits of bytes are full several times in a second."""
            return found[field][0] if found.get(field, (0, False))[1] else None

        return sample._replace(
            memory_celsius=told.get(_MEMORY_CELSIUS),
            energy_mj=told.get(_ENERGY),
            corrected_errors=told.get(_CORRECTED),
            uncorrected_errors=told.get(_UNCORRECTED),
            corrected_pages=told.get(_CORRECTED_PAGES),
            uncorrected_pages=told.get(_UNCORRECTED_PAGES),
            corrected_rows=told.get(_CORRECTED_ROWS),
            uncorrected_rows=told.get(_UNCORRECTED_ROWS),
            is_repair_pending=any(pending) if pending else None,
            has_repair_failed=bool(told[_ROWS_FAILED]) if _ROWS_FAILED in told else None,
            pcie_received_bytes=wide(_PCIE_RECEIVED_BYTES),
            pcie_sent_bytes=wide(_PCIE_SENT_BYTES),
            pcie_replays=told.get(_PCIE_REPLAYS),
            nvlink_received_bytes=_times(_KIB, told.get(_NVLINK_RECEIVED)),
            nvlink_sent_bytes=_times(_KIB, told.get(_NVLINK_SENT)),
            nvlink_replays=told.get(_REPLAYS),
            nvlink_recoveries=told.get(_RECOVERIES),
            nvlink_crc_errors=told.get(_CRC_ERRORS),
        )

    def _fields(self, note: Note, wanted: Iterable[_Field]) -> dict[_Field, tuple[int, bool]]:
        try:
            return self._nvml.fields(note, self._handle, wanted)
        except DriverFailure as error:
            self._note_failure(error)
            return {}

    def _find_links(self, note: Note) -> tuple[_Field, ...]:
        """Fields of single links, for what no sum over all of them is told of."""
        totals = self._fields(note, _BY_LINK)
        wanted = [
            _Field(number, link)
            for total, number in _BY_LINK.items()
            if total not in totals
            for link in range(_MAX_LINKS)
        ]
        return tuple(self._fields(note, wanted)) if wanted else ()

    def _errors_of_links(self, note: Note) -> dict[_Field, int]:
        """Their sums, of the last look."""
        now = time.monotonic()
        if self._links and now - self._links_asked_at >= LINKS_SECONDS:
            self._links_asked_at = now
            found = self._fields(note, self._links)
            for total, number in _BY_LINK.items():
                of_links = [value for field, (value, _) in found.items() if field.number == number]
                if of_links:
                    self._link_errors[total] = sum(of_links)
        return self._link_errors

    def _pcie_throughput(self, note: Note) -> tuple[int | None, int | None]:
        """Received and sent, in bytes per second, of the last look."""
        now = time.monotonic()
        if now - self._pcie_asked_at >= PCIE_SECONDS:
            self._pcie_asked_at = now
            received, sent = (
                _times(_KB, self._maybe(note, "nvmlDeviceGetPcieThroughput", self._handle, way))
                for way in (_PCIE_RECEIVED, _PCIE_SENT)
            )
            self._pcie = received, sent
        return self._pcie

    def _memory(self, note: Note, handle: Any) -> GpuMemory | None:
        told = self._either(note, ("nvmlDeviceGetMemoryInfo", handle, _MEMORY_V2), ("nvmlDeviceGetMemoryInfo", handle))
        if told is None:
            return None
        return GpuMemory(told.total, told.used, told.free, getattr(told, "reserved", None))

    def _processes(self, note: Note, handle: Any) -> tuple[GpuProcess, ...] | None:
        told = self._maybe(note, "nvmlDeviceGetComputeRunningProcesses_v3", handle)
        return None if told is None else tuple(GpuProcess(one.pid, one.usedGpuMemory) for one in told)

    def _instances(self, note: Note) -> Iterable[Instance]:
        """One for each GPU instance: several compute instances share its memory. Asked for anew each time, they come and go."""
        found: dict[str, Instance] = {}
        for index in range(self._maybe(note, "nvmlDeviceGetMaxMigDeviceCount", self._handle) or 0):
            handle = self._maybe(note, "nvmlDeviceGetMigDeviceHandleByIndex", self._handle, index)
            number = None if handle is None else self._maybe(note, "nvmlDeviceGetGpuInstanceId", handle)
            if number is None:
                continue
            mig, processes = str(number), self._processes(note, handle)
            if mig in found:
                if processes is not None:
                    found[mig] = found[mig]._replace(processes=(*(found[mig].processes or ()), *processes))
                continue
            uuid, model = (self._maybe(note, name, handle) or "" for name in ("nvmlDeviceGetUUID", "nvmlDeviceGetName"))
            found[mig] = Instance(mig, uuid, model, self._memory(note, handle), processes)
        return found.values()

    def _open_events(self, note: Note) -> Any:
        """A set of its own for each GPU: one that is lost makes the waiting for all others fail. None: it tells of no errors."""
        try:
            events = self._nvml.ask(note, "nvmlEventSetCreate")
            self._nvml.ask(note, "nvmlDeviceRegisterEvents", self._handle, _XID, events)
        except DriverFailure as error:
            self._note_failure(error)
            return None
        return events

    def _collect_xids(self, note: Note) -> None:
        for _ in range(_MAX_XIDS if self._events is not None else 0):
            try:
                event = self._nvml.ask(note, "nvmlEventSetWait", self._events, 0)
            except DriverFailure as error:
                if error.code != _TIMEOUT:
                    self._note_failure(error)
                return
            if event.eventType & _XID:
                self._xids.append(int(event.eventData))

    def _text(self, note: Note, name: str) -> str:
        return str(self._nvml.ask(note, name, self._handle))

    def _either(self, note: Note, newer: tuple[Any, ...], older: tuple[Any, ...]) -> Any:
        """As _maybe(), by a function or by what older drivers have in its place."""
        if self._key(newer) not in self._left_out:
            try:
                return self._nvml.ask(note, *newer)
            except DriverFailure as error:
                if error.kind is not FailureKind.NO_FUNCTION:
                    return self._without(newer, error)
            self._left_out.add(self._key(newer))
        return self._maybe(note, *older)

    def _maybe(self, note: Note, *call: Any) -> Any:
        """What a function says; None where the device does not support it, or where that fails, which is noted.

        call: its name and what it takes. It is not called like that again where the driver does not have it or does not let us.
        """
        if self._key(call) in self._left_out:
            return None
        try:
            return self._nvml.ask(note, *call)
        except DriverFailure as error:
            return self._without(call, error)

    def _without(self, call: tuple[Any, ...], error: DriverFailure) -> None:
        """Note a failure. The handle of the GPU has been found good: what it does not take then it will not take later."""
        if error.kind is FailureKind.RECONFIGURED and call[1] is self._handle:
            self._left_out.add(self._key(call))
            error = DriverFailure(error.call, FailureKind.DRIVER, str(error).partition(": ")[2], code=error.code)
        self._note_failure(error)
        if error.kind in _LASTING:
            self._left_out.add(self._key(call))

    def _key(self, call: tuple[Any, ...]) -> tuple[Any, ...]:
        """All instances are one: their handles are new each time."""
        name, handle, *others = call
        return (name, handle is self._handle, *others)

    def _note_failure(self, error: DriverFailure) -> None:
        """Raises it again where no other call would be answered."""
        if error.kind in _FATAL:
            raise error
        if not error.is_unsupported:
            self._failures.append(error)


def _times(factor: int, number: int | None) -> int | None:
    return None if number is None else number * factor


def _decoded(text: bytes | str) -> str:
    return text.decode("ascii", "replace") if isinstance(text, bytes) else text
