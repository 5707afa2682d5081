"""Kernels of the comparator's scores, in Triton's interpreter on a CPU, agree with autograd through the plain formula."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from sightunseen.methods.generative import contrastive
from sightunseen.methods.shared.networks import LEAK, Perceptron

pytest.importorskip("triton", reason="Triton is for Linux only")

from sightunseen.methods.generative import comparator_kernels
from sightunseen.methods.generative.comparator_kernels import pair_scores

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHARED_MEMORY = 227 * 1024  # bytes per block on an H200


def inputs_of(n: int, c: int, h: int) -> list[Tensor]:
    """Hidden layers of images and of classes, weights, and the gradient of the scores."""
    rng = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=rng) for shape in ((n, h), (c, h), (h,), (n, c))]


def plain_scores(images: Tensor, classes: Tensor, weights: Tensor) -> Tensor:
    return functional.leaky_relu(images[:, None] + classes, LEAK) @ weights


def assert_kernels_agree(tensors: Sequence[Tensor]) -> None:
    *exact, slope = [tensor.double().requires_grad_() for tensor in tensors]
    *found, g = [tensor.detach().to(DEVICE).requires_grad_() for tensor in tensors]
    expected_scores, scores = plain_scores(*exact), pair_scores(*found)
    torch.testing.assert_close(scores.cpu().double(), expected_scores, rtol=1e-5, atol=1e-4)
    expected = torch.autograd.grad(expected_scores, exact, slope)
    gradients = torch.autograd.grad(scores, found, g)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (8, 16, 128), (13, 9, 37), (7, 21, 515), (33, 17, 130)], ids=str)
def test_scores_and_gradients_match_those_of_the_plain_formula(sizes: tuple[int, int, int]) -> None:
    assert_kernels_agree(inputs_of(*sizes))


@pytest.mark.parametrize("programs", [1, 9])
def test_sums_in_one_part_and_in_parts_of_unequal_length_agree(programs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparator_kernels, "PROGRAMS", programs)  # 9 programs: 4 parts, of 3, 3, 3 and 1 classes
    assert_kernels_agree(inputs_of(13, 10, 37))


def test_inputs_that_are_not_contiguous_are_read_in_their_order() -> None:
    images, classes, weights, gradient = inputs_of(13, 9, 37)
    by_columns = [tensor.T.contiguous().T for tensor in (images, classes)]
    assert_kernels_agree([*by_columns, torch.stack([weights, weights], dim=1)[:, 0], gradient[:, :1].expand(-1, 9)])


def test_slope_at_zero_is_that_of_torch() -> None:
    images, classes, weights, gradient = inputs_of(5, 3, 6)
    images[2], classes[1] = 0.5, -0.5  # exactly zero after the sum
    assert_kernels_agree([images, classes, weights, gradient])


def test_only_the_needed_sums_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    images, classes, weights, gradient = (tensor.to(DEVICE) for tensor in inputs_of(5, 3, 6))
    sums, computed = comparator_kernels._slope_sums, []

    def counted(own: Tensor, other: Tensor, gradient: Tensor) -> Tensor:
        computed.append(len(own))
        return sums(own, other, gradient)

    monkeypatch.setattr(comparator_kernels, "_slope_sums", counted)
    pair_scores(images.requires_grad_(), classes, weights).backward(gradient)
    assert computed == [5]
    pair_scores(images.detach(), classes.requires_grad_(), weights).backward(gradient)
    assert computed == [5, 3]
    pair_scores(images.detach(), classes.detach(), weights.requires_grad_()).backward(gradient)
    assert computed == [5, 3, 5, 3]


def test_comparator_scores_are_the_same_with_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = torch.Generator().manual_seed(0)
    network = Perceptron((4 + 3, 21, 1), rng, "leaky relu").to(DEVICE)
    torch.nn.init.constant_(network.layers[1].bias, 3.0)
    embeddings, vectors, gradient = (torch.randn(shape, generator=rng).to(DEVICE) for shape in ((6, 4), (5, 3), (6, 5)))
    inputs, found = [embeddings.requires_grad_(), *network.parameters()], []
    for kernels in (False, True):
        monkeypatch.setattr(contrastive, "has_kernels", lambda values, kernels=kernels: kernels)
        scores = contrastive.comparator_scores(network, embeddings, vectors)
        found.append([scores, *torch.autograd.grad(scores, inputs, gradient)])
    assert "PairScores" in str(scores.grad_fn.next_functions)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


# Kernels are replaced by stubs that compile instead of launching.
PROGRAM = """
import json
import torch
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from sightunseen.methods.generative import comparator_kernels
compiled = []


class Stub:
    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return self.launch

    def launch(self, *arguments, **options):
        signature, constants, aligned = {}, {}, {}
        for k, (parameter, value) in enumerate(zip(self.kernel.params, arguments, strict=True)):
            if isinstance(value, torch.Tensor):
                signature[parameter.name] = "*fp32"
            else:
                signature[parameter.name] = "constexpr" if parameter.is_constexpr or value == 1 else "i32"
            if signature[parameter.name] == "constexpr":
                constants[k,] = value
            elif isinstance(value, torch.Tensor) or value % 16 == 0:
                aligned[k,] = [["tt.divisibility", 16]]
        made = compile(ASTSource(self.kernel, signature, constants, aligned), GPUTarget("cuda", 90, 32), options)
        compiled.append((self.kernel.__name__, made.metadata.shared, "cubin" in made.asm))


for name in ("score_tile", "slope_tile"):
    setattr(comparator_kernels, name, Stub(getattr(comparator_kernels, name)))
for h in (64, 37):
    images, classes, weights = (torch.rand(shape, requires_grad=True) for shape in ((32, h), (15, h), (h,)))
    comparator_kernels.pair_scores(images, classes, weights).backward(torch.rand(32, 15))
print(json.dumps(compiled))
"""


@pytest.mark.slow
def test_kernels_compile_for_an_h200_and_fit_its_shared_memory(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path)}  # an empty cache
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stderr
    compiled = json.loads(found.stdout)
    assert [name for name, *_ in compiled] == ["score_tile", "slope_tile", "slope_tile"] * 2
    for name, shared, has_binary in compiled:
        assert has_binary, name
        assert shared <= SHARED_MEMORY, name
