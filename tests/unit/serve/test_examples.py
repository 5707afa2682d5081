"""``POST /examples``: images that a person labelled change the predictions of the service."""

import copy
import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from sightunseen.core.class_table import ClassTable
from sightunseen.features.backbones import CallableBackbone
from sightunseen.methods import ESZSL, Foresight, load_model
from sightunseen.serve.app import create_app
from sightunseen.serve.limits import Limits

LABELS = ["ash", "birch", "cedar", "elm", "fir"]


def pixels(images: list[Any]) -> Any:
    return np.stack([np.asarray(image.resize((2, 2)), dtype=np.float32).ravel() for image in images])


def photo(seed: int) -> bytes:
    content = io.BytesIO()
    noise = np.random.default_rng(seed).integers(0, 256, (2, 2, 3), dtype=np.uint8)
    Image.fromarray(noise).save(content, "png")
    return content.getvalue()


def features_of(content: bytes) -> Any:
    return pixels([Image.open(io.BytesIO(content))])


@pytest.fixture(scope="module")
def model() -> Foresight:
    """Classes of photos of 12 features; elm and fir are unseen."""
    rng = np.random.default_rng(0)
    vectors = rng.random((5, 4))
    y = np.repeat(LABELS[:3], 20)
    X = rng.integers(0, 256, (3, 12)).repeat(20, axis=0) + rng.normal(0, 30, (60, 12))
    return Foresight().fit(X, y, ClassTable(LABELS, vectors, ("height", "width", "age", "shade")))


Start = Callable[..., TestClient]


@pytest.fixture
def start(model: Foresight) -> Iterator[Start]:
    """Start an application with given arguments; returns a client."""
    opened: list[TestClient] = []
    pixel_backbone = CallableBackbone(pixels, "pixels")

    def start(own: Any = model, backbone: Any = pixel_backbone, **arguments: Any) -> TestClient:
        opened.append(TestClient(create_app(own, backbone, **arguments), raise_server_exceptions=False).__enter__())
        return opened[-1]

    yield start
    for one in opened:
        one.__exit__(None, None, None)


def error_of(reply: Any, status: int) -> str:
    assert reply.status_code == status, reply.text
    assert list(reply.json()) == ["error"]
    return str(reply.json()["error"])


def confidence_of(client: TestClient, content: bytes) -> dict[str, float]:
    answer = client.post("/predict", json={"features": features_of(content).tolist(), "top": 10}).json()["answers"][0]
    return {one["name"]: one["confidence"] for one in answer["classes"]}


def examples_of(client: TestClient) -> dict[str, int]:
    return {one["name"]: one["examples"] for one in client.get("/classes").json()["classes"]}


def test_photos_become_examples(start: Start, model: Foresight) -> None:
    client, contents = start(), [photo(1), photo(2)]
    before = confidence_of(client, contents[0])
    files = [("photo", (f"{k}.png", content, "image/png")) for k, content in enumerate(contents)]
    reply = client.post("/examples", files=files, data={"name": "elm"})
    assert (reply.status_code, reply.json()) == (201, {"name": "elm", "examples": 2})
    after = confidence_of(client, contents[0])
    assert after["elm"] > before["elm"]
    rows = np.concatenate([features_of(content) for content in contents])
    expected = copy.deepcopy(model).add_examples(rows, ["elm", "elm"]).predict_proba(rows[:1])[0]
    assert after == pytest.approx(dict(zip(LABELS, expected.tolist(), strict=True)), abs=1e-6)
    assert examples_of(client) == {**dict.fromkeys(LABELS, 0), "elm": 2}
    assert client.get("/classes").json()["takes_examples"] is True
    assert not next(one for one in client.get("/classes").json()["classes"] if one["name"] == "elm")["seen"]
    assert model.example_counts == {}  # the model of the caller is not modified


def test_features_accumulate_and_equal_photos(start: Start) -> None:
    by_photo, by_features, content = start(), start(), photo(3)
    by_photo.post("/examples", files={"photo": ("a.png", content, "image/png")}, data={"name": "fir"})
    for name, count in (("fir", 1), ("ash", 1), ("ash", 2)):
        reply = by_features.post("/examples", json={"name": name, "features": features_of(content).tolist()})
        assert reply.json() == {"name": name, "examples": count}
        if name == "fir":
            assert confidence_of(by_features, content) == confidence_of(by_photo, content)
    assert examples_of(by_features) == {**dict.fromkeys(LABELS, 0), "fir": 1, "ash": 2}


