"""Data in many files: the commands give the same results as with one file, and name the faulty file before work begins."""

import csv
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from sightunseen.data import table_parts, tables

Run = Callable[[str], tuple[int, str, str]]


def fixed_lists(X: Any) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(X).ravel()), X.shape[1])


def columns() -> dict[str, Any]:
    """Columns of the data of the desk."""
    with np.load("data/features.npz") as file:
        return {"features": file["X"].astype(np.float32), "label": file["y"], "split": file["split"]}


def parts(count: int = 7) -> list[dict[str, Any]]:
    found = columns()
    cuts = np.array_split(np.arange(len(found["label"])), count)
    return [{name: column[rows] for name, column in found.items()} for rows in cuts]


def as_arrow(part: dict[str, Any]) -> pa.Table:
    names = {"path": [f"{row}.jpg" for row in range(len(part["label"]))]}
    return pa.table({"features": fixed_lists(part["features"]), "label": part["label"], "split": part["split"], **names})


def parquet_files(folder: Path) -> None:
    for k, part in enumerate(parts()):
        parquet.write_table(as_arrow(part), folder / f"part-{k}.parquet", row_group_size=50)


def nested_arrow_files(folder: Path) -> None:
    for k, part in enumerate(parts()):
        (folder / "features" / f"{k // 4}").mkdir(parents=True, exist_ok=True)
        table = as_arrow(part)
        path = str(folder / "features" / f"{k // 4}" / f"{k}.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=40)


def hugging_face(folder: Path) -> None:
    names = []
    for k, part in enumerate(parts()):
        table = as_arrow(part)
        names.append({"filename": f"data-{k:05}-of-00007.arrow"})
        with pa.OSFile(str(folder / names[-1]["filename"]), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=40)
    (folder / "state.json").write_text(json.dumps({"_data_files": names}))
    (folder / "dataset_info.json").write_text("{}")


def embeddings_with_metadata(folder: Path) -> None:
    for name in ("img_emb", "metadata"):
        (folder / name).mkdir()
    for k, part in enumerate(parts(12)):
        np.save(folder / "img_emb" / f"img_emb_{k}.npy", part["features"])
        parquet.write_table(as_arrow(part).drop_columns(["features"]), folder / "metadata" / f"metadata_{k}.parquet")


def npz_files(folder: Path) -> None:
    for k, part in enumerate(parts()):
        save = np.savez_compressed if k % 2 else np.savez
        save(folder / f"part-{k}.npz", X=part["features"], y=part["label"], split=part["split"])


LAYOUTS = (parquet_files, nested_arrow_files, hugging_face, embeddings_with_metadata, npz_files)


@pytest.fixture(params=["loaded", "on disk"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are small enough to be loaded, or are read in blocks."""
    if request.param == "on disk":
        monkeypatch.setattr(tables, "LOADED_BYTES", 0)
        monkeypatch.setattr(table_parts, "LOADED_ARCHIVE", 0)


def numbers(results: dict[str, Any]) -> dict[str, float]:
    return {name: results[name] for name in ("T1", "U", "S", "H")}


def rows_of(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_commands_on_many_files_equal_those_on_one(desk: Path, run: Run, layout: Callable[[Path], None]) -> None:
    Path("many").mkdir()
    layout(Path("many"))
    shutil.copy("data/classes.csv", "many/classes.csv")
    code, _, err = run("train many --out new")
    assert code == 0, err
    expected = numbers(json.loads(Path("model/record.json").read_text())["results"])
    assert numbers(json.loads(Path("new/record.json").read_text())["results"]) == pytest.approx(expected, abs=0.05)
    assert numbers(json.loads(run("evaluate model many --json")[1])) == pytest.approx(expected, abs=0.05)
    inspected = json.loads(run("inspect many --json")[1])
    assert inspected["images"]["all"] == len(columns()["label"])
    assert list(inspected["fingerprints"]) == ["features many", "classes classes.csv"]
    assert run("predict model many --out many.csv")[0] == 0
    assert run("predict model data --out single.csv")[0] == 0
    assert [row["class"] for row in rows_of("many.csv")] == [row["class"] for row in rows_of("single.csv")]
    assert run("adapt model many --select none --out adapted")[0] == 0


def test_names_of_images_are_those_of_the_files(desk: Path, run: Run) -> None:
    Path("many").mkdir()
    embeddings_with_metadata(Path("many"))
    assert run("predict model many --out many.csv")[0] == 0
    sizes = [len(part["label"]) for part in parts(12)]
    assert [row["path"] for row in rows_of("many.csv")] == [f"{row}.jpg" for size in sizes for row in range(size)]


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


def other_width(file: Path) -> None:
    table = parquet.read_table(file)
    parquet.write_table(table.set_column(0, "features", fixed_lists(np.zeros((len(table), 3), np.float32))), file)


def without_labels(file: Path) -> None:
    parquet.write_table(parquet.read_table(file).drop_columns(["label"]), file)


def with_nan(file: Path) -> None:
    table = parquet.read_table(file)
    values = np.array(table["features"].to_pylist(), dtype=np.float32)
    values[13, 2] = np.nan
    parquet.write_table(table.set_column(0, "features", fixed_lists(values)), file)


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncated, "part-5.parquet cannot be read"),
        (other_width, "part-5.parquet has 3"),
        (without_labels, "part-5.parquet, which has"),
        (with_nan, "part-5.parquet, row 14"),
    ],
)
@pytest.mark.parametrize("command", ["train many --out new", "evaluate model many", "adapt model many --out new"])
def test_a_faulty_file_is_named(desk: Path, run: Run, damage: Callable[[Path], None], message: str, command: str) -> None:
    Path("many").mkdir()
    parquet_files(Path("many"))
    shutil.copy("data/classes.csv", "many/classes.csv")
    damage(Path("many/part-5.parquet"))
    before = {path.name for path in desk.iterdir()}
    code, out, err = run(command)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert len(err) <= 520
    assert {path.name for path in desk.iterdir()} == before


def photo(value: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (8, 8), (value, 0, 0)).save(content, "PNG")
    return content.getvalue()


@pytest.fixture
def backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An ONNX model that averages the pixels, in the current folder, which has its own cache."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTUNSEEN_CACHE", str(tmp_path / "cache"))
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("GlobalAveragePool", ["photos"], ["features"])
    inputs = [helper.make_tensor_value_info("photos", kind, ["n", 3, 4, 4])]
    outputs = [helper.make_tensor_value_info("features", kind, ["n", 3, 1, 1])]
    graph = helper.make_graph([node], "mean", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "mean.onnx")
    return "--backbone 'onnx:mean.onnx?mean=0&std=1' --batch 3"


def test_embed_reads_tar_shards(backbone: str, run: Run) -> None:
    for shard in range(3):
        with tarfile.open(f"shard-{shard:02}.tar", "w") as archive:
            for k in range(4):
                for name, content in ((f"{k}.png", photo(40 * shard + 10 * k)), (f"{k}.cls", ("owl", "bat")[k % 2].encode())):
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content if name != "3.png" or shard != 1 else b"x" * len(content)))
    code, out, err = run(f"embed 'shard-{{00..02}}.tar' {backbone} --out features.parquet")
    assert code == 0, err
    assert out == "embedded 11 photos, 1 skipped, 0 from the cache: features.parquet\n"
    assert "shard-01.tar/3.png: it is not an image" in err
    table = parquet.read_table("features.parquet")
    assert table["path"].to_pylist()[:5] == [*(f"shard-00.tar/{k}.png" for k in range(4)), "shard-01.tar/0.png"]
    assert table["label"].to_pylist() == ["owl", "bat"] * 3 + ["owl"] + ["owl", "bat"] * 2
    expected = [[value, 0, 0] for value in (0, 10, 20, 30, 40, 50, 60, 80, 90, 100, 110)]
    np.testing.assert_allclose(table["features"].to_pylist(), expected, atol=1e-4)
    assert "11 from the cache" in run(f"embed . {backbone} --out again.npz")[1]


def test_embed_reads_images_of_a_hugging_face_folder(backbone: str, run: Run) -> None:
    Path("hf").mkdir()
    images = [{"bytes": photo(10 * k), "path": None} for k in range(5)]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(images, kind), "label": [0, 1, 0, 1, 0]})
    with pa.OSFile("hf/data-00000-of-00001.arrow", "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    Path("hf/state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    described = {"features": {"label": {"_type": "ClassLabel", "names": ["owl", "bat"]}}}
    Path("hf/dataset_info.json").write_text(json.dumps(described))
    code, _, err = run(f"embed hf {backbone} --out features.parquet")
    assert code == 0, err
    found = parquet.read_table("features.parquet")
    assert found["label"].to_pylist() == ["owl", "bat", "owl", "bat", "owl"]
    np.testing.assert_allclose(found["features"].to_pylist(), [[10 * k, 0, 0] for k in range(5)], atol=1e-4)
