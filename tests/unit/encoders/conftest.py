"""Tiny checkpoints of the real classes of transformers and sentence-transformers, made from a configuration and saved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

WORDS = "a photo of the one some close up small large bright dark cropped good red green blue cyan square ball striped . ,"


@pytest.fixture(autouse=True)
def _nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The hub cannot be reached, the cache is empty, and no consent is given."""
    from sightunseen.core.checkpoints import open_checkpoint
    from sightunseen.semantics.text import open_encoder

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("SIGHTUNSEEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SIGHTUNSEEN_ALLOW_DOWNLOADS", raising=False)
    open_checkpoint.cache_clear()
    open_encoder.cache_clear()


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny checkpoint of a given kind; each is made once."""
    transformers = pytest.importorskip("transformers")
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            MAKERS[kind](transformers, made[kind])
        return made[kind]

    return make


def noise(seed: int = 0, width: int = 50, height: int = 40) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.fixture(scope="session")
def photo() -> Callable[[int], Image.Image]:
    return noise


def _seeded(transformers: Any, kind: str, config: Any) -> Any:
    import torch

    torch.manual_seed(0)
    network = getattr(transformers, kind)(config).eval()
    with torch.no_grad():  # the usual initial weights are so small that all photos would look the same
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return network


def _tokenizer(transformers: Any, folder: Path, length: int) -> None:
    """Whole words, with a start token and, last, an end token, whose position CLIP pools."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = ["<pad>", "<unk>", "<start>", *WORDS.split(), *(f"w{k}" for k in range(100)), "<end>"]
    vocabulary = {word: k for k, word in enumerate(dict.fromkeys(words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [("<start>", vocabulary["<start>"]), ("<end>", vocabulary["<end>"])]
    tokenizer.post_processor = processors.TemplateProcessing("<start> $A <end>", special_tokens=special)
    named = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<start>", "eos_token": "<end>"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=length, **named)
    fast.save_pretrained(folder)


def _text_config(transformers: Any, folder: Path, length: int) -> dict[str, Any]:
    _tokenizer(transformers, folder, length)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    ids = {"pad_token_id": 0, "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    return {"vocab_size": len(tokenizer), "max_position_embeddings": length, **shape, **ids}


VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}


def _clip(transformers: Any, folder: Path) -> None:
    text = _text_config(transformers, folder, 20)
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=12)
    _seeded(transformers, "CLIPModel", config).save_pretrained(folder)
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor.save_pretrained(folder)


def _siglip(transformers: Any, folder: Path) -> None:
    text = _text_config(transformers, folder, 16)
    config = transformers.SiglipConfig(text_config=text, vision_config=VISION)
    _seeded(transformers, "SiglipModel", config).save_pretrained(folder)
    transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)


def _vit(transformers: Any, folder: Path) -> None:
    """A classifier, whose checkpoint has no pooling layer."""
    network = _seeded(transformers, "ViTForImageClassification", transformers.ViTConfig(**VISION, num_labels=3))
    network.save_pretrained(folder)
    transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)


def _dinov2(transformers: Any, folder: Path) -> None:
    _seeded(transformers, "Dinov2Model", transformers.Dinov2Config(**VISION)).save_pretrained(folder)
    size = {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}
    transformers.BitImageProcessorPil(**size, resample=3).save_pretrained(folder)


def _convnext(transformers: Any, folder: Path) -> None:
    config = transformers.ConvNextConfig(hidden_sizes=[4, 8, 12, 16], depths=[1, 1, 1, 1], num_labels=3)
    _seeded(transformers, "ConvNextForImageClassification", config).save_pretrained(folder)
    transformers.ConvNextImageProcessorPil(size={"shortest_edge": 64}).save_pretrained(folder)


def _resnet(transformers: Any, folder: Path) -> None:
    """ResNet-101 with its 2,048 pooled features, but narrow bottlenecks."""
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 32, 2048], depths=[1, 1, 1, 1], num_labels=3)
    _seeded(transformers, "ResNetForImageClassification", config).save_pretrained(folder)
    transformers.ConvNextImageProcessorPil(size={"shortest_edge": 64}).save_pretrained(folder)


def _bert(transformers: Any, folder: Path) -> None:
    text = _text_config(transformers, folder, 16)
    _seeded(transformers, "BertModel", transformers.BertConfig(**text)).save_pretrained(folder)


def _sentences(transformers: Any, folder: Path) -> None:
    package = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    _bert(transformers, folder / "bert")
    transformer = Transformer(str(folder / "bert"))
    pooling = Pooling(transformer.get_embedding_dimension())
    package.SentenceTransformer(modules=[transformer, pooling], device="cpu").save_pretrained(str(folder))


MAKERS: dict[str, Callable[[Any, Path], None]] = {
    "clip": _clip,
    "siglip": _siglip,
    "vit": _vit,
    "dinov2": _dinov2,
    "convnext": _convnext,
    "resnet": _resnet,
    "bert": _bert,
    "sentences": _sentences,
}
