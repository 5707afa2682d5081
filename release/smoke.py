"""Install the wheel into empty environments, one for each extra, and run what the extra is for; then run the tutorials.

Run ``python -m release.smoke dist/*.whl`` from the root of the repository, after ``python -m build``. ``--only EXTRA`` limits
the run (may be repeated); ``--keep FOLDER`` keeps the environments.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = """
import csv, os, sys
from sightunseen.cli import main
from sightunseen.data.synthetic_features import World, make_world

data = make_world(World(n_seen=8, n_unseen=3, n_features=12, images_per_class=8))
with open("features.csv", "w") as file:
    rows = csv.writer(file)
    rows.writerow(["label", "split", *(f"f{k}" for k in range(12))])
    for split in ("train", "test_seen", "test_unseen"):
        part = getattr(data, split)
        rows.writerows([f"c{label}", split, *x.tolist()] for x, label in zip(part.X, part.y))
with open("classes.csv", "w") as file:
    rows = csv.writer(file)
    rows.writerow(["class", *(f"a{k}" for k in range(data.classes.vectors.shape[1]))])
    rows.writerows([f"c{label}", *vector] for label, vector in zip(data.classes.labels, data.classes.vectors.tolist()))

def sightunseen(*arguments):
    assert main(list(arguments)) == 0, arguments

where = ["features.csv", "--classes", "classes.csv"]
"""
TRAINED = TABLES + 'sightunseen("train", *where, "--out", "model")\n'
PHOTOS = """
from PIL import Image
os.makedirs("photos/red", exist_ok=True)
for k in range(3):
    Image.new("RGB", (64, 64), (200, 40 * k, 30)).save(f"photos/red/{k}.png")
"""
CODE = {
    "": TRAINED
    + """
from importlib.util import find_spec
assert find_spec("torch") is None, "the light installation must not bring PyTorch"
sightunseen("evaluate", "model", *where)
sightunseen("predict", "model", "features.csv", "--out", "answers.csv")
assert main(["train", *where, "--method", "CVC", "--out", "deep"]) == 2
""",
    "deep": TABLES
    + """
sightunseen("train", *where, "--method", "CVC", "--set", "n_steps=50", "--select", "none", "--out", "model")
""",
    "hdf5": """
import h5py, numpy as np
from pathlib import Path
from sightunseen.data.matfiles import read_mat
with h5py.File("x.mat", "w", userblock_size=512) as file:
    file["features"] = np.eye(3)
content = bytearray(Path("x.mat").read_bytes())
content[:128] = b"MATLAB 7.3 MAT-file".ljust(124) + bytes([0, 2]) + b"IM"
Path("x.mat").write_bytes(content)
assert np.array_equal(read_mat(Path("x.mat"), ["features"])["features"], np.eye(3))
""",
    "onnx": TRAINED + 'sightunseen("export", "model", "--onnx", "model.onnx")\n',
    "photos": TABLES + PHOTOS + 'sightunseen("embed", "photos", "--backbone", "efficientnet_lite0", "--out", "photos.npz")\n',
    "ray": TABLES + 'sightunseen("train", *where, "--out", "model", "--cluster", "ray")\n',
    "report": TRAINED + 'sightunseen("report", "model", *where, "--out", "report.html")\n',
    "serve": TRAINED
    + """
import subprocess, urllib.request
command = [sys.executable, "-m", "sightunseen", "serve", "model", "--port", "0"]
server = subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
try:
    for line in server.stdout:
        if "http://" in line:
            address = "http://" + line.split("http://")[1].split()[0].rstrip("/.,")
            break
    assert b"sightunseen" in urllib.request.urlopen(address + "/", timeout=30).read()
finally:
    server.terminate()
assert server.wait(30) == 0
""",
    "text": """
from sightunseen.semantics.text import open_encoder
vectors = open_encoder("all-MiniLM-L6-v2")(["a red apple", "a crimson apple", "a lorry"])
assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
""",
    "transformers": TABLES
    + PHOTOS
    + """
from transformers import ViTConfig, ViTImageProcessorPil, ViTModel
sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
ViTModel(ViTConfig(**sizes, image_size=32, patch_size=16)).save_pretrained("vit")
ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained("vit")
sightunseen("embed", "photos", "--backbone", "hf:vit", "--out", "photos.npz")
""",
}
TUTORIALS = "photos,report,serve,text"  # the extras that the tutorials use


def check(extra: str, wheel: Path, folder: Path) -> str | None:
    """Install one extra into an empty environment and run its code, or the tutorials.

    Parameters
    ----------
    extra : str
        Name of the extra; empty for the package alone.
    wheel : Path
        The wheel.
    folder : Path
        Where the environment is created.

    Returns
    -------
    str or None
        Output of what failed; None if all is well.
    """
    home, work = folder / (extra or "base"), folder / f"{extra or 'base'}-files"
    work.mkdir()
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")
    wanted = f"sightunseen{f'[{extra}]' if extra else ''} @ {wheel.resolve().as_uri()}"
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), wanted]
    tests = ROOT / "tests" / "docs" / "test_tutorials.py"
    tutorials = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), str(tests)]
    environment = {**os.environ, "SIGHTUNSEEN_PYTHON": python, "SIGHTUNSEEN_CACHE": str(work / "cache")}
    for command in (install, tutorials if extra == TUTORIALS else [python, "-I", "-c", CODE[extra]]):
        done = subprocess.run(
            command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            return done.stdout
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all extras, two at a time; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--only", action="append", choices=[*CODE, TUTORIALS])
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args(arguments)
    if not args.wheel.is_file():
        parser.error(f"there is no file {args.wheel}. Build it first: make dist")
    chosen = [TUTORIALS, *CODE] if args.only is None else args.only  # the longest first
    failed = 0
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(2) as pool:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for extra, output in zip(chosen, pool.map(lambda extra: check(extra, args.wheel, folder), chosen), strict=True):
            failed += output is not None
            print(f"{'FAIL' if output is not None else 'ok  '} sightunseen{f'[{extra}]' if extra else ''}", flush=True)
            if output is not None:
                print(output)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
