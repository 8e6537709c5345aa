"""Models fitted to protected rows inside the curator, charged and receipted like queries.

The life of a fit: resolve the rows → declare what is public about them → price → reserve → read one row of each unit →
fit → commit → return the model. The ledger stores the model, so that it is read again at no cost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from numpy.typing import NDArray
from pydantic import Field

from tacit.accounting.currencies import currency_named
from tacit.core.canonical import digest_of
from tacit.core.errors import AccountingError, InputError, InternalError
from tacit.core.relations import ADD_REMOVE, as_relation
from tacit.engines.protocol import Engine
from tacit.ledger import Outcome, Reservation
from tacit.query.catalog import Population
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import Field as RowField
from tacit.query.relational.algebra import RelationNode, relation_text, scanned
from tacit.query.resolve import resolve_rows
from tacit.query.types import Kind
from tacit.releases.accounts import Entry, typed_epsilon
from tacit.releases.api_types import Label, RequestModel, ResponseModel, Text
from tacit.releases.mechanism import event_for
from tacit.releases.payment import Caller, CuratorContext, ReleaseTimer, hide_internal_errors, paid_at, pay_release
from tacit.releases.receipt import Receipt, about_mechanism, quoted
from tacit.releases.release import Files, ReleaseKind

if TYPE_CHECKING:
    from tacit.learn.estimator import PrivateEstimator
    from tacit.learn.release import FitPrice

_LABEL: Final = "fit "

_NUMBERS = (Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
_CLASSES = (Kind.BOOLEAN, Kind.INTEGER, Kind.TEXT)
_BOUNDING = "one row of each unit counts, chosen by a keyed hash of the unit and the row"


@dataclass(frozen=True, repr=False)
class Fitted:
    """A fitted model with its charge and receipt.

    Args:
        model: the fitted estimator.
        charge: ledger entry of the charge; nothing for a model that was charged before.
        receipt: receipt of the charge.
        sql: the SELECT of rows.
        features: names of the feature columns.
        target: name of the target column; empty where there is none.
        text: the model as the ledger stores it; :func:`tacit.learn.model_format.model_from_text` reads it.
    """

    model: Any
    charge: Entry
    receipt: Receipt
    sql: str = ""
    features: tuple[str, ...] = ()
    target: str = ""
    text: str = ""

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file, which :func:`tacit.learn.load_model` reads."""
        Path(path).write_text(self.text, encoding="utf-8")

    def __repr__(self) -> str:
        learned = f"{self.target} from {', '.join(self.features)}" if self.target else ", ".join(self.features)
        return f"<{type(self).__name__} {type(self.model).__name__}: {learned}; {self.charge.text}>"


@dataclass(frozen=True)
class _Columns:
    """Indices of columns in the rows: the features, and the class or numeric target."""

    features: tuple[int, ...]
    classes: int | None = None
    target: int | None = None

    @property
    def numbers(self) -> list[int]:
        """Indices of the columns read as numbers, or as text for categories: features, then target."""
        return [*self.features, *([] if self.target is None else [self.target])]

    def read(self, engine: Engine, rows: RelationNode, secret: bytes) -> tuple[NDArray[Any], Any]:
        """Read features and targets (or class labels), for one row of each unit."""
        raw, labels = engine.examples(rows, self.numbers, self.classes, secret)
        width = len(self.features)
        return raw[:, :width], labels if self.target is None else raw[:, width]


@dataclass(frozen=True)
class _PricedFit:
    """A valid fit before its charge: its rows, the estimator with all declarations filled in, and its cost."""

    rows: RelationNode
    columns: _Columns
    declared: Any
    price: FitPrice
    population: Population

    @property
    def names(self) -> list[str]:
        """Names of the features, and of the target where there is one."""
        learned = [slot for slot in (self.columns.target, self.columns.classes) if slot is not None]
        return [str(self.rows.fields[slot].name) for slot in [*self.columns.features, *learned]]


