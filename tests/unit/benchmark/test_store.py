"""Job outcomes on disk: identity, atomic writes and locking."""

import json
from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.store import DONE, FAILED, Outcome, Store, job_id
from sightunseen.core.errors import ModelError, StorageError

IDENTITY: dict[str, Any] = {"method": {"name": "ESZSL", "settings": {"seed": 0, "a": 1.5}}, "seed": 0}


def test_job_id_is_independent_of_key_order() -> None:
    mixed = {"seed": 0, "method": {"settings": {"a": 1.5, "seed": 0}, "name": "ESZSL"}}
    assert job_id(IDENTITY) == job_id(mixed)
    assert job_id(IDENTITY) == job_id(json.loads(json.dumps(IDENTITY)))
    assert job_id(IDENTITY) != job_id({**IDENTITY, "seed": 1})


def test_outcome_round_trip(tmp_path: Path) -> None:
    store, outcome = Store(tmp_path / "results"), Outcome(FAILED, IDENTITY, {"data": "CUB"}, "no memory: ½")
    with store.locked():
        store.add(outcome)
        store.add(outcome)
    assert store.outcomes() == {outcome.id: outcome}


def test_folder_is_locked_for_one_run(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "results"), Store(tmp_path / "results")
    with first.locked(), pytest.raises(StorageError, match="another run"), second.locked():
        pass
    with second.locked():
        pass


def test_temporary_files_are_ignored(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    with store.locked():
        store.add(Outcome(DONE, IDENTITY, {}))
        (store.jobs / f".{job_id(IDENTITY)}.json.abc.json").write_text('{"state": "do')  # left by a killed run
    assert len(store.outcomes()) == 1


def test_other_folders_are_not_changed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(StorageError, match="left unchanged"), Store(tmp_path).locked():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(StorageError, match="is a file"), Store(tmp_path / "thesis.tex").locked():
        pass
    with pytest.raises(StorageError, match="no results"):
        Store(tmp_path / "nothing").outcomes()


@pytest.mark.parametrize("text", ["{", "[]", '{"store_version": 99}', '{"store_version": 1, "state": "done"}'])
def test_damaged_outcome_is_an_error(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path / "results")
    with store.locked():
        (store.jobs / "abc.json").write_text(text)
    with pytest.raises(ModelError, match=r"abc\.json"):
        store.outcomes()
