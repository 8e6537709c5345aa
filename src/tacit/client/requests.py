"""Bodies of requests: one class reads a body and describes it in OpenAPI; unknown fields are refused.

Numbers of privacy are JSON numbers, read from their digits (:class:`NumberText`), so that one tenth stays one tenth;
or the same digits as text, for programs that would write a double.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
)

from tacit.client.response_body import maybe
from tacit.client.values import decimal_text
from tacit.core.errors import InputError
from tacit.core.numbers import check_count
from tacit.query.contribution import AUTO, ContributionNumber, contribution_number
from tacit.query.request import OPTIONS, OptionKind, Request
from tacit.synth.synthesis_request import SynthesisRequest, request_of
from tacit.synth.table_synthesis import Method
from tacit.synth.workload import Workload
from tacit.synth.workload_form import workload_from_plain

Role = Literal["owner", "analyst", "auditor"]
Scopes = list[Literal["ask", "audit", "admin"]]
_KNOWN_SCOPES: Final = get_args(get_args(Scopes)[0])
#: Names in ``within`` and ``weights``, and in lists.
_MOST_NAMES: Final = 256
_LONGEST: Final = 200
_MOST_DAYS: Final = 3650
#: A number as text: as JSON writes one that is not negative.
_DECIMAL: Final = r"(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"


class NumberText(str):
    """A JSON number, as it was written."""

    __slots__ = ()

    @property
    def whole(self) -> bool:
        """Whether it was written without a point and an exponent."""
        return self.lstrip("-").isdigit()


def _text(name: str, value: Any) -> str:
    if isinstance(value, NumberText) or not isinstance(value, str):
        raise InputError(name, f"must be text, not {_kind(value)}")
    return value


def _number(name: str, value: Any) -> str:
    if not isinstance(value, NumberText) and not (isinstance(value, str) and re.fullmatch(_DECIMAL, value)):
        raise InputError(name, f'must be a number such as 0.5 or "0.5", not {_kind(value)}')
    return str(value)


def _count(name: str, value: Any) -> int:
    if not isinstance(value, NumberText) or not value.whole:
        raise InputError(name, f"must be a whole number, not {_kind(value)}")
    return int(value)


def _limit(name: str, value: Any) -> ContributionNumber:
    return contribution_number(value, name) if type(value) is str else _count(name, value)


def _numbers(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > _MOST_NAMES:
        raise InputError(name, f"must be an object of at most {_MOST_NAMES} numbers, not {_kind(value)}")
    return {key: _number(f"{name}.{key[:80]}", item) for key, item in value.items()}


def _number_or_numbers(name: str, value: Any) -> str | dict[str, str]:
    return _numbers(name, value) if isinstance(value, dict) else _number(name, value)


def _texts(name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > _LONGEST:
        raise InputError(name, "must be a list of names")
    return [_text(name, item) for item in value]


def _names(name: str, value: Any) -> list[str] | None:
    return None if value is None else _texts(name, value)


def _one_of(words: tuple[str, ...]) -> Callable[[str, Any], str]:
    """A reader of one of some words."""

    def read(name: str, value: Any) -> str:
        if _text(name, value) not in words:
            raise InputError(name, f"must be one of {', '.join(words)}")
        return str(value)

    return read


def _scopes(name: str, value: Any) -> list[str]:
    if not set(found := _texts(name, value)) <= set(_KNOWN_SCOPES):
        raise InputError(name, f"must be of {', '.join(_KNOWN_SCOPES)}")
    return found


def _days(name: str, value: Any) -> int:
    if not 1 <= (days := _count(name, value)) <= _MOST_DAYS:
        raise InputError(name, f"must be a whole number from 1 to {_MOST_DAYS}")
    return days


def _sets(name: str, value: Any) -> list[list[str]]:
    if not isinstance(value, list) or len(value) > _LONGEST:
        raise InputError(name, "must be a list of lists of names")
    return [_texts(name, each) for each in value]


def _sources(name: str, value: Any) -> Any:
    """A table or a SELECT; or two tables, each with a list of columns or null."""
    if not isinstance(value, dict):
        return _text(name, value)
    if len(value) != 2:
        raise InputError(name, "must be a text, or two tables: the one with a row for each person, then the other")
    return {table: _names(name, columns) for table, columns in value.items()}


def _rule_list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > _LONGEST or not all(isinstance(each, dict) for each in value):
        raise InputError(name, "must be a list of values by columns")
    return [_plain(name, each) for each in value]


def _rule_table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > _LONGEST:
        raise InputError(name, "must be an object of rules by columns")
    return {key: _plain(name, each) for key, each in value.items()}


def _label(name: str, value: Any) -> str:
    if len(found := _text(name, value)) > _LONGEST:
        raise InputError(name, f"must have at most {_LONGEST} characters")
    return found


def _parameters(name: str, value: Any) -> dict[str, Any]:
    """Parameters of an estimator: whole numbers as such, others as their decimal text."""
    if not isinstance(value, dict) or len(value) > _LONGEST:
        raise InputError(name, "must be an object with the parameters of the estimator")
    return {key: _plain(name, each, _whole_or_text) for key, each in value.items()}


def _whole_or_text(_: str, number: NumberText) -> int | str:
    return int(number) if number.whole else str(number)


def _workload(name: str, value: Any) -> Any:
    """Plain lists that describe a workload, with whole numbers as such; refused here where they describe none."""
    plain = _plain(name, value)
    workload_from_plain(plain)
    return plain


def _plain(name: str, value: Any, number: Callable[[str, Any], Any] = _count) -> Any:
    """Lists and objects of any depth of text, true, false, null and numbers, which are whole if not said otherwise."""
    if isinstance(value, NumberText):
        return number(name, value)
    if isinstance(value, list):
        return [_plain(name, each, number) for each in value]
    if isinstance(value, dict):
        return {key: _plain(name, each, number) for key, each in value.items()}
    return value


def _kind(value: Any) -> str:
    if isinstance(value, NumberText):
        return "the number " + value
    names = {str: "text", bool: "a truth value", dict: "an object", list: "a list", type(None): "null"}
    return names.get(type(value), "that")


def _by(read: Callable[[str, Any], Any]) -> PlainValidator:
    """Read a field by a function of its name and its value."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        return read(info.field_name or "", value)

    return PlainValidator(validate)


