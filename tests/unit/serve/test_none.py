"""Open-set rejection in the HTTP API equals that of the command line."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from sightunseen.core.blocks import named_blocks
from sightunseen.core.calibration import NONE, Calibration
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import ESZSL
from sightunseen.prediction import ranked
from sightunseen.serve.app import create_app


@pytest.fixture(scope="module")
def model(small_world: ZeroShotDataset) -> ESZSL:
    """A model that rejects half of the test images of unseen classes."""
    model = ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)
    best = model.decision_function(small_world.test_unseen.X).max(axis=1)
    model.calibration_ = Calibration(temperature=0.3, none_below=float(np.median(best)), ECE=1.0, ECE_before=2.0)
    return model


@pytest.fixture(scope="module")
def client(model: ESZSL) -> Iterator[TestClient]:
    with TestClient(create_app(model, None), raise_server_exceptions=False) as client:
        yield client


def predict(client: TestClient, X: Any, **options: Any) -> list[Any]:
    reply = client.post("/predict", json={"features": X.tolist(), **options})
    assert reply.status_code == 200, reply.text
    return list(reply.json()["answers"])


@pytest.mark.parametrize("top", [1, 3, 100])
@pytest.mark.parametrize("none", [True, False])
def test_predictions_equal_those_of_the_command_line(
    client: TestClient, model: ESZSL, small_world: ZeroShotDataset, top: int, none: bool
) -> None:
    X = small_world.test_unseen.X
    (batch,) = ranked(model, named_blocks(X), top=top, none=none)
    expected = list(zip(batch["path"], batch["class"], batch["confidence"].tolist(), batch["seen"].tolist(), strict=True))
    answers = predict(client, X, top=top, none=none)
    found = [(one["image"], *rank.values()) for one in answers for rank in one["classes"]]
    assert found == expected
    assert [one["none"] for one in answers] == [one["classes"][0]["name"] == NONE for one in answers]
    assert sum(one["none"] for one in answers) == (len(X) // 2 if none else 0)


def test_contributions_are_those_of_the_best_class(client: TestClient, small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    with_none, without = predict(client, X, top=3), predict(client, X, top=3, none=False)
    for one, other in zip(with_none, without, strict=True):
        assert one["speaks_for"] == other["speaks_for"]
        assert one["speaks_for"] or one["speaks_against"]
    assert [one["speaks_for"] for one in predict(client, X, top=1) if one["none"]] == [[]] * (len(X) // 2)


def test_class_named_none_of_these_is_an_error(client: TestClient, small_world: ZeroShotDataset) -> None:
    names = small_world.classes.attribute_names or [f"attribute {k}" for k in range(small_world.classes.vectors.shape[1])]
    new = {"name": NONE, "attributes": dict.fromkeys(names, 0.5)}
    reply = client.post("/classes", json=new)
    assert reply.status_code == 422
    assert "no class can be called 'none of these'" in reply.json()["error"]
