"""Content negotiation: JSON or an Arrow stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tacit.core.extras import load_arrow
from tacit.server.errors import RequestError

if TYPE_CHECKING:
    from tacit.releases.answer import Answer

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
_MOST: Final = 32


def chosen(headers: dict[bytes, bytes], offered: tuple[str, ...] = (JSON,)) -> str:
    """The form that the caller likes best, of those that are offered; the first one where it is all the same.

    Raises:
        RequestError: none of them is liked.
    """
    raw = headers.get(b"accept", b"").decode("latin-1").strip()
    if not raw or raw == "*/*" or raw == offered[0]:
        return offered[0]
    liked = [_range(part) for part in raw.split(",")[:_MOST]]
    best, quality = "", 0.0
    for form in offered:
        # The most specific range decides about a form.
        fits = max(((_fit(name, form), q) for name, q in liked if _fit(name, form)), default=(0, 0.0))
        if fits[1] > quality:
            best, quality = form, fits[1]
    if not best:
        raise RequestError("accept", 406, f"answers come as {' or '.join(offered)}")
    return best


def wants_job(headers: dict[bytes, bytes]) -> bool:
    """Whether the caller would rather poll than wait (RFC 7240)."""
    raw = headers.get(b"prefer", b"").decode("latin-1").lower()
    return any(part.partition(";")[0].strip() == "respond-async" for part in raw.split(","))


def json_bytes(content: Any) -> bytes:
    """JSON as it is sent: no spaces, keys in the order of the content, always the same."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def arrow_bytes(answer: Answer, head: dict[str, Any]) -> bytes:
    """The table of an answer with its intervals as an Arrow stream; all else is in the schema, under ``tacit``."""
    pa = load_arrow()

    table = answer.intervals()
    table = table.replace_schema_metadata({"tacit": json_bytes(head)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip() for piece in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                quality = float(value)
            except ValueError:
                return "", 0.0
            return name.lower(), quality if 0 <= quality <= 1 else 0.0
    return name.lower(), 1.0


def _fit(name: str, form: str) -> int:
    if name == form:
        return 3
    if name == f"{form.partition('/')[0]}/*":
        return 2
    return 1 if name == "*/*" else 0
