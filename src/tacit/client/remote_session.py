"""Session of counting queries on a server, with checked receipts."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from tacit.client.client_errors import parsing
from tacit.client.http_client import Channel
from tacit.core.extras import load_arrow
from tacit.noise import entropy
from tacit.paid_work.query_session import SessionAnswer
from tacit.receipts.receipt import Receipt
from tacit.wire.session_responses import SessionAnswerBody, SessionBody

__all__ = ["RemoteSession"]

_KEY_BITS: Final = 128


class RemoteSession:
    """A session on a server; made by :meth:`tacit.client.remote_curator.RemoteCurator.query_session`.

    Args:
        channel: to the server.
        body: about the session.
        check: refuses a receipt that does not hold.
    """

    def __init__(self, channel: Channel, body: SessionBody, check: Callable[[Receipt], None]) -> None:
        self._channel, self._check = channel, check
        self.receipt = body.receipt.to_domain()
        check(self.receipt)
        self.body = body
        self._path = f"/v1/sessions/{body.position}"

    @property
    def position(self) -> int:
        """Place of the charge that opened the session, by which it can be gone on with."""
        return self.body.position

    @property
    def rows(self) -> int:
        """Number of rows, with noise."""
        return self.body.rows

    @property
    def hard(self) -> int:
        """Number of queries that data had to answer."""
        return len(self.refresh().hard)

    def refresh(self) -> SessionBody:
        """The session as it is now: parts, hard answers, whether it was closed; free."""
        with parsing("the session"):
            self.body = SessionBody.read(self._channel.get(self._path).content)
        return self.body

    def ask(self, where: Mapping[str, Any]) -> SessionAnswer:
        """About how many rows have one of some values in each of some columns; see :meth:`.QuerySession.ask`.

        Dates and decimals are compared with the texts of declared values.
        """
        listed = {
            str(name): [_plain(each) for each in value]
            if isinstance(value, list | tuple | set | range)
            else _plain(value)
            for name, value in where.items()
        }
        # Drawn once per query, so that whatever is sent again is the same query.
        named = {"Idempotency-Key": f"{entropy.current().bits(_KEY_BITS):032x}"}
        content = self._channel.post(self._path, json.dumps({"where": listed}), named).content
        with parsing("the answer"):
            found = SessionAnswerBody.read(content)
        return SessionAnswer(found.answer, found.hard, found.position, found.charged, found.within)

    def histogram(self) -> Any:
        """The public histogram as it is now, an Arrow table; free."""
        pq = load_arrow("pyarrow.parquet")

        return pq.read_table(io.BytesIO(self._channel.download(self._path, {"form": "parquet"})))

    def close(self) -> None:
        """End the session for good."""
        with parsing("the session"):
            self.body = SessionBody.read(self._channel.delete(self._path).content)

    def __repr__(self) -> str:
        return f"<RemoteSession {self.position} about {', '.join(self.body.columns)} of {self.body.source}>"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | str) else str(value)
