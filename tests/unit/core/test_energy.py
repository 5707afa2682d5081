"""Energy counters: RAPL domains in a folder that looks like that of Linux."""

from pathlib import Path

import pytest

from sightunseen.core.energy import EnergyMeter


def write(folder: Path, domain: str, name: str, energy: int, most: int = 1000) -> Path:
    """Write a RAPL domain; energy in microjoules."""
    path = folder / domain
    path.mkdir(exist_ok=True)
    for file, value in (("name", name), ("energy_uj", energy), ("max_energy_range_uj", most)):
        (path / file).write_text(f"{value}\n")
    return path


def joules(meter: EnergyMeter) -> float | None:
    return meter.joules().get("cpu")


def test_packages_and_memory_are_added_and_cores_are_part_of_their_package(tmp_path: Path) -> None:
    write(tmp_path, "intel-rapl:0", "package-0", 100)
    write(tmp_path, "intel-rapl:0:0", "core", 50)
    write(tmp_path, "intel-rapl:0:1", "dram", 10)
    write(tmp_path, "intel-rapl-mmio:0", "package-0", 100)
    meter = EnergyMeter(tmp_path)
    assert joules(meter) == 0
    write(tmp_path, "intel-rapl:0", "package-0", 400)
    write(tmp_path, "intel-rapl:0:0", "core", 450)
    write(tmp_path, "intel-rapl:0:1", "dram", 15)
    write(tmp_path, "intel-rapl-mmio:0", "package-0", 400)
    assert joules(meter) == pytest.approx(305e-6)


def test_wraparound_of_a_rapl_counter_is_corrected(tmp_path: Path) -> None:
    write(tmp_path, "intel-rapl:0", "package-0", 900, most=1000)
    meter = EnergyMeter(tmp_path)
    write(tmp_path, "intel-rapl:0", "package-0", 150, most=1000)
    assert joules(meter) == pytest.approx(250e-6)


def test_unreadable_counters_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "intel-rapl:0", "package-0", 900)
    (write(tmp_path, "intel-rapl:1", "package-1", 900) / "energy_uj").unlink()
    (write(tmp_path, "intel-rapl:2", "package-2", 900) / "energy_uj").write_text("much")
    meter = EnergyMeter(tmp_path)
    write(tmp_path, "intel-rapl:0", "package-0", 901)
    write(tmp_path, "intel-rapl:1", "package-1", 950)  # readable only now: its start is not known
    assert joules(meter) == pytest.approx(1e-6)
    assert joules(EnergyMeter(tmp_path / "nowhere")) is None