def test_class_added_at_run_time_takes_examples(start: Start) -> None:
    client, content = start(), photo(4)
    vector = dict(zip(("height", "width", "age", "shade"), (0.5, 0.5, 0.5, 0.5), strict=True))
    client.post("/classes", json={"name": "yew", "attributes": vector})
    before = confidence_of(client, content)["yew"]
    client.post("/examples", json={"name": "yew", "features": features_of(content).tolist() * 5})
    assert confidence_of(client, content)["yew"] > before
    client.delete("/classes/yew")
    assert examples_of(client) == dict.fromkeys(LABELS, 0)


def test_examples_are_saved_only_with_a_folder(start: Start, model: Foresight, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    body = {"name": "elm", "features": features_of(photo(5)).tolist()}
    start(load_model(tmp_path / "model")).post("/examples", json=body)
    assert load_model(tmp_path / "model").example_counts == {}
    start(load_model(tmp_path / "model"), folder=tmp_path / "model").post("/examples", json=body)
    assert load_model(tmp_path / "model").example_counts == {"elm": 1}


def test_token_is_required(start: Start) -> None:
    client, body = start(token="sesame"), {"name": "elm", "features": features_of(photo(6)).tolist()}
    assert "changing the model needs the token" in error_of(client.post("/examples", json=body), 401)
    assert examples_of(client)["elm"] == 0
    assert client.post("/examples", json=body, headers={"Authorization": "Bearer sesame"}).status_code == 201


def test_concurrent_examples_are_all_counted(start: Start) -> None:
    client = start()

    def add(k: int) -> int:
        row = features_of(photo(k)).tolist()
        return client.post("/examples", json={"name": LABELS[3 + k % 2], "features": row}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(add, range(40))) == {201}
    assert examples_of(client) == {**dict.fromkeys(LABELS, 0), "elm": 20, "fir": 20}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"name": "oak", "features": [[0.0] * 12]}, 404, "there is no class 'oak'"),
        ({"name": "elm", "features": []}, 422, "features: List should have at least 1 item"),
        ({"name": "elm", "features": [[0.0] * 12] * 5}, 422, "features: List should have at most 4 items"),
        ({"name": "elm", "features": [[0.0] * 11]}, 422, "features.0: List should have at least 12 items"),
        (
            {"name": "elm", "features": [[1e300] * 12]},
            422,
            "features.0.0: Input should be less than or equal",
        ),
        ({"name": 3, "features": [[0.0] * 12]}, 422, "name"),
        ({"features": [[0.0] * 12]}, 422, "name"),
        ({"name": "elm"}, 422, "features"),
        ({"name": "elm", "features": [[0.0] * 12], "weight": 2}, 422, "weight"),
    ],
)
def test_invalid_request_is_an_error_and_changes_nothing(start: Start, body: Any, status: int, message: str) -> None:
    client = start(limits=Limits(images=4))
    assert message in error_of(client.post("/examples", json=body), status)
    assert examples_of(client) == dict.fromkeys(LABELS, 0)


def test_invalid_photo_is_an_error_and_changes_nothing(start: Start) -> None:
    client = start()
    assert "not an image" in error_of(
        client.post("/examples", files={"photo": ("a.png", b"text", "image/png")}, data={"name": "elm"}), 422
    )
    sent = {"photo": ("a.png", photo(0), "image/png")}
    assert "name" in error_of(client.post("/examples", files=sent), 422)
    assert "no photo" in error_of(client.post("/examples", files={"name": (None, "elm")}), 422)
    assert examples_of(client) == dict.fromkeys(LABELS, 0)
    assert "backbone of this model is unknown" in error_of(
        start(backbone=None).post("/examples", files=sent, data={"name": "elm"}), 422
    )


def test_name_of_digits_in_a_form(start: Start) -> None:
    rng = np.random.default_rng(1)
    model = Foresight().fit(rng.random((8, 12)), np.repeat([1, 2], 4), {k: [float(k), 1.0] for k in (1, 2, 3)})
    reply = start(model).post("/examples", files={"photo": ("a.png", photo(0), "image/png")}, data={"name": "3"})
    assert reply.json() == {"name": "3", "examples": 1}


def test_method_without_examples_is_an_error(start: Start) -> None:
    rng = np.random.default_rng(2)
    model = ESZSL().fit(rng.random((8, 12)), np.repeat(["a", "b"], 4), {"a": [1.0, 0.0], "b": [0.0, 1.0]})
    client = start(model)
    body = {"name": "a", "features": [[0.0] * 12]}
    assert "ESZSL cannot use examples" in error_of(client.post("/examples", json=body), 422)
    assert client.get("/classes").json()["takes_examples"] is False
