"""Metric plug-ins: installed entry points are computed and shown; one that fails names itself."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sightunseen.cli import main
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.metric_plugins import plugin_results
from sightunseen.core.metrics import METRICS, definitions
from sightunseen.core.plugins import plugins
from sightunseen.core.records import RunRecord
from sightunseen.methods import ESZSL
from sightunseen.selection.evaluation import evaluate

TRUTH, PREDICTED, SEEN = np.array(["cat", "cat", "okapi"]), np.array(["cat", "okapi", "okapi"]), np.array(["cat"])
CODE = """
import numpy as np

def share_right(y_true, y_pred, seen_classes):
    return 100 * np.mean(y_true == y_pred)

def seen_share(y_true, y_pred, seen_classes):
    return 100 * np.isin(y_pred, seen_classes).mean()

def fails(y_true, y_pred, seen_classes):
    raise KeyError("no such class")

def nan(y_true, y_pred, seen_classes):
    return float("nan")

def text(y_true, y_pred, seen_classes):
    return "good"

def overwrites(y_true, y_pred, seen_classes):
    y_true[:] = y_pred
    return 1.0
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a package with these functions as entry points: ``install(name=function)``."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def installed(**functions: str) -> None:
        information = tmp_path / "site" / "my_metrics-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-metrics\nVersion: 1.0\n")
        lines = [f"{name} = my_metrics:{function}" for name, function in functions.items()]
        (information / "entry_points.txt").write_text("\n".join(["[sightunseen.metrics]", *lines]) + "\n")
        (tmp_path / "site" / "my_metrics.py").write_text(CODE)
        plugins.cache_clear()

    yield installed
    plugins.cache_clear()
    sys.modules.pop("my_metrics", None)


def test_metric_gets_labels_predictions_and_seen_classes(install: Callable[..., None]) -> None:
    install(accuracy="share_right", seen_share="seen_share")
    assert plugin_results(TRUTH, PREDICTED, SEEN) == {"accuracy": 66.67, "seen_share": 33.33}
    assert definitions(["H", "accuracy"]) == "H: harmonic mean of U and S; accuracy: metric of my-metrics."


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("fails", "KeyError: 'no such class'"),
        ("nan", "returned nan; expected a finite number"),
        ("text", "ValueError: could not convert"),
        ("missing", "cannot be imported"),
    ],
)
def test_failing_metric_names_itself_and_has_no_result(install: Callable[..., None], function: str, message: str) -> None:
    install(mine=function, accuracy="share_right")
    with pytest.warns(UserWarning, match=rf"metric plug-in 'mine' \(my_metrics:{function}\) failed.*{message}"):
        found = plugin_results(TRUTH, PREDICTED, SEEN)
    assert found == {"mine": None, "accuracy": 66.67}


def test_metric_cannot_have_the_name_of_another_or_change_the_labels(install: Callable[..., None]) -> None:
    install(H="share_right", overwrites="overwrites", accuracy="share_right")
    with pytest.warns(UserWarning, match="'H'.*has the name of a metric of sightunseen"):
        assert plugin_results(TRUTH, PREDICTED, SEEN) == {"H": None, "overwrites": 1.0, "accuracy": 66.67}


def test_evaluation_computes_metrics_among_all_classes(install: Callable[..., None], small_world: ZeroShotDataset) -> None:
    install(accuracy="share_right", seen_share="seen_share")
    model = ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)
    result = evaluate(model, small_world)
    X = np.concatenate([small_world.test_unseen.X, small_world.test_seen.X])
    y = np.concatenate([small_world.test_unseen.y, small_world.test_seen.y])
    predicted = model.predict(X)
    assert result.further["accuracy"] == pytest.approx(100 * np.mean(predicted == y), abs=0.01)
    assert result.further["seen_share"] == pytest.approx(100 * np.isin(predicted, small_world.seen).mean(), abs=0.01)
    assert set(result.results()) - METRICS.keys() == {"accuracy", "seen_share"}
    assert set(result.summary()) <= METRICS.keys()


@pytest.mark.filterwarnings("default:the metric plug-in")
def test_metric_is_in_the_commands_and_the_record(
    install: Callable[..., None],
    tmp_path: Path,
    small_world: ZeroShotDataset,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(accuracy="share_right", broken="fails")
    data, model = tmp_path / "data", tmp_path / "model"
    data.mkdir()
    rows = (small_world.train_rows, small_world.test_seen_rows, small_world.test_unseen_rows)
    split = np.empty(len(small_world.labels), dtype="U11")
    for name, own in zip(("train", "test_seen", "test_unseen"), rows, strict=True):
        split[own] = name
    np.savez(data / "features.npz", X=small_world.features, y=small_world.labels, split=split)
    table = small_world.classes
    lines = [",".join([label, *map(str, vector)]) for label, vector in zip(table.labels, table.vectors.tolist(), strict=True)]
    names = [f"a{k}" for k in range(table.vectors.shape[1])]
    (data / "classes.csv").write_text("\n".join([",".join(["class", *names]), *lines]))
    assert main(["train", str(data), "--method", "ESZSL", "--select", "none", "--out", str(model)]) == 0
    captured = capsys.readouterr()
    assert "accuracy: metric of my-metrics" in captured.out
    assert "note: the metric plug-in 'broken' (my_metrics:fails) failed" in captured.err
    record = RunRecord.from_json((model / "record.json").read_text())
    assert record.results["broken"] is None
    assert main(["evaluate", str(model), str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == record.results["accuracy"] > 0
