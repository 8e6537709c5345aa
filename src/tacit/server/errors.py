"""Errors of the server.

::

    TacitError
    ├── AccessError
    │   ├── NotSignedIn      access.sign_in  a provider or this server does not let a person in
    │   └── Unknown          access.unknown  there is no such thing, for the caller
    ├── Unauthenticated      auth            missing or invalid token
    ├── TooMany              rate            too often within a minute
    ├── ProviderDown         provider        an identity provider cannot be used
    ├── Busy                 busy            nothing was done; try again
    └── RequestError         request.…       the bytes sent are not a request
"""

from __future__ import annotations

from tacit.core.errors import AccessError, TacitError


class Unknown(AccessError):  # noqa: N818  (an answer to the caller)
    """There is no such thing, or the caller may not see it: the two are not told apart."""

    code = "access.unknown"

    def __init__(self, what: str) -> None:
        super().__init__(f"there is no such {what}")


class NotSignedIn(AccessError):  # noqa: N818
    """A sign-in at a provider that opens no session."""

    code = "access.sign_in"


class Unauthenticated(TacitError):  # noqa: N818
    """Missing or invalid token; missing, malformed, unknown, expired and revoked are not told apart."""

    code = "auth"

    def __init__(self) -> None:
        super().__init__("show a token that is valid: Authorization: Bearer tacit_…")


class TooMany(TacitError):  # noqa: N818
    """Too often; ``seconds`` says when to come back."""

    code = "rate"

    def __init__(self, seconds: float) -> None:
        super().__init__("too many requests; wait as long as Retry-After says")
        self.seconds = seconds


class Busy(TacitError):  # noqa: N818
    """Everything is in use, or the server is about to stop. Nothing was done or charged."""

    code = "busy"

    def __init__(self) -> None:
        super().__init__("the server is busy; nothing was done, try again")


class ProviderDown(TacitError):  # noqa: N818
    """An identity provider cannot be reached, or does not keep to the protocol; the operator's log has the reason."""

    code = "provider"

    def __init__(self, name: str) -> None:
        super().__init__(f"the identity provider {name} cannot be used now; sessions and tokens go on working")


class RequestError(TacitError):
    """The bytes sent are not a request; the code is ``request.<reason>``, the sentence says what to send instead."""

    code = "request"

    def __init__(self, reason: str, status: int, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers
        vars(self)["code"] = f"request.{reason}"
