"""Body of a response: strict about types, with exact numbers as text."""

from __future__ import annotations

from numbers import Rational
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tacit.client.values import exact_text

Exact = Annotated[
    str,
    BeforeValidator(lambda value: exact_text(value) if isinstance(value, Rational) else value),
    Field(description="exact: a decimal, or a fraction p/q"),
]
#: A value in JSON.
Scalar = bool | int | float | str | None


def maybe(**words: Any) -> Any:
    """A field that may be left out, and is never null."""
    return Field(default=None, **words)


class ResponseBody(BaseModel):
    """The body of a response, or a part of one."""

    model_config = ConfigDict(
        extra="ignore", strict=True, from_attributes=True, json_schema_extra={"additionalProperties": False}
    )

    @classmethod
    def from_domain(cls, thing: object, **more: Any) -> Self:
        """The body of an object whose attributes have the names of the fields, but for those stated."""
        same = (name for name, field in cls.model_fields.items() if name not in more and field.is_required())
        return cls.model_validate({**{name: getattr(thing, name) for name in same}, **more})

    def plain(self) -> dict[str, Any]:
        """The object to send: fields in order, without those that are left out."""
        return self.model_dump(exclude_unset=True)

    @classmethod
    def read(cls, content: Any) -> Self:
        """The body that a server sent.

        Raises:
            ValueError: it is another; names the field.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
