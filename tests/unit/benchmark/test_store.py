"""Job outcomes on disk: identity, atomic writes, seals, schema and locking."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.outcome import DONE, FAILED, Outcome, job_id
from sightunseen.benchmark.result_tables import tables
from sightunseen.benchmark.store import DamagedOutcomeError, Store
from sightunseen.core.errors import ModelError, StorageError
from sightunseen.core.files import LOCK_ENDING

IDENTITY: dict[str, Any] = {"method": {"name": "ESZSL", "settings": {"seed": 0, "a": 1.5}}, "seed": 0}
SHOWN: dict[str, Any] = {
    "data": "CUB res50",
    "published_name": "CUB",
    "backbone": "ResNet-50",
    "method": "ESZSL",
    "label": "ESZSL",
    "setting": "inductive",
    "selection": "validation",
    "seed": 0,
    "draw": {"seen": 8, "unequal": 20.0},
}
RECORD: dict[str, Any] = {
    "results": dict.fromkeys(("T1", "U", "S", "H", "AUSUC", "U_plain", "S_plain", "H_plain"), 1e-05),
    "selection": {"validation": {"T1": 40.0, "H_at_best_penalty": 30.0}, "chosen": {"a": 1.5}, "tried": []},
    "data": {"classes": {"seen": 8}},
}
OUTCOME = Outcome(DONE, IDENTITY, SHOWN, "", RECORD, 2.5)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one outcome."""
    found = Store(tmp_path / "results")
    found.add(OUTCOME)
    return found


def path_of(store: Store) -> Path:
    (path,) = store.jobs.iterdir()
    return path


def write_version_1(store: Store, change: Callable[[dict[str, Any]], Any] = lambda content: None) -> None:
    """Replace the outcome by one of format version 1, which has no seal, after a change of its content."""
    content = json.loads(path_of(store).read_text("utf-8"))
    del content["sha256"]
    content["store_version"] = 1
    change(content)
    path_of(store).write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False), "utf-8")


def test_job_id_is_independent_of_key_order() -> None:
    mixed = {"seed": 0, "method": {"settings": {"a": 1.5, "seed": 0}, "name": "ESZSL"}}
    assert job_id(IDENTITY) == job_id(mixed)
    assert job_id(IDENTITY) == job_id(json.loads(json.dumps(IDENTITY)))
    assert job_id(IDENTITY) != job_id({**IDENTITY, "seed": 1})


def test_outcome_round_trip(tmp_path: Path) -> None:
    store, outcome = Store(tmp_path / "results"), Outcome(FAILED, IDENTITY, SHOWN, "no memory: ½")
    with store.locked():
        store.add(outcome)
        store.add(outcome)
    assert store.outcomes() == {outcome.id: outcome}


def test_outcome_of_version_1_is_read(store: Store) -> None:
    write_version_1(store)
    assert store.outcomes() == {OUTCOME.id: OUTCOME}


def test_folder_is_locked_for_one_run(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "results"), Store(tmp_path / "results")
    with first.locked(), pytest.raises(StorageError, match="another process is writing to"), second.locked():
        pass
    with second.locked():
        second.add(OUTCOME)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [f"{OUTCOME.id}.json", "jobs", "results"]


def test_run_without_an_outcome_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "a" / "results")
    with pytest.raises(KeyError), store.locked():
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    with Store(tmp_path / "empty").locked():
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    (store.work / "tmpabc").mkdir(parents=True)
    (store.folder / f".jobs{LOCK_ENDING}").write_text("")
    with store.locked():
        assert not store.work.exists()
        store.add(OUTCOME)
    assert [path.name for path in store.folder.iterdir()] == ["jobs"]


def test_temporary_files_are_ignored(store: Store) -> None:
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "not valid JSON"),
        (b"\xff", "not utf-8 text"),
        (b"[]", "not a table"),
        (b"[" * 9999, "nested deeper"),
        (b'{"store_version": 99}', "format version 99; expected 1 to 3.*--out"),
        (b'{"store_version": 2}', "its seal is missing"),
        (b'{"store_version": 1, "state": "done"}', "Field required"),
    ],
)
def test_damaged_file_is_an_error(store: Store, text: bytes, message: str) -> None:
    (store.jobs / "abc.json").write_bytes(text)
    with pytest.raises(ModelError, match=rf"abc\.json .*{message}"):
        store.outcomes()


def test_every_flipped_bit_is_found(store: Store) -> None:
    path = path_of(store)
    content = path.read_bytes()
    for position in range(len(content)):
        bit = 1 << position % 8
        path.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
        with pytest.raises(ModelError, match="json"):
            store.outcomes()


@pytest.mark.parametrize("kept", [0, 1, 0.5, -1])
def test_truncated_file_is_an_error(store: Store, kept: float) -> None:
    content = path_of(store).read_bytes()
    path_of(store).write_bytes(content[: int(kept * len(content)) if kept == 0.5 else int(kept)])
    with pytest.raises(DamagedOutcomeError):
        store.outcomes()


def test_damaged_files_can_be_left_out(store: Store) -> None:
    (store.jobs / "abc.json").write_text("{")
    found: list[DamagedOutcomeError] = []
    assert list(store.outcomes(found.append)) == [OUTCOME.id]
    assert [error.path.name for error in found] == ["abc.json"]


def nodes(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values in nested tables and lists."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path, *(found for key, value in items for found in nodes(value, (*path, key)))]


ODD = [None, True, -1, 1e308, float("inf"), 10**400, [], {}, "", "\ud800", "x" * 20_000, [[[[1]]]], {"seen": []}]


@pytest.mark.parametrize("path", nodes(json.loads(json.dumps({**vars(OUTCOME)})))[1:], ids=str)
def test_odd_value_of_any_entry_is_an_error_or_can_be_shown(store: Store, path: tuple[Any, ...]) -> None:
    for odd in ODD:

        def change(content: dict[str, Any], odd: Any = odd) -> None:
            table = content
            for key in path[:-1]:
                table = table[key]
            table[path[-1]] = odd

        store.add(OUTCOME)
        try:
            write_version_1(store, change)
        except UnicodeEncodeError:
            continue  # such a file cannot be written
        try:
            found = store.outcomes()
        except DamagedOutcomeError:
            continue
        assert all(table.rows for table in tables(found.values()))
