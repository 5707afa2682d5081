"""The bill of materials follows its schema and lists every locked package and the weights that packages contain."""

import hashlib
import json
import os
import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

pytest.importorskip("cyclonedx_py", reason="pip install 'sightunseen[supply]'")

from release.lock import read_lock
from release.sbom import describe, validate


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return describe()


def test_follows_the_schema(described: dict[str, Any]) -> None:
    validate(json.dumps(described))
    with pytest.raises(ValueError, match="schema"):
        validate(json.dumps({**described, "components": [{"name": "no type"}]}))


def test_lists_every_locked_package_as_required(described: dict[str, Any]) -> None:
    packages = {canonicalize_name(each["name"]): each for each in described["components"] if each["type"] == "library"}
    for package in read_lock():
        assert packages[package.name]["scope"] == "required"
        if package.name != "setuptools":  # comes with the environment
            assert packages[package.name]["version"] == package.version
    assert packages["torch"]["scope"] == "required"
    assert packages["pytest"]["scope"] == "excluded"


def test_names_no_folder_and_no_index(described: dict[str, Any]) -> None:
    text = json.dumps(described)
    assert "externalReferences" not in text
    assert "file:" not in text
    assert str(Path.cwd()) not in text
    for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        for address in os.environ.get(variable, "").split():
            assert address not in text


def test_is_reproducible(described: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe() == described
    assert "serialNumber" not in described
    assert "timestamp" not in described["metadata"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert describe()["metadata"]["timestamp"].startswith("2023-11-14T22:13:20")


def test_weights_have_origin_licence_and_the_sha256_of_the_installed_files(described: dict[str, Any]) -> None:
    models = {each["name"]: each for each in described["components"] if each["type"] == "machine-learning-model"}
    assert {*models} >= {"efficientnet_lite0", "all-MiniLM-L6-v2"}
    for model in models.values():
        assert model["licenses"][0]["license"]["name"]
        matched = re.search(r"(.+)\. In the package (\w+)\.$", model["description"])
        assert matched is not None
        installed = {Path(str(each)).name: each.locate() for each in distribution(matched[2]).files or ()}
        for file in model["components"]:
            content = Path(installed[file["name"]]).read_bytes()
            assert file["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]
