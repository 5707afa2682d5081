"""A sample of file operations that fail (ENOSPC, EIO, EINTR, EACCES, EMFILE), short writes, and a disk that stays full."""

from typing import Any

import pytest

from .conftest import Inject

POINTS = {
    **dict.fromkeys(("classes-add", "predict-csv"), 14),
    **dict.fromkeys(("train-mat", "train-overwrite", "train-resume", "predict-parquet", "embed-parquet", "export", "serve"), 6),
}


@pytest.fixture(scope="module")
def found(inject: Inject) -> dict[str, dict[str, Any]]:
    return inject([f"{name}:{points}" for name, points in POINTS.items()], "--parts", "failing")


@pytest.mark.parametrize("name", POINTS)
def test_failing_operation_ends_in_one_message_and_changes_nothing(found: dict[str, dict[str, Any]], name: str) -> None:
    assert found[name]["counts"]["points"] == POINTS[name]
    assert found[name]["examples"] == []
