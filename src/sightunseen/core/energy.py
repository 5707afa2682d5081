"""Energy counters of the machine: NVIDIA GPUs by NVML, processors and memory by Linux RAPL.

The counters are those of the whole device, so the difference of two readings is the energy of a job only if nothing else runs.
"""

import ctypes
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

GPU, CPU = "gpu", "cpu"
NVML = "libnvidia-ml.so.1"
POWERCAP = Path("/sys/class/powercap")
DOMAINS = ("package", "dram")  # RAPL domains that do not overlap; those of cores are part of their package


class EnergyMeter:
    """Energy since the meter was made, of the devices that have a counter.

    Parameters
    ----------
    powercap : Path, optional
        Folder of the RAPL domains. Default: that of Linux.

    Examples
    --------
    >>> sorted(EnergyMeter(Path("/nowhere")).joules().keys() - {"gpu"})
    []
    """

    def __init__(self, powercap: Path = POWERCAP) -> None:
        self._domains = _rapl_domains(powercap)
        self._gpu = _gpu_counter()
        self._started = self._read()

    def joules(self) -> dict[str, float]:
        """Energy in joules by device.

        Returns
        -------
        dict of str to float
            "gpu": of the first GPU that this process may use. "cpu": of all processors, and of the memory if it has a counter.
            A device without a readable counter is left out.
        """
        now = self._read()
        found: dict[str, float] = {}
        for key, end in now.items():
            used = end - self._started.get(key, end)
            if used < 0:  # a RAPL counter starts again at zero
                used += _number(self._domains[key] / "max_energy_range_uj") or 0
            kind, scale = (GPU, 1e3) if key == GPU else (CPU, 1e6)  # millijoules and microjoules
            found[kind] = found.get(kind, 0.0) + max(used, 0) / scale
        return found

    def _read(self) -> dict[str, int]:
        values = {name: _number(folder / "energy_uj") for name, folder in self._domains.items()}
        gpu = None if self._gpu is None else self._gpu()
        return {name: value for name, value in {**values, GPU: gpu}.items() if value is not None}


def _rapl_domains(folder: Path) -> Mapping[str, Path]:
    """RAPL domains of packages and their memory by name; a second interface to the same package is left out."""
    found: dict[str, Path] = {}
    with suppress(OSError):
        for path in sorted(folder.glob("intel-rapl:*")):
            name = (path / "name").read_text(encoding="ascii").strip()
            if name.startswith(DOMAINS):
                found[path.name] = path
    return found


def _number(path: Path) -> int | None:
    """Content of a counter; None if it cannot be read, such as without root rights."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


class _GpuCounter:
    """Energy counter of a GPU in millijoules; the call returns None if the GPU has none.

    Parameters
    ----------
    nvml : ctypes.CDLL
        The library, initialised.
    device : ctypes.c_void_p
        Handle of the GPU.
    """

    def __init__(self, nvml: ctypes.CDLL, device: ctypes.c_void_p) -> None:
        self._nvml, self._device = nvml, device

    def __call__(self) -> int | None:
        value = ctypes.c_ulonglong()
        failed = self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._device, ctypes.byref(value))
        return None if failed else value.value


def _gpu_counter() -> _GpuCounter | None:
    """Counter of the first GPU that this process may use; None if there is none."""
    name = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    try:
        nvml = ctypes.CDLL(NVML)
    except OSError:
        return None
    device = ctypes.c_void_p()
    if nvml.nvmlInit_v2() != 0:
        return None
    if name.isdecimal():
        failed = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(device))
    else:  # a UUID, or no GPU
        failed = nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(device))
    return None if failed else _GpuCounter(nvml, device)