_AMOUNT: Final = {
    "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": f"^{_DECIMAL}$"}],
    "description": "read exactly from its decimal text; at most 40 digits",
}
_AMOUNTS: Final = {"type": "object", "additionalProperties": _AMOUNT}
_LIMIT: Final = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "enum": [AUTO]}]}
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_SCOPES: Final = {"type": "array", "items": {"type": "string", "enum": list(_KNOWN_SCOPES)}}
_CAPS: Final = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}

Text = Annotated[str, _by(_text), WithJsonSchema({"type": "string"})]
Name = Annotated[str, _by(_text), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": _LONGEST})]
Days = Annotated[int, _by(_days), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": _MOST_DAYS})]
_RULES: Final = {"type": "object"}
_SOURCES: Final = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "minProperties": 2,
            "maxProperties": 2,
            "additionalProperties": {"anyOf": [_TEXTS, {"type": "null"}]},
        },
    ]
}
Names = Annotated[list[str] | None, _by(_names), WithJsonSchema({"anyOf": [_TEXTS, {"type": "null"}]})]
_Amount = Annotated[str, _by(_number), WithJsonSchema(_AMOUNT)]
_Count = Annotated[int, _by(_count), WithJsonSchema({"type": "integer", "minimum": 1})]
_Label = Annotated[str, _by(_label), WithJsonSchema({"type": "string", "maxLength": _LONGEST})]
_Limit = Annotated[Any, _by(_limit), WithJsonSchema(_LIMIT)]
_Texts = Annotated[list[str], _by(_texts), WithJsonSchema(_TEXTS)]
_OPTION_TYPES: Final[Mapping[OptionKind, Any]] = {
    OptionKind.AMOUNT: _Amount,
    OptionKind.PROBABILITY: _Amount,
    OptionKind.COUNT: _Count,
    OptionKind.LIMIT: _Limit,
    OptionKind.AMOUNTS: Annotated[Any, _by(_number_or_numbers), WithJsonSchema({"anyOf": [_AMOUNT, _AMOUNTS]})],
    OptionKind.WEIGHTS: Annotated[Any, _by(_numbers), WithJsonSchema(_AMOUNTS)],
}


