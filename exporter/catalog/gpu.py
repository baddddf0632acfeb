"""GPUs, as the NVIDIA driver reports them."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

INFO = Metric(
    "gpustall_device_info",
    "gpustall.device.info",
    "",
    Kind.INFO,
    ("gpu", "mig", "gpu_uuid", "model", "pci_bus_id", "driver_version"),
    "GPUs that the NVIDIA driver reports, and their MIG instances.",
)
UP = Metric(
    "gpustall_device_up",
    "gpustall.device.up",
    "",
    Kind.GAUGE,
    ("gpu",),
    "1 while the driver answers for the GPU; 0 when its last good sample is older than 5 s or there was none: it"
    " hangs, is lost or its driver is gone. The other gauges of the GPU are absent then.",
)
ERRORS = Metric(
    "gpustall_device_errors_total",
    "gpustall.device.errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "reason"),
    "NVML calls that failed or timed out since the exporter started; gpu is empty for calls about the driver as a"
    " whole. A value that a GPU does not support is not an error.",
)
THROTTLED = Metric(
    "gpustall_device_throttled_seconds_total",
    "gpustall.device.throttled",
    "s",
    Kind.COUNTER,
    ("gpu", "reason"),
    "Seconds in which the clocks were throttled, by reason, sampled once a second: each sample counts for the time"
    " since the previous one, unless one in between failed or 5 s passed. Reasons overlap; an idle GPU is not"
    " throttled.",
)
CLOCK = Metric(
    "gpustall_device_clock_hertz",
    "gpustall.device.clock",
    "Hz",
    Kind.GAUGE,
    ("gpu", "part"),
    "Current clock of the SMs and of the memory, in hertz.",
)
CLOCK_MAX = Metric(
    "gpustall_device_clock_max_hertz",
    "gpustall.device.clock.max",
    "Hz",
    Kind.GAUGE,
    ("gpu", "part"),
    "Highest possible clock of the SMs and of the memory, in hertz.",
)
POWER = Metric(
    "gpustall_device_power_watts",
    "gpustall.device.power",
    "W",
    Kind.GAUGE,
    ("gpu",),
    "Power drawn by the board in watts, as averaged by the driver: over the last second on most GPUs.",
)
POWER_LIMIT = Metric(
    "gpustall_device_power_limit_watts",
    "gpustall.device.power.limit",
    "W",
    Kind.GAUGE,
    ("gpu",),
    "Power limit in watts that is enforced now.",
)
ENERGY = Metric(
    "gpustall_device_energy_joules_total",
    "gpustall.device.energy",
    "J",
    Kind.COUNTER,
    ("gpu",),
    "Energy used by the GPU in joules since the driver was loaded.",
)
TEMPERATURE = Metric(
    "gpustall_device_temperature_celsius",
    "gpustall.device.temperature",
    "Cel",
    Kind.GAUGE,
    ("gpu", "part"),
    "Temperature of the GPU, and of its memory where the driver reports it, in degrees Celsius.",
)
TEMPERATURE_SLOWDOWN = Metric(
    "gpustall_device_temperature_slowdown_celsius",
    "gpustall.device.temperature.slowdown",
    "Cel",
    Kind.GAUGE,
    ("gpu",),
    "Temperature in degrees Celsius at which the hardware starts to slow the clocks of the GPU.",
)
UTILIZATION = Metric(
    "gpustall_device_utilization_ratio",
    "gpustall.device.utilization",
    "1",
    Kind.GAUGE,
    ("gpu", "part"),
    "Share of the driver's last sample period, at most 1 s, in which a kernel ran, or in which memory was read or"
    " written: how long, not how much of the GPU.",
)
MEMORY = Metric(
    "gpustall_device_memory_bytes",
    "gpustall.device.memory",
    "By",
    Kind.GAUGE,
    ("gpu", "mig", "state"),
    "Memory of the GPU, or of the MIG instance, which is part of it, in bytes by state; the states add up to its"
    " total. Older drivers count reserved memory as used.",
)
PROCESS_MEMORY = Metric(
    "gpustall_device_process_memory_bytes",
    "gpustall.device.process.memory",
    "By",
    Kind.GAUGE,
    ("gpu", "mig"),
    "GPU memory of traced processes in bytes, as the driver counts it, contexts and libraries included; absent"
    " where the exporter has a PID namespace of its own.",
)
UNTRACED_MEMORY = Metric(
    "gpustall_device_untraced_memory_bytes",
    "gpustall.device.untraced.memory",
    "By",
    Kind.GAUGE,
    ("gpu", "mig"),
    "GPU memory in bytes of all processes that are not traced, such as those that made no call yet, as the driver"
    " counts it.",
)
ECC_ERRORS = Metric(
    "gpustall_device_ecc_errors_total",
    "gpustall.device.ecc_errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "kind"),
    "ECC errors in the GPU's memories since the driver was loaded; a reset of the GPU does not reset this counter.",
)
REMAPPED_ROWS = Metric(
    "gpustall_device_remapped_rows",
    "gpustall.device.remapped_rows",
    "{row}",
    Kind.GAUGE,
    ("gpu", "kind"),
    "Memory rows permanently replaced by spare rows, by the kind of error that was the reason.",
)
RETIRED_PAGES = Metric(
    "gpustall_device_retired_pages",
    "gpustall.device.retired_pages",
    "{page}",
    Kind.GAUGE,
    ("gpu", "kind"),
    "Memory pages permanently retired, on GPUs that cannot remap rows, by the kind of error that was the reason.",
)
REPAIR = Metric(
    "gpustall_device_memory_repair",
    "gpustall.device.memory_repair",
    "",
    Kind.GAUGE,
    ("gpu", "state"),
    "1 while the replacement of a row or page is pending until a GPU reset, or has failed; else 0.",
)
XID_ERRORS = Metric(
    "gpustall_device_xid_errors_total",
    "gpustall.device.xid_errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "xid"),
    "XID errors that the driver reported since the exporter opened the GPU; earlier ones are in the kernel log.",
)
LINK_GENERATION = Metric(
    "gpustall_device_pcie_link_generation",
    "gpustall.device.pcie.link_generation",
    "",
    Kind.GAUGE,
    ("gpu", "kind"),
    "PCIe generation of the link: the current one, and the highest that both GPU and slot support. An idle GPU may"
    " lower the current one.",
)
LINK_WIDTH = Metric(
    "gpustall_device_pcie_link_width",
    "gpustall.device.pcie.link_width",
    "{lane}",
    Kind.GAUGE,
    ("gpu", "kind"),
    "PCIe lanes of the link: the current number, and the most that both GPU and slot support.",
)
PCIE_BYTES = Metric(
    "gpustall_device_pcie_bytes_total",
    "gpustall.device.pcie",
    "By",
    Kind.COUNTER,
    ("gpu", "direction"),
    "Bytes over PCIe, packet headers included, as the driver counts them; only where its counter has 64 bits.",
)
PCIE_THROUGHPUT = Metric(
    "gpustall_device_pcie_throughput_bytes_per_second",
    "gpustall.device.pcie.throughput",
    "By/s",
    Kind.GAUGE,
    ("gpu", "direction"),
    "Bytes per second over PCIe, as the driver measures them during 20 ms once every 10 s; only where it has no"
    " byte counter.",
)
PCIE_REPLAYS = Metric(
    "gpustall_device_pcie_replays_total",
    "gpustall.device.pcie.replays",
    "{replay}",
    Kind.COUNTER,
    ("gpu",),
    "PCIe packets sent again because they did not arrive intact.",
)
NVLINK_BYTES = Metric(
    "gpustall_device_nvlink_bytes_total",
    "gpustall.device.nvlink",
    "By",
    Kind.COUNTER,
    ("gpu", "direction"),
    "Bytes of data over all NVLinks of the GPU, without packet headers.",
)
NVLINK_ERRORS = Metric(
    "gpustall_device_nvlink_errors_total",
    "gpustall.device.nvlink.errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "kind"),
    "Errors on all NVLinks of the GPU, by kind: packets sent again, link recoveries, wrong checksums. Read twice a"
    " minute where each link has to be read separately.",
)
MIG = Metric(
    "gpustall_device_mig_enabled",
    "gpustall.device.mig_enabled",
    "",
    Kind.GAUGE,
    ("gpu",),
    "1 while the GPU is divided into MIG instances, else 0; absent where it cannot be divided.",
)

METRICS = (
    INFO,
    UP,
    ERRORS,
    THROTTLED,
    CLOCK,
    CLOCK_MAX,
    POWER,
    POWER_LIMIT,
    ENERGY,
    TEMPERATURE,
    TEMPERATURE_SLOWDOWN,
    UTILIZATION,
    MEMORY,
    PROCESS_MEMORY,
    UNTRACED_MEMORY,
    ECC_ERRORS,
    REMAPPED_ROWS,
    RETIRED_PAGES,
    REPAIR,
    XID_ERRORS,
    LINK_GENERATION,
    LINK_WIDTH,
    PCIE_BYTES,
    PCIE_THROUGHPUT,
    PCIE_REPLAYS,
    NVLINK_BYTES,
    NVLINK_ERRORS,
    MIG,
)