def _prepare(context: CuratorContext, estimator: Any, sql: str) -> _PricedFit:
    rows = resolve_rows(sql, context.measured_catalog)
    columns = _columns(rows, estimator)
    # Entered here only: scikit-learn is an extra.
    from tacit.learn.model_format import model_to_text

    declared = _declared(estimator, rows, columns)
    # The cost is a function of the estimator's parameters, not of rows.
    price = declared.price(len(columns.features))
    if not price.guarantee.epsilon:
        raise InputError("estimator", "learns nothing from the rows as it is set; it can be fitted without them")
    # Refused here because a model whose parameters cannot be serialised would be charged and lost.
    model_to_text(declared)
    population = context.catalog.population(rows.population or "")
    if population.relation is not ADD_REMOVE or price.guarantee.relation is not ADD_REMOVE:
        raise InputError("estimator", "a fit protects units that are added or removed; use relation='add_remove'")
    kind = context.accounts[population.name].kind
    try:
        currency_named(kind).price(price, population.relation)
    except AccountingError:
        raise InputError(
            "estimator",
            f"costs a delta, and the account of {population.name} has accounting = {kind!r}: fit without delta, "
            "or let the owner use accounting = 'approx' with epsilon and delta",
        ) from None
    context.engine.check_examples(rows)
    return _PricedFit(rows, columns, declared, price, population)


def fit_privately(context: CuratorContext, estimator: Any, sql: str, caller: Caller) -> Fitted:
    """Fit a copy of ``estimator``; see :meth:`tacit.curator.curator.Curator.fit`."""
    # Entered here only: scikit-learn is an extra.
    from tacit.learn.model_format import model_to_text, parameters_to_json

    with hide_internal_errors():
        found = _prepare(context, estimator, sql)
        rows, columns, declared, price, population = (
            found.rows, found.columns, found.declared, found.price, found.population,
        )  # fmt: skip
        currency = currency_named(context.accounts[population.name].kind)
        guarantee = currency.price(price, population.relation)
        label = f"{_LABEL}{type(declared).__name__}: {sql}"
        about = about_mechanism(declared, event_for(price, guarantee), label, released="")
        about |= {"query": sql, "plan": digest_of(relation_text(rows)), "bounding": _BOUNDING, "groups": "none"}
        has_target = len(found.names) > len(columns.features)
        told = {"estimator": type(declared).__name__, "sql": sql, "columns": found.names, "target": has_target}
        # Changed sources are bound again, and refused where they no longer fit the project as opened.
        context.version(dict.fromkeys(scanned(rows)))

        def run(_: Reservation) -> Any:
            secret = context.keys.group_secret(population.name)
            raw_features, raw_labels = columns.read(context.engine, rows, secret)
            try:
                declared.fit(raw_features, raw_labels)
            except Exception as problem:
                # The message of any exception may quote rows.
                raise InternalError("a fit failed on its rows") from problem
            if declared.event_ != price.event:
                raise InternalError("a fit released other things than it was charged for")
            return declared

        paid, entry = pay_release(
            context, caller, run, model_to_text, lambda _, digest: [about | {"released": digest}],
            population=population.name, guarantee=guarantee, unit=f"one of {population.name}, with one row each",
            label=label, plan=about["plan"],
            quote={"mechanisms": quoted(about["mechanisms"]), "model": told, **typed_epsilon(vars(declared))},
            request=[label, about["mechanisms"], parameters_to_json(declared)],
        )  # fmt: skip
        return _fitted(paid.outcome, entry, told, paid.made)


def _fitted(outcome: Outcome, entry: Entry, told: dict[str, Any], model: Any = None) -> Fitted:
    """Return a model with its charge and receipt; the model is read from the ledger unless given."""
    from tacit.learn.model_format import model_from_text

    text, names = outcome.result.decode(), tuple(told["columns"])
    features, target = (names[:-1], names[-1]) if told["target"] else (names, "")
    receipt = Receipt.from_json(outcome.receipt)
    return Fitted(
        model_from_text(text) if model is None else model, entry, receipt, told["sql"], features, target, text
    )


