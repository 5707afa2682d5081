"""Every kernel compiles for an H200, also without a GPU: the interpreter accepts code that the compiler rejects."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("triton", reason="Triton is for Linux only")

KERNELS = {
    "first_layer",
    "second_layer",
    "scores_and_loss",
    "classifier_gradient",
    "hidden_gradient_and_norm",
    "clip_and_step",
}
SHARED_MEMORY = 227 * 1024  # bytes per block on an H200

# Kernels are replaced by stubs that compile instead of launching; any other kernel fails to launch on CPU tensors.
PROGRAM = """
import json, sys
import torch
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.inductive import EpisodeShape, EpisodicTraining
from sightunseen.methods.cvc.transductive import Adaptation, SelfTraining
from sightunseen.methods.cvc.scores import Score
from sightunseen.training import Optimisation, kernels
from sightunseen.training.batched import BatchedEngine
NAMES = {torch.float32: "*fp32", torch.int64: "*i64", torch.int32: "*i32"}
compiled = {}


class Stub:
    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return self.launch

    def launch(self, *arguments, **options):
        named = dict(zip(self.kernel.arg_names, arguments, strict=True))
        pointers = [isinstance(value, torch.Tensor) for value in arguments]
        signature = {n: NAMES[v.dtype] if isinstance(v, torch.Tensor) else "constexpr" for n, v in named.items()}
        constants = {(k,): value for k, value in enumerate(arguments) if not pointers[k]}
        aligned = {(k,): [["tt.divisibility", 16]] for k in range(len(arguments)) if pointers[k]}
        key = self.kernel.__name__, *constants.values()
        if key not in compiled:
            source = ASTSource(self.kernel, signature, constants, aligned)
            made = compile(source, target=GPUTarget("cuda", 90, 32), options=options)
            compiled[key] = self.kernel.__name__, made.metadata.shared, "cubin" in made.asm


for name in json.loads(sys.argv[1]):
    setattr(kernels, name, Stub(getattr(kernels, name)))
rng = torch.Generator().manual_seed(0)
vectors, features = torch.rand(24, 13, generator=rng), torch.rand(96, 70, generator=rng)
targets = torch.arange(96) % 24


def pieces():
    return ClassifierGenerator(13, 37, 70, True, "he", rng), Score("cosine", 10.0)


def inductive():
    return EpisodicTraining(*pieces(), vectors, features, targets, EpisodeShape(9, 2, True), 0)


def transductive():
    settings = Adaptation(best_per_class=3, classes_per_episode=4, images_per_class=2)
    of_seen = targets >= 18
    sides = vectors[18:], vectors[:18], features[of_seen], targets[of_seen] - 18, features[~of_seen]
    return SelfTraining(*pieces(), *sides, settings)


make, models = {"inductive": inductive, "transductive": transductive}[sys.argv[2]], int(sys.argv[3])
objectives = [make() for _ in range(models)]
engine = BatchedEngine(objectives, [Optimisation(10, 0.01, clip_norm=1.0)] * models)
engine.run([objective.draw(0, 2) for objective in objectives], [0] * models, [True] * models)
print(json.dumps(list(compiled.values())))
"""


@pytest.mark.parametrize(("kind", "models"), [("inductive", 1), ("inductive", 5), ("transductive", 1)])
def test_every_kernel_compiles_for_an_h200_and_fits_its_shared_memory(kind: str, models: int, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path)}  # an empty cache
    arguments = [sys.executable, "-c", PROGRAM, json.dumps(sorted(KERNELS)), kind, str(models)]
    found = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stderr
    compiled = json.loads(found.stdout)
    names = [name for name, *_ in compiled]
    assert set(names) == KERNELS
    for name in ("second_layer", "hidden_gradient_and_norm", "clip_and_step"):
        assert names.count(name) == 2  # forward and reversed
    for name, shared, has_binary in compiled:
        assert has_binary, name
        assert shared <= SHARED_MEMORY, name
