"""Ctrl-C writes a checkpoint, and --resume gives the bitwise result of an uninterrupted run."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.cli._long_run import ProgressBar
from sightunseen.methods import Foresight
from sightunseen.training import Training

Run = Callable[[str], tuple[int, str, str]]

TRAIN = "train data --out new --method CVC --set hidden=32 --set n_steps=800"
ADAPT = "adapt cvc data --out new --search q=0.5 --set rounds=8 --set steps_per_round=100"
SHORT_TRAIN = "train data --out new --method CVC --select none --set hidden=32 --set n_steps=400"
PAPER_TRAIN = "train data --out new --protocol paper --set hidden=32 --set n_steps=400"
SHORT_ADAPT = "adapt cvc data --out new --set rounds=4 --set steps_per_round=100"
PAPER_ADAPT = f"{SHORT_ADAPT} --protocol paper"


def files(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def interrupt_after(stages: int, line: str) -> tuple[int, str]:
    """Run a command in a process and send Ctrl-C after a number of stages; returns exit code and stderr."""
    command = [sys.executable, "-m", "sightunseen", *shlex.split(line)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as process:
        deadline = time.monotonic() + 60
        while (
            len(list(Path("new.checkpoint").glob("*.safetensors"))) < stages
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    return process.returncode, err


def press_ctrl_c_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send Ctrl-C to this process after a number of steps of a stage."""

    def on_chunk(_: ProgressBar, training: Training) -> None:
        if training.steps_done >= steps:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressBar, "on_chunk", on_chunk)


