"""Types of the API: exact numbers and names, and the bases of requests and responses.

A class that reads a body also describes it in OpenAPI. Requests refuse fields that they do not know; numbers come as
``int`` or :class:`~decimal.Decimal`, read from their digits, so that 0.1 is exact. Responses are strict about types,
and readers ignore unknown fields, so that a newer server may send more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Rational
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    Strict,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from tacit.core.errors import InputError
from tacit.core.numbers import check_count, decimal_text, exact_text
from tacit.query.contribution import contribution_number
from tacit.query.request import OPTIONS, OptionKind

#: Largest number of names in a list, and of characters of a label.
_LONGEST: Final = 200

Exact = Annotated[
    str,
    BeforeValidator(lambda value: exact_text(value) if isinstance(value, Rational) else value),
    Field(description="exact: a decimal, or a fraction p/q"),
]
#: A value in JSON.
Scalar = bool | int | float | str | None

Text = Annotated[str, Strict()]
Name = Annotated[str, Strict(), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": _LONGEST})]
Label = Annotated[str, Strict(), Field(max_length=_LONGEST)]
Names = Annotated[list[Text], Strict(), Field(max_length=_LONGEST)]
Count = Annotated[int, Strict(), WithJsonSchema({"type": "integer", "minimum": 1})]
#: Nonnegative JSON number as text.
_DECIMAL: Final = r"^(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
#: Cost, as a number or as the same digits in a text; that it is positive is checked with all other options.
Amount = Annotated[
    Annotated[Decimal, BeforeValidator(lambda value: Decimal(value) if type(value) is int else value), Strict()]
    | Annotated[str, Strict(), Field(pattern=_DECIMAL)],
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": _DECIMAL}],
            "description": "read exactly from its decimal text; at most 40 digits",
        }
    ),
]
Amounts = Annotated[dict[str, Amount], Strict(), Field(max_length=256)]
Limit = Count | Literal["auto"]

#: Texts about a valid value, by pydantic's type of the error.
_WORDS: Final = {
    "string_type": "must be text",
    "is_instance_of": 'must be a number such as 0.5 or "0.5"',
    "decimal_type": 'must be a number such as 0.5 or "0.5"',
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "missing": "is missing",
}


def maybe(**words: Any) -> Any:
    """Return a field that may be left out, and is never null."""
    return Field(default=None, **words)


class RequestModel(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, content: Any) -> Self:
        """Validate a body parsed from JSON whose numbers are ``int`` or ``Decimal``.

        Raises:
            InputError: the body is invalid; the message names the field.
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
        # Of the alternatives of a field, the best match fails at the deepest position.
        raise _input_error(max(found, key=lambda each: (each["type"] == "missing", len(each["loc"]))), content)

    @property
    def stated(self) -> dict[str, Any]:
        """The fields that were sent, in the order of the schema.

        The order must be the same in every process, which that of a set is not: jobs are compared by their text.
        """
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    @classmethod
    def text(cls, fields: Mapping[str, Any], options: Mapping[str, Any]) -> str:
        """Return the JSON body that a client sends, with exact numbers of query options; None is left out.

        Raises:
            InputError: an option is no field of this request, or a number has no exact decimal form.
        """
        parts = [
            f"{json.dumps(name)}:{json.dumps(_listed(value))}" for name, value in fields.items() if value is not None
        ]
        for name, value in options.items():
            if value is not None and name not in cls.model_fields:
                raise InputError(
                    name, f"means nothing here; state one of {', '.join(set(OPTIONS) & {*cls.model_fields})}"
                )
            parts += [] if value is None else [f"{json.dumps(name)}:{option_text(value, name)}"]
        return "{" + ",".join(parts) + "}"


class ResponseModel(BaseModel):
    """The body of a response, or a part of one."""

    model_config = ConfigDict(
        extra="ignore", strict=True, from_attributes=True, json_schema_extra={"additionalProperties": False}
    )

    @classmethod
    def from_domain(cls, thing: object, **more: Any) -> Self:
        """Make a body from an object whose attributes have the names of the fields, except the fields in ``more``."""
        same = (name for name, field in cls.model_fields.items() if name not in more and field.is_required())
        return cls.model_validate({**{name: getattr(thing, name) for name in same}, **more})

    def plain(self) -> dict[str, Any]:
        """Return the JSON object to send: fields in order, without unset fields."""
        return self.model_dump(exclude_unset=True)

    @classmethod
    def read(cls, content: Any) -> Self:
        """Validate a body that a server sent.

        Raises:
            ValueError: the body is invalid; the message names the field.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


class DescribedAs:
    """Describe a field as a type without checking its values one by one: there may be millions of cells."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        held = core_schema.dict_schema(strict=True) if source is dict else core_schema.list_schema(strict=True)
        return core_schema.json_or_python_schema(
            json_schema=handler.generate_schema(self._kind),
            python_schema=held,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )


def option_text(value: Any, name: str) -> str:
    """Return an option of a query as exact JSON."""
    if OPTIONS[name].kind is OptionKind.COUNT:
        return str(check_count(value, name))
    if OPTIONS[name].kind is OptionKind.LIMIT:
        return json.dumps(contribution_number(value, name))
    if not isinstance(value, Mapping):
        return decimal_text(value, name)
    if not all(isinstance(key, str) for key in value):
        raise InputError(name, "must name columns or aggregates by their text")
    return "{" + ",".join(f"{json.dumps(key)}:{decimal_text(each, name)}" for key, each in value.items()) + "}"


def _listed(value: Any) -> Any:
    """Return a value with all sequences as lists, for JSON."""
    if isinstance(value, Mapping):
        return {str(key): _listed(each) for key, each in value.items()}
    return value if isinstance(value, str) or not isinstance(value, Sequence) else [_listed(each) for each in value]


def _input_error(found: ErrorDetails, content: Any) -> InputError:
    """Return the error of a field with a text about valid values, without quoting texts that were sent."""
    places = []
    for part in found["loc"]:
        # For a union of types, the location contains the type's name, which is no part of the body.
        is_there = part in content if isinstance(content, dict) else isinstance(content, list) and isinstance(part, int)
        if is_there or found["type"] == "missing":
            places.append(str(part))
            content = content[part] if is_there else None
    name = ".".join(places)
    words = _WORDS.get(found["type"]) or found["msg"].replace("Input should", "must")
    words = words[0].lower() + words[1:]
    kinds = {str: "text", bool: "a truth value", dict: "an object", list: "a list", type(None): "null"}
    kind = kinds.get(type(found["input"]), f"the number {found['input']}")
    is_type = found["type"].endswith("_type") or found["type"] == "is_instance_of"
    return InputError(name[:80], f"{words}, not {kind}" if is_type else words)
