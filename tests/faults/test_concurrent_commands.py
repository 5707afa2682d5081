"""Commands at the same time on the same files: 16 writers and 4 readers of one model, two trainings, first loads."""

from .conftest import Inject
from .worker import TOGETHER


def test_nothing_acknowledged_is_lost_and_readers_are_not_disturbed(inject: Inject) -> None:
    found = inject([TOGETHER])[TOGETHER]
    assert found["examples"] == []
    assert found["counts"]["acknowledged"] == 16