class RequestBody(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, content: Any) -> Self:
        """The body, from JSON whose numbers are :class:`NumberText`.

        Raises:
            InputError: it is not such an object; names the field.
        """
        if not isinstance(content, dict):
            raise InputError("body", "must be a JSON object")
        for name in content:
            if name not in cls.model_fields:
                raise InputError(name[:80], f"is not a field; there are {', '.join(cls.model_fields)}")
        try:
            return cls.model_validate(content)
        except ValidationError as problem:
            found = problem.errors(include_url=False)
        missing = [error for error in found if error["type"] == "missing"]
        if missing:
            raise InputError(str(missing[0]["loc"][0]), "is missing")
        refused: InputError = found[0]["ctx"]["error"]
        raise refused

    @property
    def stated(self) -> dict[str, Any]:
        """The fields that were sent, in the order of the schema.

        A set has another order in every process, and jobs are compared by their text.
        """
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


class NewPerson(RequestBody):
    """A person to add, or to change."""

    name: Name
    role: Annotated[str, _by(_one_of(get_args(Role))), WithJsonSchema({"type": "string", "enum": list(get_args(Role))})]
    populations: Names = maybe(
        description="populations that exist for them, null for all; if left out, as before, or all"
    )


class NewToken(RequestBody):
    """A token to issue."""

    name: Name
    days: Days = Field(description="until it ends")
    label: _Label = maybe()
    scopes: Annotated[list[str] | None, _by(_scopes), WithJsonSchema(_SCOPES)] = maybe(
        description="by default those of the person"
    )
    share: _Amount = maybe(
        description="epsilon that all its charges may amount to, of each population; it may then only ask"
    )


class SynthesisSchema(RequestBody):
    """A synthetic table to make, and one of epsilon, rho and mu."""

    source: Annotated[Any, _by(_sources), WithJsonSchema(_SOURCES)] = Field(
        description="a table, or a SELECT of rows; or two tables, persons and rows of theirs, with columns or null"
    )
    columns: Names = maybe(description="null for all that are declared")
    rows: _Count = maybe(description="to draw; by default about as many as there are")
    method: Annotated[
        str, _by(_one_of(get_args(Method))), WithJsonSchema({"type": "string", "enum": list(get_args(Method))})
    ] = maybe()
    marginals: Annotated[list[list[str]], _by(_sets), WithJsonSchema({"type": "array", "items": _TEXTS})] = maybe(
        description="sets of columns to measure, or whose error matters"
    )
    minutes: _Count = maybe(description="that fits may take; says how large the model may grow")
    impossible: Annotated[list[Any], _by(_rule_list), WithJsonSchema({"type": "array", "items": _RULES})] = maybe(
        description="combinations of values that no row has, by public knowledge"
    )
    determined: Annotated[dict[str, Any], _by(_rule_table), WithJsonSchema(_RULES)] = maybe(
        description='columns that follow from another, such as {"region": {"zip": {"1000": "north"}}}'
    )
    only_if: Annotated[dict[str, Any], _by(_rule_table), WithJsonSchema(_RULES)] = maybe(
        description='columns that are NULL but under a condition, such as {"pregnant": {"sex": "f"}}'
    )
    quantiles: _Texts = maybe(description="columns whose bins begin at private quantiles")
    nulls: _Texts = maybe(description="columns with bounds of which NULL is a value")
    epsilon: _Amount = maybe()
    delta: _Amount = maybe()
    rho: _Amount = maybe()
    mu: _Amount = maybe()
    max_rows: _Limit = maybe()

    @property
    def asked(self) -> tuple[SynthesisRequest, int | None]:
        """The request, and how many rows to draw.

        Raises:
            InputError: something is of another kind.
        """
        said = self.stated
        rows, method = said.pop("rows", None), said.pop("method", "aim")
        return request_of(said.pop("source"), said.pop("columns", None), method, said), rows


