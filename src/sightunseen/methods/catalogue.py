"""Catalogue of the methods as plain data. Names in plans and tables are looked up here, without importing torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError
from sightunseen.core.plugins import METHODS, is_path, plugins

INDUCTIVE, TRANSDUCTIVE = "inductive", "transductive"
ADAPTED = "-tran"  # ending of the name of a method that is adapted to unlabelled images


@dataclass(frozen=True)
class Card:
    """Entry of the catalogue, which is one row of a results table: an estimator and, if transductive, its adaptation.

    Parameters
    ----------
    estimator : str
        Name of the class in ``sightunseen.methods``; of a plug-in its entry point or import path.
    setting : {"inductive", "transductive"}
        Whether the method is adapted to unlabelled images of unseen classes.
    paper : str
        Authors, title and venue.
    year : int, optional
        Year of publication; None for a plug-in.
    cost : int, optional
        Seconds for one fit on CUB (7,057 images of 2,048 features) on one core of an AMD EPYC, adaptation included, as
        measured by ``benchmarks/methods.py``; None for a plug-in.
    adaptation : mapping of str to value, default={}
        Hyperparameters of ``adapt`` that differ from the defaults.
    ablation : bool, default=False
        Whether the method belongs to an ablation study only, or needs features of a dual encoder. Such a method has to be
        named; ``all`` and ``inductive`` do not include it.
    quick : bool, default=False
        Whether the method is inductive and fitted in seconds, as its estimator says: ``quick`` in plans includes it.
    settings : mapping of str to value, default={}
        Hyperparameters of the estimator that differ from the defaults.
    """

    estimator: str
    setting: str
    paper: str
    year: int | None = None
    cost: int | None = None
    adaptation: Mapping[str, Any] = field(default_factory=dict)
    ablation: bool = False
    quick: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


_CVC = "Li, Min & Fu, Rethinking zero-shot learning: a conditional visual classification perspective, ICCV"

CARDS: dict[str, Card] = {
    "DAP": Card("DAP", INDUCTIVE, "Lampert, Nickisch & Harmeling, Attribute-based classification, TPAMI", 2014, 6, quick=True),
    "CONSE": Card("CONSE", INDUCTIVE, "Norouzi et al., Convex combination of semantic embeddings, ICLR", 2014, 4, quick=True),
    "CMT": Card("CMT", INDUCTIVE, "Socher et al., Zero-shot learning through cross-modal transfer, NIPS", 2013, 5),
    "CMT*": Card(
        "CMT",
        INDUCTIVE,
        "Socher et al., Zero-shot learning through cross-modal transfer, NIPS",
        2013,
        5,
        settings={"novelty": True},
    ),
    "SSE": Card("SSE", INDUCTIVE, "Zhang & Saligrama, Zero-shot learning via semantic similarity, ICCV", 2015, 6),
    "LATEM": Card("LATEM", INDUCTIVE, "Xian et al., Latent embeddings for zero-shot classification, CVPR", 2016, 3),
    "ALE": Card("ALE", INDUCTIVE, "Akata et al., Label-embedding for image classification, TPAMI", 2016, 3),
    "DEVISE": Card("DEVISE", INDUCTIVE, "Frome et al., DeViSE: a deep visual-semantic embedding model, NIPS", 2013, 3),
    "SJE": Card("SJE", INDUCTIVE, "Akata et al., Evaluation of output embeddings, CVPR", 2015, 3),
    "ESZSL": Card("ESZSL", INDUCTIVE, "Romera-Paredes & Torr, An embarrassingly simple approach, ICML", 2015, 1, quick=True),
    "SYNC": Card(
        "SYNC", INDUCTIVE, "Changpinyo et al., Synthesized classifiers for zero-shot learning, CVPR", 2016, 5, quick=True
    ),
    "SAE": Card(
        "SAE", INDUCTIVE, "Kodirov, Xiang & Gong, Semantic autoencoder for zero-shot learning, CVPR", 2017, 2, quick=True
    ),
    "EXEM": Card("EXEM", INDUCTIVE, "Changpinyo, Chao & Sha, Predicting visual exemplars, ICCV", 2017, 9, quick=True),
    "GFZSL": Card("GFZSL", INDUCTIVE, "Verma & Rai, A simple exponential family framework, ECML", 2017, 1, quick=True),
    "DEM": Card("DEM", INDUCTIVE, "Zhang, Xiang & Gong, Learning a deep embedding model, CVPR", 2017, 5),
    "RelationNetwork": Card("RelationNetwork", INDUCTIVE, "Sung et al., Learning to compare, CVPR", 2018, 8),
    "SP-AEN": Card("SPAEN", INDUCTIVE, "Chen et al., Semantics-preserving adversarial embedding networks, CVPR", 2018, 13),
    "PSR": Card("PSR", INDUCTIVE, "Annadani & Biswas, Preserving semantic relations, CVPR", 2018, 7),
    "f-CLSWGAN": Card("FCLSWGAN", INDUCTIVE, "Xian et al., Feature generating networks, CVPR", 2018, 49),
    "f-VAEGAN-D2": Card("FVAEGAN", INDUCTIVE, "Xian et al., f-VAEGAN-D2: a feature generating framework, CVPR", 2019, 60),
    "TF-VAEGAN": Card("TFVAEGAN", INDUCTIVE, "Narayan et al., Latent embedding feedback, ECCV", 2020, 90),
    "CADA-VAE": Card("CADAVAE", INDUCTIVE, "Schönfeld et al., Aligned variational autoencoders, CVPR", 2019, 60),
    "CE-GZSL": Card("CEGZSL", INDUCTIVE, "Han et al., Contrastive embedding for generalized ZSL, CVPR", 2021, 70),
    "ZLAP": Card(
        "FCLSWGAN",
        INDUCTIVE,
        "Chen et al., Zero-shot logit adjustment, IJCAI",
        2022,
        60,
        settings={
            "final_classifier": "prototypes",
            "logit_adjustment": 30.0,
            "n_synthesised": 10,
            "classifier_steps": 200,
            "classification_weight": 0.0,
        },
    ),
    "CN-ZSL": Card("CNZSL", INDUCTIVE, "Skorokhodov & Elhoseiny, Class normalization for zero-shot learning, ICLR", 2021, 5),
    "CLIP": Card("CLIP", INDUCTIVE, "Radford et al., Learning transferable visual models, ICML", 2021, 1, ablation=True),
    "CVC": Card("CVC", INDUCTIVE, _CVC, 2019, 33),
    "Foresight": Card(
        "Foresight", INDUCTIVE, "sightunseen: Gaussian classes, means by kernel ridge regression", 2026, 1, quick=True
    ),
    "Projection": Card("Projection", INDUCTIVE, _CVC, 2019, 60, ablation=True),
    "ALE-tran": Card("ALE", TRANSDUCTIVE, "Xian et al., Zero-shot learning: a comprehensive evaluation, TPAMI", 2018, 3),
    "GFZSL-tran": Card("GFZSL", TRANSDUCTIVE, "Verma & Rai, A simple exponential family framework, ECML", 2017, 4),
    "DSRL": Card("DSRL", TRANSDUCTIVE, "Ye & Guo, Discriminative semantic representation learning, CVPR", 2017, 7),
    "QFSL": Card("QFSL", TRANSDUCTIVE, "Song et al., Transductive unbiased embedding, CVPR", 2018, 9),
    "CVC-tran-XE": Card("CVC", TRANSDUCTIVE, _CVC, 2019, 60, {"loss": "xe"}),
    "CVC-tran-GXE": Card("CVC", TRANSDUCTIVE, _CVC, 2019, 61, {"loss": "gxe"}),
    "f-VAEGAN-D2-tran": Card(
        "FVAEGAN", TRANSDUCTIVE, "Xian et al., f-VAEGAN-D2: a feature generating framework, CVPR", 2019, 120
    ),
    "Bi-VAEGAN": Card("BiVAEGAN", TRANSDUCTIVE, "Wang et al., Bi-directional distribution alignment, CVPR", 2023, 150),
    "Foresight-tran": Card("Foresight", TRANSDUCTIVE, "sightunseen: Foresight, adapted by EM", 2026, 3),
}


def card_of(name: str) -> Card:
    """Return the catalogue entry of a method.

    Parameters
    ----------
    name : str
        Name of the method: a key of ``CARDS``, an installed plug-in or an import path such as ``package.module:Class``. With
        ``-tran``, a plug-in is adapted to unlabelled images.

    Returns
    -------
    Card
        The entry. Plug-ins are not imported: that they exist is checked by :func:`~sightunseen.methods.method_class`.

    Raises
    ------
    SettingsError
        If the name is unknown.

    Examples
    --------
    >>> from sightunseen.methods.catalogue import card_of
    >>> card_of("SP-AEN").estimator
    'SPAEN'
    >>> card_of("package.module:Class-tran").setting
    'transductive'
    """
    if name in CARDS:
        return CARDS[name]
    for estimator, setting in ((name, INDUCTIVE), (name.removesuffix(ADAPTED), TRANSDUCTIVE)):
        if is_path(estimator) or estimator in plugins(METHODS):
            return Card(estimator, setting, "plug-in")
    known = ", ".join([*CARDS, *plugins(METHODS)])
    raise SettingsError(
        f"there is no method '{quoted(name)}'; choose one of {known}, or a class of your own as package.module:Class. See: "
        "sightunseen methods"
    )
