"""What the NVIDIA driver says of a GPU."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

INFO = Metric(
    "gpustall_device_info",
    "gpustall.device.info",
    "",
    Kind.INFO,
    ("gpu", "mig", "gpu_uuid", "model", "pci_bus_id", "driver_version"),
    "GPUs that the NVIDIA driver tells of, and their MIG instances.",
)
UP = Metric(
    "gpustall_device_up",
    "gpustall.device.up",
    "",
    Kind.GAUGE,
    ("gpu",),
    "1 while the driver answers for the GPU; 0 when its last good sample is older than 5 s or there was none: it hangs, is lost"
    " or its driver is gone. Its other gauges are absent then.",
)
ERRORS = Metric(
    "gpustall_device_errors_total",
    "gpustall.device.errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "reason"),
    "Questions about a GPU that the driver did not answer, or answered with an error, since the exporter started; without a gpu"
    " those about the driver as a whole. What a GPU does not support is no error.",
)
THROTTLED = Metric(
    "gpustall_device_throttled_seconds_total",
    "gpustall.device.throttled",
    "s",
    Kind.COUNTER,
    ("gpu", "reason"),
    "Time that the clocks were held down, sampled once a second: each sample stands for the time from the one before until"
    " itself, and for none where one in between has failed or 5 s have gone by. Reasons overlap. An idle GPU counts nowhere.",
)
CLOCK = Metric(
    "gpustall_device_clock_hertz",
    "gpustall.device.clock",
    "Hz",
    Kind.GAUGE,
    ("gpu", "part"),
    "Clock now: of the SMs and of the memory.",
)
CLOCK_MAX = Metric(
    "gpustall_device_clock_max_hertz",
    "gpustall.device.clock.max",
    "Hz",
    Kind.GAUGE,
    ("gpu", "part"),
    "The highest that this clock can be.",
)
POWER = Metric(
    "gpustall_device_power_watts",
    "gpustall.device.power",
    "W",
    Kind.GAUGE,
    ("gpu",),
    "Power that the board draws, as the driver averages it: over the last second on most GPUs.",
)
POWER_LIMIT = Metric(
    "gpustall_device_power_limit_watts",
    "gpustall.device.power.limit",
    "W",
    Kind.GAUGE,
    ("gpu",),
    "The limit on it that is enforced now, whoever has set it.",
)
ENERGY = Metric(
    "gpustall_device_energy_joules_total",
    "gpustall.device.energy",
    "J",
    Kind.COUNTER,
    ("gpu",),
    "Energy that the GPU has used since the driver was loaded.",
)
TEMPERATURE = Metric(
    "gpustall_device_temperature_celsius",
    "gpustall.device.temperature",
    "Cel",
    Kind.GAUGE,
    ("gpu", "part"),
    "Temperature of the GPU, and of its memory where that is told.",
)
TEMPERATURE_SLOWDOWN = Metric(
    "gpustall_device_temperature_slowdown_celsius",
    "gpustall.device.temperature.slowdown",
    "Cel",
    Kind.GAUGE,
    ("gpu",),
    "Temperature of the GPU from which on the hardware holds the clocks down.",
)
UTILIZATION = Metric(
    "gpustall_device_utilization_ratio",
    "gpustall.device.utilization",
    "1",
    Kind.GAUGE,
    ("gpu", "part"),
    "Share of the driver's last sample period, at most a second, in which a kernel ran, or memory was read or written: how long,"
    " not how much of the GPU.",
)
MEMORY = Metric(
    "gpustall_device_memory_bytes",
    "gpustall.device.memory",
    "By",
    Kind.GAUGE,
    ("gpu", "mig", "state"),
    "Memory of the GPU, or of the MIG instance, which is a part of it; all states together are what it has. Older drivers count"
    " what is reserved as used.",
)
PROCESS_MEMORY = Metric(
    "gpustall_device_process_memory_bytes",
    "gpustall.device.process.memory",
    "By",
    Kind.GAUGE,
    ("gpu", "mig"),
    "Memory of the GPU that traced processes have, as the driver counts it, contexts and libraries included; absent where the"
    " exporter is in a pid namespace of its own.",
)
UNTRACED_MEMORY = Metric(
    "gpustall_device_untraced_memory_bytes",
    "gpustall.device.untraced.memory",
    "By",
    Kind.GAUGE,
    ("gpu", "mig"),
    "The same of all processes that are not traced, such as those that have made no call yet.",
)
ECC_ERRORS = Metric(
    "gpustall_device_ecc_errors_total",
    "gpustall.device.ecc_errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "kind"),
    "ECC errors of the GPU's memories since the driver was loaded; a reset of the GPU does not take them back here.",
)
REMAPPED_ROWS = Metric(
    "gpustall_device_remapped_rows",
    "gpustall.device.remapped_rows",
    "{row}",
    Kind.GAUGE,
    ("gpu", "kind"),
    "Rows of memory replaced by spare ones for good, by the errors that were the reason.",
)
RETIRED_PAGES = Metric(
    "gpustall_device_retired_pages",
    "gpustall.device.retired_pages",
    "{page}",
    Kind.GAUGE,
    ("gpu", "kind"),
    "Pages of memory given up for good, on GPUs that cannot replace rows; likewise.",
)
REPAIR = Metric(
    "gpustall_device_memory_repair",
    "gpustall.device.memory_repair",
    "",
    Kind.GAUGE,
    ("gpu", "state"),
    "1 while a row or page waits for a reset of the GPU to be replaced, and where replacing one has failed; else 0.",
)
XID_ERRORS = Metric(
    "gpustall_device_xid_errors_total",
    "gpustall.device.xid_errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "xid"),
    "XID errors that the driver has told of since the exporter opened the GPU; those of before are in the kernel's log.",
)
LINK_GENERATION = Metric(
    "gpustall_device_pcie_link_generation",
    "gpustall.device.pcie.link_generation",
    "",
    Kind.GAUGE,
    ("gpu", "kind"),
    "PCIe generation that the link runs at, and the highest that GPU and slot have in common. An idle GPU may lower it.",
)
LINK_WIDTH = Metric(
    "gpustall_device_pcie_link_width",
    "gpustall.device.pcie.link_width",
    "{lane}",
    Kind.GAUGE,
    ("gpu", "kind"),
    "PCIe lanes that the link has, and the most that GPU and slot have in common.",
)
PCIE_BYTES = Metric(
    "gpustall_device_pcie_bytes_total",
    "gpustall.device.pcie",
    "By",
    Kind.COUNTER,
    ("gpu", "direction"),
    "Bytes over PCIe, headers of packets included, as the driver counts them; only where it counts with 64 bits.",
)
PCIE_THROUGHPUT = Metric(
    "gpustall_device_pcie_throughput_bytes_per_second",
    "gpustall.device.pcie.throughput",
    "By/s",
    Kind.GAUGE,
    ("gpu", "direction"),
    "Bytes over PCIe in a second, as the driver measures them for 20 ms from the begin of a look to its end, one look in 10 s;"
    " only where it does not count them.",
)
PCIE_REPLAYS = Metric(
    "gpustall_device_pcie_replays_total",
    "gpustall.device.pcie.replays",
    "{replay}",
    Kind.COUNTER,
    ("gpu",),
    "PCIe packets sent again because they had not arrived whole.",
)
NVLINK_BYTES = Metric(
    "gpustall_device_nvlink_bytes_total",
    "gpustall.device.nvlink",
    "By",
    Kind.COUNTER,
    ("gpu", "direction"),
    "Bytes of data over all NVLinks of the GPU, without headers of packets.",
)
NVLINK_ERRORS = Metric(
    "gpustall_device_nvlink_errors_total",
    "gpustall.device.nvlink.errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "kind"),
    "Errors of all NVLinks of the GPU: packets sent again, links trained anew, checksums that were wrong. Read twice a minute"
    " where each link is asked by itself.",
)
MIG = Metric(
    "gpustall_device_mig_enabled",
    "gpustall.device.mig_enabled",
    "",
    Kind.GAUGE,
    ("gpu",),
    "1 while the GPU is divided into MIG instances, else 0; absent where it cannot be.",
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