class WorkloadSchema(RequestBody):
    """Counting queries to answer at once, and one of epsilon, rho and mu."""

    source: Text = Field(description="a table, or a SELECT of rows")
    workload: Annotated[Any, _by(_workload), WithJsonSchema({"type": "array", "items": {"type": "object"}})] = Field(
        description='parts that are added up, such as {"marginals": ["sex", "ward"], "ways": 2} or {"prefixes": "age"}'
    )
    epsilon: _Amount = maybe()
    delta: _Amount = maybe()
    rho: _Amount = maybe()
    mu: _Amount = maybe()
    confidence: _Amount = maybe()
    max_rows: _Limit = maybe()

    @property
    def arguments(self) -> tuple[str, Workload, dict[str, Any]]:
        """Source, workload and options of :func:`tacit.releases.workload.answer_workload`."""
        said = self.stated
        options = {name: said[name] for name in said if name not in ("source", "workload")}
        return self.source, workload_from_plain(self.workload), options


class Quota(RequestBody):
    """A limit for one person, counting what they have spent; no caps take it away."""

    name: Name
    population: Text
    caps: Annotated[dict[str, str], _by(_numbers), WithJsonSchema(_CAPS)] = Field(
        description="by currency of the account"
    )


class _QuestionBody(RequestBody):
    model_config = ConfigDict(
        json_schema_extra={"example": {"sql": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "epsilon": 0.5}}
    )


_QUESTION: Final[dict[str, Any]] = {
    "sql": (Text, Field(description="one SELECT")),
    **{name: (_OPTION_TYPES[option.kind], maybe(description=option.help)) for name, option in OPTIONS.items()},
}
QuestionSchema: Final[type[RequestBody]] = create_model(
    "QuestionSchema",
    __base__=_QuestionBody,
    __doc__="A question in SQL, and exactly one of epsilon, rho, mu and within, here or in the text of the query.",
    **_QUESTION,
)


def read_question(content: Any) -> Request:
    """The question in a body, from JSON whose numbers are :class:`NumberText`."""
    return Request(**QuestionSchema.of(content).stated)


def request_text(request: Request) -> str:
    """The body of a question as a client sends it: the text, and the options that are stated."""
    if not isinstance(request.sql, str):
        raise InputError("sql", f"must be text, not {type(request.sql).__name__}")
    parts = [f'"sql":{json.dumps(request.sql)}']
    stated = ((name, getattr(request, name)) for name in OPTIONS)
    parts += [f"{json.dumps(name)}:{_written(value, name)}" for name, value in stated if value is not None]
    return "{" + ",".join(parts) + "}"


class FitSchema(RequestBody):
    """A model to fit: an estimator by its name, its parameters, and the rows."""

    estimator: _Label = Field(description="such as LogisticRegression")
    parameters: Annotated[Any, _by(_parameters), WithJsonSchema({"type": "object"})] = Field(
        description='of the estimator, such as {"epsilon": 1, "delta": 1e-6}; an object whose keys are no text is '
        '{"pairs": [[key, value]]}'
    )
    sql: Text = Field(description="a SELECT of rows: features, and the target last")
    weight: _Label = maybe(description="a column of the SELECT by which rows count, up to max_weight of the estimator")


def synthesis_text(
    words: Mapping[str, Any], options: Mapping[str, Any], schema: type[RequestBody] = SynthesisSchema
) -> str:
    """The body of a synthetic table to make, or of a workload to answer, as a client sends it."""
    parts = []
    for name, value in words.items():
        if value is not None:
            parts.append(f"{json.dumps(name)}:{json.dumps(_listed(value))}")
    for name, value in options.items():
        if value is None:
            continue
        if name not in schema.model_fields:
            raise InputError(name, "means nothing here; state epsilon, delta, rho, mu or max_rows")
        parts.append(f"{json.dumps(name)}:{_written(value, name)}")
    return "{" + ",".join(parts) + "}"


def _listed(value: Any) -> Any:
    """A value with lists for all sequences, as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _listed(each) for key, each in value.items()}
    return value if isinstance(value, str) or not isinstance(value, Sequence) else [_listed(each) for each in value]


def _written(value: Any, name: str) -> str:
    if OPTIONS[name].kind is OptionKind.COUNT:
        return str(check_count(value, name))
    if OPTIONS[name].kind is OptionKind.LIMIT:
        return json.dumps(contribution_number(value, name))
    if not isinstance(value, Mapping):
        return decimal_text(value, name)
    if not all(isinstance(key, str) for key in value):
        raise InputError(name, "must name columns or aggregates by their text")
    return "{" + ",".join(f"{json.dumps(key)}:{decimal_text(each, name)}" for key, each in value.items()) + "}"
