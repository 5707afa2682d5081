"""The HTTP API answers requests made from its own OpenAPI schema as the schema says, and malformed bytes without a 5xx."""

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install 'sightunseen[fuzz]'")

from .fuzz_http import application, schema_failures
from .fuzz_shelf import write_photo_model
from .fuzz_sockets import Server, raw_failures, raw_request

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # warnings of schemathesis and hypothesis
EXAMPLES = 15  # requests for each operation
REQUESTS = 400  # malformed requests


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of photos with its backbone."""
    folder = tmp_path_factory.mktemp("served")
    write_photo_model(folder)
    return folder / "seer"


@pytest.fixture(scope="module")
def app(model_folder: Path) -> Any:
    return application(model_folder)


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_answers_follow_the_schema(app: Any, mode: str) -> None:
    assert schema_failures(app, EXAMPLES, seed=1, mode=mode) == []


def test_malformed_bytes_are_refused_and_do_no_harm(model_folder: Path, tmp_path: Path) -> None:
    r = random.Random(1)
    with Server(model_folder, tmp_path) as server:
        requests = [raw_request(r) for _ in range(REQUESTS)]
        failures = {request[:300]: found for request in requests if (found := raw_failures(server, request))}
        assert failures == {}
        assert server.healthy()
    assert server.code == 0
    assert b"Traceback" not in server.log.read_bytes()
