"""A served model under load: 32 clients at once for a bounded time, every answer checked. Prints latency percentiles.

    python benchmarks/serving.py MODEL PHOTOS [--seconds 60] [--clients 32]

MODEL is a folder that was trained on photos; PHOTOS any photos. Half of the questions are photos, half are features. Every
answer must be that of ``model.predict_proba``, and none an error of the server's (5xx); exits with 1 otherwise.
"""

import argparse
import itertools
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from sightunseen.data.photo_files import read_photo
from sightunseen.data.photo_lists import list_photos
from sightunseen.features.backbones import open_backbone
from sightunseen.methods import load_model

MOST_PHOTOS = 64
ALL_CLASSES = {"top": 1_000_000, "none": False}


class Load:
    """What the clients ask, what they should hear, and what they heard."""

    def __init__(self, model: Any, paths: list[Path]) -> None:
        backbone = open_backbone(model.record_.data["backbone"]["name"])
        self.contents = [path.read_bytes() for path in paths]
        self.features = [backbone([backbone.prepare(read_photo(content))])[0] for content in self.contents]
        self.right = [
            dict(zip(model.classes_.tolist(), model.predict_proba(row[None])[0].tolist(), strict=True)) for row in self.features
        ]
        self.times: dict[str, list[float]] = {"photo": [], "features": []}
        self.codes: Counter[int] = Counter()
        self.wrong = 0

    def ask(self, address: str, seed: int, until: float) -> None:
        """One client: ask and check until the time is over."""
        draw = random.Random(seed)
        with httpx.Client(base_url=address, timeout=60) as client:
            while time.perf_counter() < until:
                place, kind = draw.randrange(len(self.contents)), draw.choice(list(self.times))
                started = time.perf_counter()
                if kind == "photo":
                    reply = client.post("/predict", files={"photo": self.contents[place]}, data=ALL_CLASSES)
                else:
                    reply = client.post("/predict", json={"features": [self.features[place].tolist()], **ALL_CLASSES})
                self.times[kind].append(time.perf_counter() - started)
                self.codes[reply.status_code] += 1
                if reply.status_code == 200:
                    found = {one["name"]: one["confidence"] for one in reply.json()["answers"][0]["classes"]}
                    self.wrong += found != self.right[place]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    args = parser.parse_args()
    paths = list(itertools.islice(list_photos(args.photos).paths, MOST_PHOTOS))
    load = Load(load_model(args.model), paths)
    command = [sys.executable, "-m", "sightunseen", "serve", str(args.model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split(" at ")[1].split()[0]
        httpx.get(f"{address}/health", timeout=60)
        until = time.perf_counter() + args.seconds
        clients = [threading.Thread(target=load.ask, args=(address, seed, until)) for seed in range(args.clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        server.terminate()
    answered = load.codes[200]
    print(f"{args.clients} clients, {args.seconds:g} s: {answered:,} answers ({answered / args.seconds:,.1f} a second)")
    print(f"statuses {dict(load.codes)}, answers that differ from the model's: {load.wrong}")
    for kind, times in load.times.items():
        if times:
            shown = ", ".join(f"{q} % {1000 * value:,.0f}" for q, value in zip((50, 90, 99), _percentiles(times), strict=True))
            print(f"{kind:8} milliseconds: {shown}, longest {1000 * max(times):,.0f}")
    return int(load.wrong > 0 or answered == 0 or any(code >= 500 for code in load.codes))


def _percentiles(times: list[float]) -> list[float]:
    return [float(value) for value in np.percentile(times, (50, 90, 99))]


if __name__ == "__main__":
    raise SystemExit(main())
