"""Run records: method, data, selection and results of a run, as versioned JSON."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

from annotated_types import Len

from sightunseen._version import __version__
from sightunseen.core.documents import STRICT, DocumentError, parse_document, quoted, validated
from sightunseen.core.errors import ModelError

RECORD_VERSION = 3
READABLE = (1, 2, 3)  # version 1 has no ``seeds`` and no ``engine``, version 2 no ``intervals``, ``verdict`` and ``compared``
FINITE = {**STRICT, "allow_inf_nan": False}  # ``__pydantic_config__`` of a schema without infinite numbers
OPEN = {**FINITE, "extra": "ignore"}  # of a schema of a table that may have further entries
Interval = Annotated[list[float], Len(2, 2)]  # low and high


def versions_in_use() -> dict[str, str]:
    """Versions of Python and of the packages that influence results.

    Returns
    -------
    dict of str to str
        Version by package; "not installed" for a missing one.
    """
    found = {"python": platform.python_version(), "sightunseen": __version__}
    for package in ("torch", "numpy", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


@dataclass(frozen=True)
class RunRecord:
    """Record of one run; every field has a JSON form.

    Parameters
    ----------
    kind : str
        ``train``, ``adapt``, ``evaluate`` or ``demo``.
    method : str
        Name of the method.
    settings : mapping
        Hyperparameters of the model, chosen ones included.
    seed : int
        Seed of the run.
    protocol : str
        ``honest``, or ``paper`` if anything was selected on test data.
    data : mapping
        Name, fingerprints, loading options and sizes of the data.
    selection : mapping, default={}
        What was tried and chosen, and by which criterion.
    findings : tuple of mapping, default=()
        Findings of the split doctor other than PASS, and whether they were repaired.
    results : mapping, default={}
        Test results in percent, and those of metric plug-ins in their own units.
    intervals : mapping of str to sequence of float, default={}
        95 % interval of a result, low and high in percent, by the name of the metric; see
        :func:`~sightunseen.core.intervals.bootstrap`.
    verdict : tuple of str, default=()
        The results in plain sentences.
    compared : mapping, default={}
        ``validation_and_test``: T1 on the test images and T1 that the validation classes promised; ``before``: test results
        before adapting; ``zero_shot``: test results of zero-shot CLIP on the same features.
    seeds : mapping, default={}
        Results of each seed, with mean and standard deviation, if there were several.
    history : tuple of mapping, default=()
        Losses along training, or one entry per round of adaptation.
    parent : mapping, default=None
        Record of the model that was adapted.
    engine : str, default=""
        Device and precision of gradient training.
    wall_seconds : float, default=0.0
        Duration of the run.
    created : str, default=now
        Time in UTC, ISO 8601.
    versions : mapping of str to str
        Versions of Python and of the main packages.
    record_version : int
        Version of this format.
    """

    kind: str
    method: str
    settings: Mapping[str, Any]
    seed: int
    protocol: str
    data: Mapping[str, Any]
    selection: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Mapping[str, Any], ...] = ()
    results: Mapping[str, Any] = field(default_factory=dict)
    intervals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    verdict: tuple[str, ...] = ()
    compared: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    parent: Mapping[str, Any] | None = None
    engine: str = ""
    wall_seconds: float = 0.0
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    versions: Mapping[str, str] = field(default_factory=versions_in_use)
    record_version: int = RECORD_VERSION

    def to_json(self) -> str:
        """Format the record as indented JSON with sorted keys.

        Returns
        -------
        str
            The JSON text.

        Raises
        ------
        ValueError
            If a value has no JSON form, such as NaN.
        """
        return json.dumps(asdict(self), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "RunRecord":
        """Parse a record.

        Parameters
        ----------
        text : str
            JSON text that :meth:`to_json` made.

        Returns
        -------
        RunRecord
            The record.

        Raises
        ------
        ModelError
            If the text is not a record, is of another version, or lacks or adds fields.
        """
        try:
            return cls.of(parse_document(text.encode("utf-8", "surrogatepass")))
        except DocumentError as error:
            raise ModelError(f"this is not a run record: {error}") from error

    @classmethod
    def of(cls, content: Any) -> "RunRecord":
        """Validate the content of a record.

        Parameters
        ----------
        content : object
            Parsed JSON, such as the ``parent`` of another record.

        Returns
        -------
        RunRecord
            The record.

        Raises
        ------
        ModelError
            If the content is not a record, is of another version, or lacks or adds fields.
        """
        if not isinstance(content, Mapping):
            raise ModelError(f"this is not a run record: expected a table of fields; got {quoted(repr(content))}")
        found = content.get("record_version")
        if isinstance(found, bool) or found not in READABLE:
            raise ModelError(
                f"run record of version {quoted(found)}; this version of sightunseen reads {', '.join(map(str, READABLE))}. "
                "Install a matching release."
            )
        try:
            json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
            large = isinstance(content.get("selection"), Mapping)  # and its entries are not in the schema
            validated(_Record, {**content, "selection": {}} if large else content)
        except (DocumentError, ValueError) as error:  # ValueError: NaN, or text that is not valid Unicode
            raise ModelError(f"the run record is damaged: {quoted(error, 200)}. Train the model again.") from error
        lists = {name: tuple(content.get(name, ())) for name in ("findings", "history", "verdict")}
        return cls(**{**content, **lists})


@dataclass
class _Finding:
    __pydantic_config__ = OPEN

    check: str = ""
    level: str = ""
    repaired: bool = False


@dataclass
class _Backbone:
    __pydantic_config__ = OPEN

    name: str
    fingerprint: str = ""


@dataclass
class _Data:
    __pydantic_config__ = OPEN

    fingerprints: dict[str, str] = field(default_factory=dict)
    backbone: _Backbone | None = None


@dataclass
class _Settings:
    __pydantic_config__ = OPEN

    seen_penalty: float = 0.0
    adaptation: dict[str, Any] | None = None


@dataclass
class _Ancestor:
    """What is read of the record of the model that was adapted; the rest is validated when it is used."""

    __pydantic_config__ = OPEN

    kind: str = ""
    settings: _Settings = field(default_factory=_Settings)
    parent: "_Ancestor | None" = None


@dataclass
class _Record:
    """Schema of a run record: its fields, and the entries in them that commands read."""

    __pydantic_config__ = FINITE

    kind: str
    method: str
    settings: _Settings
    seed: int
    protocol: str
    data: _Data
    findings: list[_Finding]
    history: list[dict[str, Any] | float]
    selection: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    verdict: list[str] = field(default_factory=list)
    compared: dict[str, Any] = field(default_factory=dict)
    seeds: dict[str, Any] = field(default_factory=dict)
    parent: _Ancestor | None = None
    engine: str = ""
    wall_seconds: float = 0.0
    created: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    record_version: int = RECORD_VERSION
