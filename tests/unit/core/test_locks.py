"""Locks: one writer at a time, no lock file left, and the lock of a killed process is released."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sightunseen.core.errors import StorageError
from sightunseen.core.locks import locked

INCREMENT = """
import sys
from pathlib import Path
from sightunseen.core.locks import locked
path = Path(sys.argv[1])
for _ in range(50):
    with locked(path, seconds=60):
        number = int(path.read_text())
        path.write_text(str(number + 1))
"""
HOLD = """
import sys, time
from pathlib import Path
from sightunseen.core.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_lock_file_is_removed_at_the_end_and_after_an_error(tmp_path: Path) -> None:
    with locked(tmp_path / "model"):
        assert os.listdir(tmp_path) == [".model.sightunseen.lock"]
    with pytest.raises(KeyError), locked(tmp_path / "a" / "b" / "model"):
        raise KeyError
    assert os.listdir(tmp_path) == []


def test_second_writer_is_refused_or_waits(tmp_path: Path) -> None:
    started = time.monotonic()
    with locked(tmp_path / "model"):
        with pytest.raises(StorageError, match=r"another process is writing to .*model"), locked(tmp_path / "model"):
            pass
        with pytest.raises(StorageError, match=r"waited 0\.1 s"), locked(tmp_path / "model", seconds=0.1):
            pass
        with locked(tmp_path / "other model"):
            pass
    assert time.monotonic() - started > 0.1


def test_link_and_folder_have_one_lock(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    with locked(tmp_path / "model"), pytest.raises(StorageError), locked(tmp_path / "link"):
        pass


def test_no_increment_of_eight_processes_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "number"
    path.write_text("0")
    writers = [subprocess.Popen([sys.executable, "-c", INCREMENT, str(path)]) for _ in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    assert path.read_text() == "400"
    assert os.listdir(tmp_path) == ["number"]


def test_lock_of_a_killed_process_is_released(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "model")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StorageError), locked(tmp_path / "model"):
            pass
        holder.send_signal(signal.SIGKILL)
    with locked(tmp_path / "model", seconds=5):
        pass
    assert os.listdir(tmp_path) == []


def test_folder_that_cannot_hold_a_lock_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="could not write"), locked(tmp_path / "file" / "model"):
        pass
