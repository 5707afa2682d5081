"""Outcome of a job, as it is stored in a results folder and read by tables and figures."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sightunseen.benchmark.draws import Draw
from sightunseen.benchmark.variant_names import OWN, kind_of_preset, variant_name

DONE, FAILED, SKIPPED = "done", "failed", "skipped"
FLOPS, JOULES = "flops", "joules_"  # names of costs; that of energy is followed by the device


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job.

    Parameters
    ----------
    state : {"done", "failed", "skipped"}
        State of the job.
    identity : mapping
        Everything that determines the result of the job, and nothing else.
    shown : mapping
        What tables show of the job: names of data set and method, backbone, setting, selection, seed, budget, feature scaling
        and draw.
    reason : str, default=""
        Why the job failed or was skipped.
    record : mapping, optional
        Run record of a job that is done.
    seconds : float, default=0.0
        Wall-clock time of the job.
    cost : mapping of str to float, default={}
        Further cost of the job, as far as it was measured: ``joules_gpu``, ``joules_cpu`` and ``flops``.
    """

    state: str
    identity: Mapping[str, Any]
    shown: Mapping[str, Any]
    reason: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    cost: Mapping[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Hash of the identity."""
        return job_id(self.identity)

    @property
    def version(self) -> int:
        """Version of the method; 0 if the outcome does not say."""
        return int(self.identity.get("method", {}).get("version", 0))

    @property
    def draw(self) -> Draw | None:
        """How the class split was drawn; None for the split of the data set."""
        return Draw(**self.shown["draw"]) if "draw" in self.shown else None

    @property
    def split_name(self) -> str:
        """Name of the data set, and that of the draws."""
        return self.shown["data"] if self.draw is None else f"{self.shown['data']}, {self.draw.name}"

    @property
    def budget(self) -> str:
        """Budget or preset of the method; empty if the method has one budget only, or the outcome does not say."""
        return str(self.shown.get("budget", ""))

    @property
    def scaling(self) -> str:
        """Feature scaling: that of the method ("own"), or "searched"."""
        return str(self.shown.get("scaling", OWN))

    @property
    def variant(self) -> str:
        """Name of the variant of the method, by which its rows and lines are told apart."""
        return variant_name(self.shown["label"], self.budget, self.scaling, self.shown["selection"])

    @property
    def row_name(self) -> str:
        """Name of the variant in rows over several data sets: presets for one data set, such as paper-cub, are one."""
        return variant_name(self.shown["label"], kind_of_preset(self.budget), self.scaling, self.shown["selection"])


def job_id(identity: Mapping[str, Any]) -> str:
    """Hash an identity, independent of the order of its keys.

    Parameters
    ----------
    identity : mapping
        Identity of a job.

    Returns
    -------
    str
        20 hexadecimal digits.

    Examples
    --------
    >>> job_id({"seed": 0, "method": "ESZSL"}) == job_id({"method": "ESZSL", "seed": 0})
    True
    """
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