def press_ctrl_c_in_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send Ctrl-C when a method without gradient steps is fitted."""
    monkeypatch.setattr(Foresight, "fit_sharing", lambda *_, **__: signal.raise_signal(signal.SIGINT))


@pytest.mark.parametrize("command", ["train data --out new", "adapt model data --out new"])
def test_methods_without_checkpoints_stop_immediately(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    press_ctrl_c_in_a_fit(monkeypatch)
    code, out, err = run(command)
    assert (code, out, "--resume" in err, "Traceback" in err) == (130, "", False, False)
    assert not Path("new").exists()
    assert not Path("new.checkpoint").exists()


# Each finished stage leaves a file; the last stage is long enough to be interrupted.
@pytest.mark.parametrize(
    ("command", "stages", "other"),
    [(TRAIN, 1, "hidden=33"), (ADAPT, 2, "threshold=1.2")],
    ids=["train", "adapt"],
)
def test_interrupted_process_resumes_to_the_same_weights(run: Run, desk: Path, command: str, stages: int, other: str) -> None:
    code, err = interrupt_after(stages, command)
    assert code == 130, err
    assert "Traceback" not in err
    assert "--resume" in err.splitlines()[-1]
    assert "new.checkpoint" in err.splitlines()[-1]
    assert not Path("new").exists()
    kept = files("new.checkpoint")
    assert kept

    for again, word in ((command, "--resume"), (f"{command} --set {other} --resume", "settings")):
        code, _, err = run(again)
        assert (code, word in err) == (2, True), err
    assert files("new.checkpoint") == kept

    assert run(f"{command} --resume")[0] == 0
    assert not Path("new.checkpoint").exists()
    assert run(command.replace("new", "uninterrupted"))[0] == 0
    assert files("new")["weights.safetensors"] == files("uninterrupted")["weights.safetensors"]


@pytest.mark.parametrize("command", [SHORT_TRAIN, PAPER_TRAIN, SHORT_ADAPT, PAPER_ADAPT])
def test_run_interrupted_at_any_step_resumes_to_the_same_model_and_record(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    assert run(command.replace("new", "uninterrupted"))[0] == 0
    for steps in (100, 300):
        with monkeypatch.context() as patch:
            press_ctrl_c_after(steps, patch)
            code, out, _ = run(command)
        assert (code, out) == (130, "")
        code, _, err = run(f"{command} --resume")
        assert code == 0, err
        assert files("new")["weights.safetensors"] == files("uninterrupted")["weights.safetensors"]
        assert record_without_times("new") == record_without_times("uninterrupted")
        shutil.rmtree("new")


def record_without_times(folder: str) -> dict[str, Any]:
    """The record without times."""
    record = json.loads(files(folder)["record.json"])
    return {name: value for name, value in record.items() if name not in ("created", "wall_seconds")}


def test_run_can_be_resumed_twice(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for steps, option in ((100, ""), (300, "--resume")):
        with monkeypatch.context() as patch:
            press_ctrl_c_after(steps, patch)
            assert run(f"{SHORT_TRAIN} {option}")[0] == 130
    assert run(f"{SHORT_TRAIN} --resume")[0] == 0


def test_second_ctrl_c_stops_immediately_without_a_model(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_chunk(_: ProgressBar, training: Training) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressBar, "on_chunk", on_chunk)
    code, out, err = run(SHORT_TRAIN)
    assert (code, out, "Traceback" in err) == (130, "", False)
    assert not Path("new").exists()


def test_signal_handler_is_restored(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    press_ctrl_c_after(100, monkeypatch)
    assert run(SHORT_TRAIN)[0] == 130
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("change", ["the model", "the unlabelled images", "the data"])
def test_resuming_with_other_files_is_an_error(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    Path("images.npz").write_bytes(Path("data/features.npz").read_bytes())
    command = f"{SHORT_ADAPT} --unlabelled images.npz"
    with monkeypatch.context() as patch:
        press_ctrl_c_after(100, patch)
        assert run(command)[0] == 130
    if change == "the model":
        code, _, err = run("train data --out cvc --overwrite --method CVC --select none --set hidden=32 --set n_steps=100")
        assert code == 0, err
    else:
        other_features(Path("images.npz" if change == "the unlabelled images" else "data/features.npz"))
    code, _, err = run(f"{command} --resume")
    assert code == 2, err
    assert not Path("new").exists()


def other_features(path: Path) -> None:
    content = dict(np.load(path))
    np.savez(path, **{**content, "X": content["X"] + 0.1})


@pytest.mark.parametrize("damage", [lambda content: content[:-50], lambda content: content[:-1] + bytes([content[-1] ^ 1])])
def test_damaged_checkpoint_is_an_error(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    with monkeypatch.context() as patch:
        press_ctrl_c_after(100, patch)
        assert run(SHORT_TRAIN)[0] == 130
    (checkpoint,) = Path("new.checkpoint").glob("*.safetensors")
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    code, _, err = run(f"{SHORT_TRAIN} --resume")
    assert (code, checkpoint.name in err, "Traceback" in err) == (2, True, False), err
    assert "Delete new.checkpoint and start again" in err


def test_overwrite_discards_the_checkpoint(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        press_ctrl_c_after(100, patch)
        assert run(SHORT_TRAIN)[0] == 130
    other = f"{SHORT_TRAIN} --seed 1"
    code, _, err = run(f"{other} --overwrite")
    assert code == 0, err
    assert run(other.replace("new", "uninterrupted"))[0] == 0
    assert files("new")["weights.safetensors"] == files("uninterrupted")["weights.safetensors"]


def test_interrupted_demo_prints_a_command_that_works(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo = "demo --classes 24 --photos 5"
    with monkeypatch.context() as patch:
        press_ctrl_c_in_a_fit(patch)
        code, _, err = run(demo)
    assert code == 130, err
    assert "--overwrite" in err
    code, _, err = run(f"{demo} --overwrite")
    assert code == 0, err


@pytest.mark.parametrize("command", [SHORT_TRAIN, SHORT_ADAPT, "predict model data/features.npz --out new.csv"])
def test_exceeded_quota_is_one_error_and_leaves_no_file(desk: Path, command: str) -> None:
    """The size of files is limited by the operating system, in a separate process."""
    quota = 4096  # bytes; less than a checkpoint, a model or these predictions
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({quota}, {quota})); "
    program = limited + f"import sys; from sightunseen.cli import main; sys.exit(main({shlex.split(command)!r}))"
    before = sorted(desk.iterdir())
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("error: could not write new") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(desk.iterdir()) == before
