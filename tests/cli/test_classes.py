"""The command ``classes``: list, add and remove classes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import ESZSL, load_model
from sightunseen.semantics.describe import ClassDescriptions, describe_classes
from sightunseen.semantics.text import open_encoder

Run = Callable[[str], tuple[int, str, str]]

pytestmark = pytest.mark.filterwarnings("always")  # the command line prints warnings as notes

ENCODER = "all-MiniLM-L6-v2"
ANIMALS = ("zebra", "horse", "cow", "pig", "wolf", "plains-tapir")
SAID = ("a striped horse", "a swift animal", None, "a pink animal", "a grey hunter", "a short trunk")
VALUES = np.array([[1, 4], [0, 4], [0.1, 4], [0, 4], [0, 4], [0.2, 4]])


def succeed(run: Run, line: str) -> tuple[str, str]:
    code, out, err = run(line)
    assert code == 0, err
    return out, err


def error_of(run: Run, line: str) -> str:
    """Error message of a command; models must be unchanged."""
    before = {path: path.read_bytes() for path in Path().rglob("model*/*.*")}
    code, out, err = run(line)
    assert (code, out) == (2, ""), out
    assert err.splitlines()[-1].startswith("error: ")
    assert {path: path.read_bytes() for path in Path().rglob("model*/*.*")} == before
    return err


@pytest.fixture(params=["text", "both"])
def animals(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Folder ``model``: five seen animals and an unseen one, with text or text and attributes as class vectors."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match=r"described by their names: 1 \(first: 'cow'\)"):
        table = describe_classes(ClassDescriptions(ANIMALS, ("stripes", "legs"), VALUES, SAID), request.param)
    ESZSL().fit(rng.normal(size=(50, 8)), np.repeat(ANIMALS[:5], 10), table).save("model")
    return str(request.param)


def test_list_shows_seen_and_unseen_classes(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    out, _ = succeed(run, "classes list model")
    assert "16 classes, class vectors 'attributes'" in out
    rows = [line.split() for line in out.splitlines() if line.strip().endswith((" yes", " no"))]
    assert {" ".join(row[:-1]) for row in rows if row[-1] == "yes"} == set(small_world.seen.tolist())
    assert {" ".join(row[:-1]) for row in rows if row[-1] == "no"} == set(small_world.unseen.tolist())


# -- adding --------------------------------------------------------------------------------------------------------------


def test_class_is_added_by_a_sentence(run: Run, animals: str) -> None:
    description = "--description 'a brown animal with striped legs'" + (
        " --attribute stripes=0.5 --attribute legs=4" * (animals == "both")
    )
    out, err = succeed(run, f"classes add model --name okapi {description}")
    assert "added okapi; model has 7 classes, 2 of them unseen" in out
    assert err == ""
    model = load_model("model")
    assert model.table_.use == f"{animals}:{ENCODER}"
    vector = model.table_.vectors_of(["okapi"])[0]
    sentence = open_encoder()(["a brown animal with striped legs"])[0]
    if animals == "both":
        assert vector[:2].tolist() == [0.5, 4.0]
        scale = np.sqrt(np.mean([stripes**2 + legs**2 for stripes, legs in VALUES.tolist()]))
        np.testing.assert_allclose(vector[2:], sentence * scale, rtol=1e-5)
    else:
        np.testing.assert_array_equal(vector, sentence)


def test_all_rows_of_a_table_are_added(run: Run, animals: str) -> None:
    rows = ["class,stripes,description,legs", "okapi,0.5,a brown animal,4", "Grey-Seal,,a swimmer,0", "emu,0,,2"]
    Path("new.csv").write_text("\n".join(rows))
    _, err = succeed(run, "classes add model --attributes new.csv --out model2")
    assert "described by their names: 1 (first: 'emu')" in err
    assert ("attributes are not used" in err) == (animals == "text")
    assert ("not given: 1 of 6" in err) == (animals == "both")
    before, after = load_model("model"), load_model("model2")
    assert before.classes_.tolist() == sorted(ANIMALS)
    assert after.classes_.tolist() == sorted([*ANIMALS, "okapi", "Grey-Seal", "emu"])
    texts = after.table_.vectors_of(["okapi", "Grey-Seal", "emu"])[:, -384:]
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    np.testing.assert_allclose(texts, open_encoder()(["a brown animal", "a swimmer", "emu"]), atol=1e-6)
    if animals == "both":
        attributes = after.table_.vectors_of(["okapi", "Grey-Seal", "emu"])[:, :2].tolist()
        assert attributes == [[0.5, 4.0], [pytest.approx(1.3 / 6), 0.0], [0.0, 2.0]]


def test_name_selects_a_row_of_the_table(run: Run, animals: str) -> None:
    Path("new.json").write_text(
        '{"okapi": {"stripes": 1, "legs": 4, "description": "x"}, "emu": {"legs": 2, "description": "y"}}'
    )
    succeed(run, "classes add model --attributes new.json --name okapi")
    assert load_model("model").classes_.tolist() == sorted([*ANIMALS, "okapi"])
    assert "nothing is said of 'dodo'" in error_of(run, "classes add model --attributes new.json --name dodo")


def test_missing_attributes_have_the_mean_value(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    names = list(small_world.classes.attribute_names or ())
    given = " ".join(f"--attribute '{name}={k}'" for k, name in reversed(list(enumerate(names[1:], 1))))
    _, err = succeed(run, f"classes add model --name okapi {given}")
    assert "attribute values not given: 1 of 10" in err
    mean = sum(small_world.classes.vectors[:, 0]) / 16
    expected = [mean, *range(1, 10)]
    np.testing.assert_allclose(load_model("model").table_.vectors_of(["okapi"])[0], expected, rtol=1e-9)


def test_adding_a_class_does_not_change_other_scores(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    before = load_model("model")
    names = small_world.classes.attribute_names or ()
    twin = small_world.unseen[0]
    values = small_world.classes.vectors_of([twin])[0]
    given = " ".join(f"--attribute '{name}={value!r}'" for name, value in zip(names, values.tolist(), strict=True))
    succeed(run, f"classes add model --name okapi {given}")
    after = load_model("model")
    assert after.record_ == before.record_
    X, labels = small_world.test_unseen.X, before.classes_
    np.testing.assert_array_equal(after.decision_function(X, labels), before.decision_function(X, labels))
    np.testing.assert_array_equal(after.predict(X, labels), before.predict(X, labels))
    scores = after.decision_function(X, [twin, "okapi"])
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], rtol=1e-6)  # equal class vectors have equal scores
    changed = after.predict(X) != before.predict(X)
    assert set(after.predict(X)[changed].tolist()) <= {"okapi"}
    learned = set(before._arrays()) - {"class_vectors"}
    for name in learned:
        np.testing.assert_array_equal(after._arrays()[name], before._arrays()[name])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--name '{seen}' --attribute '{first}=1'", "'{seen}' is already"),
        ("--name okapi --description 'a brown animal'", "known by 'attributes': give attributes, such as {first}"),
        ("--name okapi", "known by 'attributes': give attributes, such as {first}"),
        ("--name okapi --attribute wings=1", "no attribute 'wings'; there are {first}"),
        ("--name okapi --attribute '{first}=many'", "must be NAME=NUMBER; got '{first}=many'"),
        ("--name okapi --attribute '{first}=nan'", "must be NAME=NUMBER"),
        ("--name okapi --attribute '{first}'", "must be NAME=NUMBER"),
        ("--name okapi --attribute '{first}=1' --attribute '{first}=2'", "given twice"),
        ("--attribute '{first}=1'", "needs a name"),
        ("--name okapi --description ' '", "--description is empty"),
        ("--attributes nowhere.csv", "there is no file or folder nowhere.csv"),
        ("--attributes data/classes.csv", "already in the class table"),
        ("--attributes data/classes.csv --description x", "Leave --description and --attribute out"),
        ("--name okapi --attribute '{first}=1' --out data", "data exists"),
    ],
)
def test_invalid_arguments_are_an_error_and_change_nothing(
    run: Run, desk: Path, small_world: ZeroShotDataset, line: str, message: str
) -> None:
    names = {"seen": small_world.seen[0], "first": (small_world.classes.attribute_names or ("",))[0]}
    assert message.format(**names) in error_of(run, f"classes add model {line.format(**names)}")


def test_missing_kind_of_description_is_an_error(run: Run, animals: str) -> None:
    line = "classes add model --name okapi "
    if animals == "text":
        assert f"known by 'text:{ENCODER}': give a description" in error_of(run, line + "--attribute stripes=1")
    else:
        assert f"known by 'both:{ENCODER}': give attributes, such as stripes, legs" in error_of(run, line + "--description x")


def test_text_model_falls_back_to_the_class_name(run: Run, animals: str) -> None:
    if animals == "text":
        _, err = succeed(run, "classes add model --name Grey-Seal")
        assert "described by their names: 1 (first: 'Grey-Seal')" in err
        np.testing.assert_array_equal(load_model("model").table_.vectors_of(["Grey-Seal"]), open_encoder()(["Grey Seal"]))


def test_model_without_class_table_is_an_error(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ESZSL().fit(np.eye(4), ["a", "a", "b", "b"]).save("model")
    assert "no class table was given" in error_of(run, "classes add model --name c --description x")


@pytest.mark.parametrize("verb", ["list data", "list nowhere", "add data --name x --description y", "remove data --name x"])
def test_folder_without_model_is_an_error(run: Run, desk: Path, verb: str) -> None:
    assert verb.split()[1] in error_of(run, f"classes {verb}")


# -- removing ------------------------------------------------------------------------------------------------------------


def test_removed_class_can_be_added_again(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    before = load_model("model")
    gone = str(small_world.unseen[0])
    out, _ = succeed(run, f"classes remove model --name '{gone}' --out without")
    assert f"removed {gone}; without has 15 classes, 3 of them unseen" in out
    others = [label for label in before.classes_ if label != gone]
    X = small_world.test_seen.X
    np.testing.assert_array_equal(load_model("without").decision_function(X, others), before.decision_function(X, others))
    succeed(run, f"classes add without --attributes data/classes.csv --name '{gone}'")
    np.testing.assert_allclose(load_model("without").decision_function(X), before.decision_function(X), rtol=1e-6)


@pytest.mark.parametrize(("name", "message"), [("{seen}", "was trained on"), ("dodo", "'dodo' is not a class of the model")])
def test_seen_or_unknown_class_cannot_be_removed(
    run: Run, desk: Path, small_world: ZeroShotDataset, name: str, message: str
) -> None:
    assert message in error_of(run, f"classes remove model --name '{name.format(seen=small_world.seen[0])}'")


def test_attributes_in_different_units_are_scaled_with_a_warning(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    table = small_world.classes
    names, vectors = list(table.attribute_names or ()), (table.vectors * [5000, *[1] * 9]).tolist()
    lines = [["class", *names], *([label, *vector] for label, vector in zip(table.labels.tolist(), vectors, strict=True))]
    Path("data/classes.csv").write_text("\n".join(",".join(map(str, line)) for line in lines), "utf-8")
    assert "attribute-units" in run("inspect data")[1]
    _, err = succeed(run, "train data --method ESZSL --select none --out wild")
    assert f"WARN attribute-units: attributes are in different units: '{names[0]}' reaches 5000, '{names[1]}' 1." in err
    # A class with the same attributes has the same scores.
    twin = small_world.unseen[0]
    values = vectors[table.labels.tolist().index(twin)]
    given = " ".join(f"--attribute '{name}={value!r}'" for name, value in zip(names, values, strict=True))
    succeed(run, f"classes add wild --name okapi {given}")
    scores = load_model("wild").decision_function(small_world.test_unseen.X, [twin, "okapi"])
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], rtol=1e-6)
    assert np.ptp(scores[:, 0]) > 0
