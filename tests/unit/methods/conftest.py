"""Fixtures for tests of methods."""

from types import SimpleNamespace
from typing import Any, Protocol

import pytest
from torch import Tensor, nn


class ModelStub(Protocol):
    """Build what an objective needs of a model: networks, vectors of the seen classes and hyperparameters."""

    def __call__(self, networks: dict[str, nn.Module], vectors: Tensor, **hyperparameters: Any) -> SimpleNamespace: ...


@pytest.fixture
def stub_model() -> ModelStub:
    def build(networks: dict[str, nn.Module], vectors: Tensor, **hyperparameters: Any) -> SimpleNamespace:
        return SimpleNamespace(
            networks_=networks,
            seen_classes_=range(len(vectors)),
            seed=0,
            _vectors_on_device=lambda _: vectors,
            _trained_parameters=lambda: [parameter for network in networks.values() for parameter in network.parameters()],
            **hyperparameters,
        )

    return build
