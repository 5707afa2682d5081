"""Schema of a stored job outcome: everything that tables, figures and later runs read of it. Further entries are allowed."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from sightunseen.benchmark.draws import LEAST_SEEN
from sightunseen.core.records import FINITE, OPEN, Interval

Text = Annotated[str, Field(max_length=10_000)]
Percent = Annotated[float, Field(ge=0, le=100)]
Amount = Annotated[float, Field(ge=0, le=1e30)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass
class DrawTable:
    """``draw`` of an outcome: how its class split was drawn; see :class:`~sightunseen.benchmark.draws.Draw`."""

    __pydantic_config__ = FINITE

    seen: Annotated[int, Field(ge=LEAST_SEEN, lt=2**63)] | Literal["all"]
    unequal: Annotated[float, Field(ge=1)] = 1.0


@dataclass
class ShownTable:
    """``shown`` of an outcome: names and properties of the job in tables."""

    __pydantic_config__ = OPEN

    data: Text
    published_name: Text
    backbone: Text
    method: Text
    label: Text
    setting: Literal["inductive", "transductive"]
    selection: Literal["validation", "none", "oracle"]
    seed: Count
    budget: Text = ""
    scaling: Literal["own", "searched"] = "own"
    draw: DrawTable = field(default_factory=lambda: DrawTable("all"))


@dataclass
class MethodTable:
    """``identity.method``: name, version and hyperparameters."""

    __pydantic_config__ = OPEN

    name: Text
    settings: dict[str, Any]
    version: Count = 0


@dataclass
class SemanticsTable:
    """``identity.data``: the class vectors in use."""

    __pydantic_config__ = OPEN

    semantics: Text = ""


@dataclass
class IdentityTable:
    """``identity`` of a job whose data were read."""

    __pydantic_config__ = OPEN

    method: MethodTable
    data: SemanticsTable = field(default_factory=SemanticsTable)


@dataclass
class SkippedIdentityTable:
    """``identity`` of a job whose data could not be read."""

    __pydantic_config__ = OPEN

    skipped: list[Any]


@dataclass
class ResultsTable:
    """``record.results``: test results in percent."""

    __pydantic_config__ = OPEN

    T1: Percent
    U: Percent
    S: Percent
    H: Percent
    AUSUC: Percent
    U_plain: Percent
    S_plain: Percent
    H_plain: Percent


@dataclass
class ValidationTable:
    """``record.selection.validation``: results on validation classes in percent."""

    __pydantic_config__ = OPEN

    T1: Percent = 0.0
    H_at_best_penalty: Percent = 0.0


@dataclass
class SelectionTable:
    """``record.selection``: what was selected, and the results that it was selected by."""

    __pydantic_config__ = OPEN

    validation: ValidationTable = field(default_factory=ValidationTable)
    chosen: dict[str, Any] = field(default_factory=dict)


@dataclass
class ClassesTable:
    """``record.data.classes``: number of seen classes."""

    __pydantic_config__ = OPEN

    seen: Count = 0


@dataclass
class DataTable:
    """``record.data``: sizes of the data."""

    __pydantic_config__ = OPEN

    classes: ClassesTable = field(default_factory=ClassesTable)


@dataclass
class RecordTable:
    """``record`` of a job that is done."""

    __pydantic_config__ = OPEN

    results: ResultsTable
    intervals: dict[str, Interval] = field(default_factory=dict)
    selection: SelectionTable = field(default_factory=SelectionTable)
    data: DataTable = field(default_factory=DataTable)


@dataclass
class CostTable:
    """``cost`` of an outcome: joules by device, or floating-point operations."""

    __pydantic_config__ = FINITE

    joules_gpu: Amount | None = None
    joules_cpu: Amount | None = None
    flops: Amount | None = None


@dataclass
class OutcomeTable:
    """A stored outcome of a job that failed or was skipped."""

    __pydantic_config__ = FINITE

    state: Literal["failed", "skipped"]
    identity: IdentityTable | SkippedIdentityTable
    shown: ShownTable
    reason: str
    record: dict[str, Any]
    seconds: Annotated[float, Field(ge=0, le=1e12)]
    cost: CostTable = field(default_factory=CostTable)


@dataclass
class DoneTable:
    """A stored outcome of a job that is done."""

    __pydantic_config__ = FINITE

    state: Literal["done"]
    identity: IdentityTable
    shown: ShownTable
    reason: str
    record: RecordTable
    seconds: Annotated[float, Field(ge=0, le=1e12)]
    cost: CostTable = field(default_factory=CostTable)