def _columns(rows: RelationNode, estimator: Any) -> _Columns:
    # Entered here only: scikit-learn is an extra.
    from tacit.learn.estimator import PrivateEstimator

    if not isinstance(estimator, PrivateEstimator):
        raise InputError("estimator", f"must be one of tacit.learn, not {type(estimator).__name__}")
    visible = [slot for slot, part in enumerate(rows.fields) if part.name is not None]
    for slot in visible:
        if slot == rows.unit or (rows.fields[slot].identifies or "").startswith("unit "):
            raise Refusal("unit_exposed", f"{rows.fields[slot].name} is the unit itself; leave it out of the SELECT.")
    params = estimator.get_params()
    if "candidates" in params:
        raise InputError("estimator", "must be one model; fit the candidates of a search one by one")
    # An estimator with classes or with bounds of a target is supervised.
    supervised = "classes" in params or "target_bounds" in params
    features = visible[:-1] if supervised else visible
    if not features:
        raise Refusal("arguments", "Select at least one feature, and the label last.")
    target = visible[-1] if "target_bounds" in params else None
    for slot in [*features, *([] if target is None else [target])]:
        kind = rows.fields[slot].type.kind
        if kind not in _NUMBERS and not (kind is Kind.TEXT and slot in features and "categories" in params):
            raise Refusal(
                "type",
                f"{rows.fields[slot].name} is {rows.fields[slot].type}, and models take numbers: write CASE WHEN … "
                "THEN 1 ELSE 0 END, or a number computed from it.",
            )
    classes = visible[-1] if supervised and target is None else None
    if classes is not None and rows.fields[classes].type.kind not in _CLASSES:
        part = rows.fields[classes]
        raise Refusal("type", f"{part.name} is {part.type}; a class is a text, a whole number or a truth value.")
    return _Columns(tuple(features), classes, target)


def _declared(estimator: Any, rows: RelationNode, columns: _Columns) -> Any:
    """Return a copy of the estimator, with parameters its user did not state filled in from the catalogue."""
    given = estimator.get_params()
    params = given | _by_place(given, [str(rows.fields[slot].name) for slot in columns.features])
    stated: dict[str, Any] = {}
    if "categories" in params:
        stated["categories"] = params["categories"] = _categories(rows, columns, params["categories"])
    if "bounds" in params and params["bounds"] is None and params.get("data_norm") is None:
        known = params.get("categories") or ()
        numbers = [slot for place, slot in enumerate(columns.features) if place not in known]
        stated["bounds"] = [_ends(rows.fields[slot]) for slot in numbers] or None
    if columns.classes is not None and params["classes"] is None:
        stated["classes"] = _classes(rows.fields[columns.classes])
    if columns.target is not None and params["target_bounds"] is None:
        stated["target_bounds"] = _ends(rows.fields[columns.target])
    if columns.classes is not None:
        # Classes of another type than the column's would match no row.
        part, classes = rows.fields[columns.classes], params["classes"]
        is_text = part.type.kind is Kind.TEXT
        listed = list(classes) if isinstance(classes, list | tuple | range) else []
        if any(isinstance(each, int | float) if is_text else isinstance(each, str) for each in listed):
            words = f"and {part.name}, which is {part.type}, are of different types; give both as one"
            raise InputError("classes", words)
    if isinstance(params.get("classes"), str):
        raise InputError("estimator", "classes must be declared for a fit on an account; a catalogue's categories do")
    if "relation" in params and as_relation(params["relation"]) is not ADD_REMOVE:
        raise InputError("estimator", "a fit protects units that are added or removed; use relation='add_remove'")
    return type(estimator)(**(params | stated))


def _categories(rows: RelationNode, columns: _Columns, given: Any) -> Any:
    """Return the categories by index of feature; those not stated for text columns come from the catalogue."""
    open_texts = [
        (place, rows.fields[slot])
        for place, slot in enumerate(columns.features)
        if rows.fields[slot].type.kind is Kind.TEXT and not (isinstance(given, Mapping) and place in given)
    ]
    if not open_texts:
        return given
    found = dict(given or {})
    for place, part in open_texts:
        values = [value for value in part.domain.values or () if value is not None]
        if not values:
            raise Refusal(
                "no_categories",
                f"{part.name} is text without declared categories; give the estimator "
                f"categories={{'{part.name}': [...]}}, or a number of groups to hash it into.",
            )
        found[place] = values
    return found


