"""What exporter/gpu/nvml.py and throttle_reasons.py write down of NVML agrees with nvidia-ml-py and the stand-in."""

from __future__ import annotations

import ast
import re

import pynvml
import pytest

from docs.generate import ROOT
from exporter.catalog import METRICS
from exporter.gpu import nvml
from exporter.gpu.throttle_reasons import reasons_of
from tests.support.standin_gpu import built, output

SOURCE = (ROOT / "exporter/gpu/nvml.py").read_text(encoding="utf-8")
ASKED = sorted({node.value for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Constant)} & {*dir(pynvml)})
FIELDS = {
    nvml._MEMORY_CELSIUS: "MEMORY_TEMP",
    nvml._ENERGY: "TOTAL_ENERGY_CONSUMPTION",
    nvml._CORRECTED: "ECC_SBE_VOL_TOTAL",
    nvml._UNCORRECTED: "ECC_DBE_VOL_TOTAL",
    nvml._CORRECTED_PAGES: "RETIRED_SBE",
    nvml._UNCORRECTED_PAGES: "RETIRED_DBE",
    nvml._PAGES_PENDING: "RETIRED_PENDING",
    nvml._CORRECTED_ROWS: "REMAPPED_COR",
    nvml._UNCORRECTED_ROWS: "REMAPPED_UNC",
    nvml._ROWS_PENDING: "REMAPPED_PENDING",
    nvml._ROWS_FAILED: "REMAPPED_FAILURE",
    nvml._PCIE_REPLAYS: "PCIE_REPLAY_COUNTER",
    nvml._PCIE_SENT_BYTES: "PCIE_COUNT_TX_BYTES",
    nvml._PCIE_RECEIVED_BYTES: "PCIE_COUNT_RX_BYTES",
    nvml._NVLINK_SENT: "NVLINK_THROUGHPUT_DATA_TX",
    nvml._NVLINK_RECEIVED: "NVLINK_THROUGHPUT_DATA_RX",
    nvml._REPLAYS: "NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    nvml._RECOVERIES: "NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    nvml._CRC_ERRORS: "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
}
REASONS = {
    "GpuIdle": set[str](),
    "ApplicationsClocksSetting": {"app_clocks"},
    "SwPowerCap": {"power"},
    "HwSlowdown": {"hw_slowdown"},
    "SyncBoost": {"sync_boost"},
    "SwThermalSlowdown": {"thermal_sw"},
    "HwThermalSlowdown": {"thermal_hw"},
    "HwPowerBrakeSlowdown": {"hw_power_brake"},
    "DisplayClockSetting": {"display"},
}


class TestNumbers:
    """Written down once more, since nvidia-ml-py is imported only where there is a driver."""

    @pytest.mark.parametrize(("field", "name"), FIELDS.items(), ids=FIELDS.values())
    def test_fields_are_those_of_the_library(self, field: nvml._Field, name: str) -> None:
        """By its name for each."""
        assert field.number == getattr(pynvml, f"NVML_FI_DEV_{name}")

    def test_every_requested_field_is_compared(self) -> None:
        """Those of single links as well."""
        names = {161: "REPLAY", 162: "RECOVERY", 163: "CRC"}

        assert set(FIELDS) == set(nvml._FIELDS)
        assert {number: getattr(pynvml, f"NVML_FI_DEV_NVLINK_ERROR_DL_{name}") for number, name in names.items()} == {
            number: number for number in nvml._BY_LINK.values()
        }

    @pytest.mark.parametrize(("name", "reasons"), REASONS.items())
    def test_bits_are_those_of_the_library(self, name: str, reasons: set[str]) -> None:
        """The newer name of each, and the older one."""
        assert reasons_of(getattr(pynvml, f"nvmlClocksEventReason{name}")) == reasons
        assert reasons_of(getattr(pynvml, f"nvmlClocksThrottleReason{name}")) == reasons

    def test_errors_are_those_of_the_library(self) -> None:
        """By code."""
        code = {
            name.removeprefix("NVML_ERROR_"): value for name, value in vars(pynvml).items() if "NVML_ERROR_" in name
        }
        wanted = {
            *("UNINITIALIZED", "INVALID_ARGUMENT", "NO_PERMISSION", "DRIVER_NOT_LOADED", "FUNCTION_NOT_FOUND"),
            *("GPU_IS_LOST", "RESET_REQUIRED", "LIB_RM_VERSION_MISMATCH", "ARGUMENT_VERSION_MISMATCH", "GPU_NOT_FOUND"),
        }

        assert set(nvml._KINDS) == {code[name] for name in wanted}
        assert {code["NOT_SUPPORTED"], code["NOT_FOUND"], code["DEPRECATED"]} == nvml._UNSUPPORTED
        assert {code["DRIVER_NOT_LOADED"], code["LIBRARY_NOT_FOUND"]} == nvml._NOT_LOADED
        assert code["TIMEOUT"] == nvml._TIMEOUT

    def test_all_else_is_that_of_the_library(self) -> None:
        """Clocks, sensors, directions, events, versions."""
        assert pynvml.nvmlMemory_v2 == nvml._MEMORY_V2
        assert (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM) == (nvml._SM, nvml._MEMORY)
        assert pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN == nvml._SLOWDOWN
        assert pynvml.NVML_TEMPERATURE_GPU == nvml._TEMPERATURE_OF_GPU
        assert (pynvml.NVML_PCIE_UTIL_TX_BYTES, pynvml.NVML_PCIE_UTIL_RX_BYTES) == (
            nvml._PCIE_SENT,
            nvml._PCIE_RECEIVED,
        )
        assert pynvml.nvmlEventTypeXidCriticalError == nvml._XID


class TestFunctions:
    """By name."""

    def test_every_called_function_exists(self) -> None:
        """In nvidia-ml-py."""
        named = set(re.findall(r'"(nvml[A-Z]\w+)"', SOURCE))

        assert named == set(ASKED)
        assert len(named) > 25

    def test_the_stand_in_has_every_one(self) -> None:
        """Under the name that nvidia-ml-py looks up: its own, or one with a version."""
        names = set(
            re.findall(r" T (nvml\w+)", output("nm", "-D", "--defined-only", str(built() / "libnvidia-ml.so.1")))
        )
        plain = {re.sub(r"(_v\d|WithFlags)$", "", name) for name in names}

        assert {re.sub(r"_v\d$", "", name) for name in ASKED} <= plain


class TestNames:
    """Beside another exporter."""

    def test_no_metric_is_called_as_one_of_dcgm_exporter(self) -> None:
        """They begin with DCGM_."""
        assert not [metric.name for metric in METRICS if metric.name.upper().startswith("DCGM")]
