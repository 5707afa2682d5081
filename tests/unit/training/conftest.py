from collections.abc import Iterator

import pytest

from sightunseen.training import loop


@pytest.fixture(scope="module", autouse=True)
def chunks_of_one_hundred_steps() -> Iterator[None]:
    """Let short runs have chunks of up to 100 steps, too: a few large and unequal chunks test as much as many small ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "CHUNKS", 1)
        yield