def _by_place(params: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Return bounds and categories stated by name as ordered by feature: rows have no names."""
    found: dict[str, Any] = {}
    categories, bounds = params.get("categories"), params.get("bounds")
    if isinstance(categories, Mapping):
        odd = [str(key) for key in categories if isinstance(key, str) and key not in names]
        if odd:
            raise InputError("categories", f"name {', '.join(odd)}; the features are {', '.join(names)}")
        found["categories"] = {names.index(key) if isinstance(key, str) else key: categories[key] for key in categories}
        if len(found["categories"]) != len(categories):
            raise InputError("categories", "describe a column twice")
    if isinstance(bounds, Mapping):
        numbers = [name for place, name in enumerate(names) if place not in found.get("categories", ())]
        if set(numbers) != set(map(str, bounds)):
            raise InputError("bounds", f"by name must be those of {', '.join(numbers)}")
        found["bounds"] = [bounds[name] for name in numbers]
    return found


def _ends(part: RowField) -> tuple[Any, Any]:
    if part.type.kind is Kind.BOOLEAN:
        return (0, 1)
    ends = part.domain.range.ends
    if ends is None:
        raise Refusal("bounds", f"{part.name} has no declared bounds; write CLAMP({part.name}, low, high).")
    return ends


def _classes(part: RowField) -> list[Any]:
    if part.type.kind is Kind.BOOLEAN:
        return [False, True]
    values: list[Any] = [value for value in part.domain.values or () if value is not None]
    if not values:
        raise Refusal("no_categories", f"{part.name} has no declared categories; give the estimator its classes.")
    return values


class ModelRequest(RequestModel):
    """A model to fit: an estimator by its name, its parameters, and the rows."""

    kind: Literal["model"]
    estimator: Label = Field(description="such as LogisticRegression")
    parameters: dict[str, Any] = Field(
        description='of the estimator, such as {"epsilon": 1, "delta": 1e-6}; an object whose keys are no text is '
        '{"pairs": [[key, value]]}'
    )
    sql: Text = Field(description="a SELECT of rows: features, and the target last")

    @property
    def fitting(self) -> PrivateEstimator:
        """Return the estimator, not fitted.

        Raises:
            InputError: there is no estimator of that name, or it has no such parameter.
        """
        # Entered here only: scikit-learn is an extra.
        from tacit.learn.model_format import MODELS, parameters_from_json

        return MODELS.made(self.estimator, parameters_from_json(json.loads(json.dumps(self.parameters, default=str))))


class ModelResponse(ResponseModel):
    """A model: its guarantee in words, and the columns that it was fitted to."""

    estimator: str
    sql: str
    features: list[str]
    target: str = Field(description="what it predicts; empty where there is none")
    report: str = Field(description="guarantee, releases and declarations in words")


class ModelKind(ReleaseKind[ModelRequest, Fitted]):
    """Models fitted to protected rows."""

    name = "model"
    label = _LABEL
    request: ClassVar = ModelRequest
    response: ClassVar = ModelResponse

    def names(self, kept: Mapping[str, Any]) -> tuple[str, ...]:
        return (kept["estimator"],)

    def source(self, kept: Mapping[str, Any]) -> str:
        return str(kept["sql"])

    def quote(self, context: CuratorContext, request: ModelRequest) -> str:
        with hide_internal_errors():
            found = _prepare(context, request.fitting, request.sql)
            return f"{type(found.declared).__name__} of {found.population.name}: {found.price.guarantee!r}"

    def make(
        self,
        context: CuratorContext,
        request: ModelRequest,
        caller: Caller,
        timer: ReleaseTimer | None = None,  # noqa: ARG002 - of owners alone
    ) -> Fitted:
        return fit_privately(context, request.fitting, request.sql, caller)

    def read(self, context: CuratorContext, position: int) -> Fitted:
        with hide_internal_errors():
            _, told, outcome, entry = paid_at(context, position, "model")
            return _fitted(outcome, entry, told)

    def describe(self, made: Fitted) -> ModelResponse:
        return ModelResponse(
            estimator=type(made.model).__name__,
            sql=made.sql,
            features=list(made.features),
            target=made.target,
            report=str(made.model.privacy_report()),
        )

    def files(self, made: Fitted) -> Files:
        return {"model.json": made.text.encode}


MODEL: Final = ModelKind()
