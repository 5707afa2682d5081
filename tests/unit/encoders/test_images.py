"""Image side of checkpoints of transformers, compared with the outputs of the real classes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from sightunseen.core.checkpoints import Origin, open_checkpoint
from sightunseen.core.errors import SettingsError
from sightunseen.features.backbones import open_backbone

Make = Callable[[str], Path]
Photo = Callable[[int], Image.Image]
KINDS = {"clip": 12, "siglip": 16, "vit": 16, "dinov2": 16, "convnext": 16, "resnet": 2048}


def pixels_of(folder: Path, photo: Image.Image) -> torch.Tensor:
    from transformers import AutoImageProcessor

    return AutoImageProcessor.from_pretrained(folder, backend="pil")(images=photo, return_tensors="pt")["pixel_values"]


def expected(kind: str, folder: Path, photo: Image.Image) -> Any:
    """Features by the documented classes; of classifiers, the input of their last layer."""
    import transformers

    with torch.inference_mode():
        pixels = pixels_of(folder, photo)
        if kind == "clip":
            return transformers.CLIPModel.from_pretrained(folder).get_image_features(pixels).pooler_output.numpy()
        if kind == "siglip":
            return transformers.SiglipModel.from_pretrained(folder).get_image_features(pixels).pooler_output.numpy()
        if kind == "dinov2":
            return transformers.Dinov2Model.from_pretrained(folder)(pixels).last_hidden_state[:, 0].numpy()
        network = transformers.AutoModelForImageClassification.from_pretrained(folder)
        given: list[torch.Tensor] = []
        last = network.classifier if isinstance(network.classifier, torch.nn.Linear) else network.classifier[-1]
        last.register_forward_hook(lambda _layer, inputs, _output: given.append(inputs[0]))
        network(pixels)
        return given[0].numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_the_real_class(checkpoint: Make, photo: Photo, kind: str) -> None:
    backbone = open_backbone(f"hf:{checkpoint(kind)}", "cpu")
    found = backbone([backbone.prepare(photo(seed)) for seed in range(5)])
    assert (found.dtype, found.shape, backbone.size) == (np.float32, (5, KINDS[kind]), KINDS[kind])
    np.testing.assert_allclose(found[3:4], expected(kind, checkpoint(kind), photo(3)), rtol=1e-4, atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_fingerprint_is_reproducible(checkpoint: Make, kind: str) -> None:
    found = set()
    for _ in range(2):
        open_checkpoint.cache_clear()
        found.add(open_backbone(f"hf:{checkpoint(kind)}", "cpu").fingerprint)
    assert len(found) == 1


def test_fingerprint_depends_on_weights_and_preprocessing(checkpoint: Make, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    first = open_backbone(f"hf:{checkpoint('dinov2')}", "cpu").fingerprint
    weights, sizes = tmp_path / "weights", tmp_path / "sizes"
    for folder in (weights, sizes):
        shutil.copytree(checkpoint("dinov2"), folder)
    changed = load_file(weights / "model.safetensors")
    changed["layernorm.bias"][0] += 1e-3
    save_file(changed, weights / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((sizes / "preprocessor_config.json").read_text("utf-8"))
    (sizes / "preprocessor_config.json").write_text(json.dumps({**config, "size": {"shortest_edge": 40}}), "utf-8")
    assert len({first, *(open_backbone(f"hf:{folder}", "cpu").fingerprint for folder in (weights, sizes))}) == 3


def test_only_dual_encoders_have_a_text_side(checkpoint: Make) -> None:
    named = {kind: open_backbone(f"hf:{checkpoint(kind)}", "cpu") for kind in ("clip", "siglip", "vit")}
    assert named["vit"].text_encoder is None
    assert "text_encoder" not in named["vit"].describe()
    for kind in ("clip", "siglip"):
        assert named[kind].describe()["text_encoder"] == named[kind].name == f"hf:{checkpoint(kind)}"


def test_preprocessing_for_export_is_that_of_the_image_processor(checkpoint: Make) -> None:
    smooth = Image.linear_gradient("L").resize((320, 240)).convert("RGB")
    for kind in KINDS:
        backbone: Any = open_backbone(f"hf:{checkpoint(kind)}", "cpu")
        np.testing.assert_allclose(backbone.preprocessing(smooth), backbone.prepare(smooth), atol=0.15)


# -- checkpoints that cannot be used --------------------------------------------------------------------------------------


def test_pickled_weights_are_not_loaded(checkpoint: Make, tmp_path: Path) -> None:
    shutil.copytree(checkpoint("dinov2"), tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").unlink()
    torch.save({}, tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(SettingsError, match=r"cannot be opened .* safetensors"):
        open_backbone(f"hf:{tmp_path / 'pickled'}")


def test_code_of_a_checkpoint_is_not_run(checkpoint: Make, tmp_path: Path) -> None:
    shutil.copytree(checkpoint("dinov2"), tmp_path / "code")
    (tmp_path / "code" / "own.py").write_text(
        f"open({str(tmp_path / 'was_run')!r}, 'w')\nclass Own: pass\nclass Config: pass\n"
    )
    config = json.loads((tmp_path / "code" / "config.json").read_text("utf-8"))
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Own"}}
    (tmp_path / "code" / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(SettingsError, match="cannot be opened"):
        open_backbone(f"hf:{tmp_path / 'code'}")
    assert not (tmp_path / "was_run").exists()


def test_missing_weights_are_named(checkpoint: Make, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(checkpoint("dinov2"), tmp_path / "part")
    weights = load_file(tmp_path / "part" / "model.safetensors")
    del weights["layernorm.bias"]
    save_file(weights, tmp_path / "part" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(SettingsError, match=r"lacks 1 weights \(first: layernorm.bias\)"):
        open_backbone(f"hf:{tmp_path / 'part'}")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "preprocessor_config.json"])
@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\x00" * 100])
def test_damaged_files_are_refused(checkpoint: Make, tmp_path: Path, file: str, content: bytes | None) -> None:
    shutil.copytree(checkpoint("vit"), tmp_path / "damaged")
    (tmp_path / "damaged" / file).unlink()
    if content is not None:
        (tmp_path / "damaged" / file).write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        open_backbone(f"hf:{tmp_path / 'damaged'}")
    assert len(str(caught.value)) <= 500


def test_huge_photos_are_refused(checkpoint: Make, tmp_path: Path) -> None:
    shutil.copytree(checkpoint("vit"), tmp_path / "huge")
    config = json.loads((tmp_path / "huge" / "preprocessor_config.json").read_text("utf-8"))
    config["size"] = {"height": 10**6, "width": 10**6}
    (tmp_path / "huge" / "preprocessor_config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(SettingsError, match="at most 4096 are allowed"):
        open_backbone(f"hf:{tmp_path / 'huge'}")


def test_a_model_of_texts_cannot_embed_photos(checkpoint: Make) -> None:
    with pytest.raises(SettingsError, match="cannot be opened"):
        open_backbone(f"hf:{checkpoint('bert')}")


@pytest.mark.parametrize("name", ["hf:/no/such/folder", "hf:../nowhere", "hf:a/b/c", "hf:-x/y", "hf:a b"])
def test_a_name_that_is_no_repository_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="neither an existing folder nor a repository"):
        open_backbone(name)


def test_a_repository_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(SettingsError, match="'hf:nobody/nothing' cannot be opened"):
        open_backbone("hf:nobody/nothing")


def test_revision_of_a_repository() -> None:
    assert Origin.of("hf:openai/clip@abc123") == Origin("openai/clip", "abc123")
    assert Origin.of("st:all-mpnet-base-v2").options["trust_remote_code"] is False
