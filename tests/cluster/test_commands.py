"""Commands on a cluster give the results of one machine, also if a worker is killed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from sightunseen.benchmark.store import Store
from sightunseen.cluster import prediction
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import load_model

Run = Callable[[str], tuple[int, str, str]]
Assassin = Callable[[str], list[int]]

EMBED = "embed photos --backbone 'onnx:mean.onnx?mean=0&std=1' --batch 5"
POOL = "ray::MapWorker"  # titles of Ray's processes
TASK = "ray::_applied"


def test_embed_writes_the_same_file_and_uses_the_cache(cluster: Any, photos: Path, run: Run) -> None:
    assert run(f"{EMBED} --out alone.parquet --no-cache")[0] == 0
    code, out, err = run(f"{EMBED} --out cluster.parquet --cluster ray")
    assert (code, out) == (0, "embedded 12 photos, 1 skipped, 0 from the cache: cluster.parquet\n")
    assert "photos/cat/zz.jpg: it is not an image" in err
    assert (photos / "cluster.parquet").read_bytes() == (photos / "alone.parquet").read_bytes()
    assert run(f"{EMBED} --out again.parquet")[1].endswith("12 from the cache: again.parquet\n")


def test_embed_loses_nothing_with_a_killed_worker(cluster: Any, photos: Path, run: Run, assassin: Assassin) -> None:
    paths = [f"photos/dog/{k:02}.png" for k in range(4, 8)] * 100
    (photos / "list.csv").write_text("path\n" + "\n".join(paths) + "\n")
    line = EMBED.replace("photos", "list.csv", 1)
    assert run(f"{line} --out alone.parquet --no-cache")[0] == 0
    killed = assassin(POOL)
    code, out, err = run(f"{line} --out cluster.parquet --no-cache --cluster ray")
    assert (code, out) == (0, "embedded 400 photos, 0 skipped, 0 from the cache: cluster.parquet\n"), err
    assert killed
    assert (photos / "cluster.parquet").read_bytes() == (photos / "alone.parquet").read_bytes()


def test_predict_writes_the_same_file(
    cluster: Any, tables: Path, run: Run, assassin: Assassin, small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "SLICE", prediction.ROWS)
    X = np.tile(small_world.features, (10, 1)).astype(np.float32)
    vectors = pyarrow.FixedSizeListArray.from_arrays(X.ravel(), X.shape[1])
    names = [f"{k}.jpg" for k in range(len(X))]
    parquet.write_table(pyarrow.table({"path": names, "features": vectors}), "images.parquet", row_group_size=500)
    assert run("train features.npz --method ESZSL --out model")[0] == 0
    assert run("predict model images.parquet --top 2 --reasons 2 --out alone.csv")[0] == 0
    killed = assassin(POOL)
    code, out, err = run("predict model images.parquet --top 2 --reasons 2 --out cluster.csv --cluster ray")
    assert code == 0, err
    assert killed
    assert f"of {len(X):,} images" in out
    assert len(X) > 2 * prediction.SLICE
    assert (tables / "cluster.csv").read_bytes() == (tables / "alone.csv").read_bytes()


def test_train_saves_the_same_model(
    cluster: Any, tables: Path, run: Run, assassin: Assassin, small_world: ZeroShotDataset
) -> None:
    """As many rows of features in files as make several parts; the killed worker computes one of them."""
    rng = np.random.default_rng(0)
    rows = rng.integers(len(small_world.features), size=200_000)
    split = np.full(len(small_world.labels), "train", dtype="U11")
    split[small_world.test_seen_rows], split[small_world.test_unseen_rows] = "test_seen", "test_unseen"
    X = small_world.features[rows] + rng.normal(size=(len(rows), small_world.features.shape[1]), scale=0.1).astype(np.float32)
    np.savez("many.npz", X=X.astype(np.float32), y=small_world.labels[rows], split=split[rows], **classes_of(small_world))
    line = "train many.npz --select none"
    assert run(f"{line} --out alone")[0] == 0
    killed = assassin(TASK)
    code, _, err = run(f"{line} --out cluster --cluster ray")
    assert code == 0, err
    assert killed
    assert (tables / "cluster/weights.safetensors").read_bytes() == (tables / "alone/weights.safetensors").read_bytes()
    assert load_model("cluster").record_.results == load_model("alone").record_.results


def test_methods_that_need_all_images_are_trained_here(tables: Path, run: Run) -> None:
    code, _, err = run("train features.npz --method CONSE --select none --out model --cluster ray")
    assert code == 0
    assert "note: CONSE needs all images at once; it is trained on this machine, not on the cluster." in err


def classes_of(data: ZeroShotDataset) -> dict[str, Any]:
    return {"class_labels": data.classes.labels, "class_vectors": data.classes.vectors}


def test_error_in_a_worker_is_one_message(cluster: Any, tables: Path, run: Run, small_world: ZeroShotDataset) -> None:
    X = np.array(small_world.features, dtype=np.float32)
    X[17, 3] = np.nan
    np.save("images.npy", X)
    assert run("train features.npz --method ESZSL --out model")[0] == 0
    alone = run("predict model images.npy --out x.csv")
    before = sorted(path.name for path in tables.iterdir())
    found = run("predict model images.npy --out x.csv --cluster ray")
    assert found == alone
    assert found[0] == 2
    assert found[2].startswith("error: images.npy: ")
    assert sorted(path.name for path in tables.iterdir()) == before


def test_benchmark_stores_the_same_outcomes(cluster: Any, tables: Path, run: Run, assassin: Assassin) -> None:
    methods = "".join(f'[[method]]\nname = "{name}"\n' for name in ("ESZSL", "SAE"))
    (tables / "plan.toml").write_text(f'seeds = 2\n[[data]]\npath = "features.npz"\n{methods}')
    code, _, err = run("benchmark run plan.toml --out alone")
    assert code == 0, err
    killed = assassin(TASK)
    code, out, err = run("benchmark run plan.toml --out cluster --cluster ray --jobs 2")
    assert code == 0, err
    assert killed
    assert "4 done, 0 failed, 0 skipped" in out
    alone, found = Store(tables / "alone").outcomes(), Store(tables / "cluster").outcomes()
    assert found.keys() == alone.keys()
    for job, outcome in found.items():
        assert outcome.shown == alone[job].shown
        assert outcome.record["results"] == alone[job].record["results"]
        assert outcome.record["selection"] == alone[job].record["selection"]
    assert sorted(path.name for path in (tables / "cluster").iterdir()) == sorted(
        path.name for path in (tables / "alone").iterdir()
    )
