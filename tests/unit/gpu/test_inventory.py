"""inventory: the driver's list in /proc."""

from __future__ import annotations

from pathlib import Path

from exporter.gpu.inventory import InstalledGpu, gpus

INFORMATION = """Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 145
GPU UUID: \t GPU-6f3c1a2b-0d4e-5f60-7182-93a4b5c6d7e8
Video BIOS: \t 96.00.74.00.01
Bus Type: \t PCIe
"""


def driver_with(folder: Path, *texts: str) -> Path:
    """A list of GPUs, an entry for each text."""
    for number, text in enumerate(texts):
        place = folder / f"0000:{number:02x}:00.0"
        place.mkdir()
        (place / "information").write_text(text)
    return folder


class TestGpus:
    def test_model_and_uuid_are_read(self, tmp_path: Path) -> None:
        """Without the white space around them."""
        assert gpus(driver_with(tmp_path, INFORMATION)) == [
            InstalledGpu("GPU-6f3c1a2b-0d4e-5f60-7182-93a4b5c6d7e8", "NVIDIA H100 80GB HBM3")
        ]

    def test_node_without_the_driver_has_no_gpus(self, tmp_path: Path) -> None:
        assert gpus(tmp_path / "driver") == []

    def test_gpu_without_a_model_is_skipped(self, tmp_path: Path) -> None:
        """It has fallen off the bus; the other one is listed."""
        found = gpus(driver_with(tmp_path, "IRQ: \t 1\n", INFORMATION, ""))

        assert [gpu.model for gpu in found] == ["NVIDIA H100 80GB HBM3"]
