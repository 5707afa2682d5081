"""Flipped bits in models, results, checkpoints and caches."""

from .conftest import Inject
from .worker import FLIPPED


def test_flipped_bits_are_found_or_have_no_effect(inject: Inject) -> None:
    found = inject([f"{FLIPPED}:3"])[FLIPPED]
    assert found["examples"] == []
    assert found["counts"]["points"] > 50
