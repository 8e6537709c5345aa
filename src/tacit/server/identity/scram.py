"""SCRAM-SHA-256 (RFC 5802, RFC 7677): verifiers of secrets, and the server's side of one exchange.

A verifier holds two hashes of a salted secret, StoredKey and ServerKey. With it the server checks that a client knows
the secret, and proves that it knows the verifier; neither the secret nor a client's proof can be computed from it.
Secrets are tokens of ASCII letters, digits and underscores, which SASLprep does not change.

Salt and iterations slow down the guessing of passwords from verifiers that leaked. The secrets of tokens are 256 random
bits, which nobody guesses, so all verifiers have one public salt and the fewest iterations that clients accept. The
server can thus send both before it knows which of a person's tokens the client has, or whether there is such a person.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final

MECHANISM: Final = "SCRAM-SHA-256"
MECHANISM_PLUS: Final = "SCRAM-SHA-256-PLUS"
ITERATIONS: Final = 4_096
SALT: Final = b"tacit scram salt"
_BINDING: Final = b"tls-server-end-point"
_FIRST: Final = re.compile(rb"(n|y|p=([A-Za-z0-9.-]{1,64})),,(n=[^,]{0,400},r=([\x21-\x2b\x2d-\x7e]{8,200}))\Z")
_FINAL: Final = re.compile(rb"(c=([A-Za-z0-9+/=]{1,400}),r=([\x21-\x2b\x2d-\x7e]{1,400})),p=([A-Za-z0-9+/=]{44})\Z")
_TEXT: Final = re.compile(r"([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})\Z")


class ScramError(Exception):
    """A message of the exchange is malformed, or its channel binding does not match the connection."""


@dataclass(frozen=True, slots=True)
class ClientProof:
    """Proof that a client sent, with the messages that it authenticates."""

    messages: bytes
    proof: bytes


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """Verifier of one secret: StoredKey and ServerKey."""

    stored: bytes
    server: bytes

    @classmethod
    def derive(cls, secret: str, salt: bytes = SALT) -> ScramVerifier:
        """Compute the verifier of a secret."""
        salted = hashlib.pbkdf2_hmac("sha256", secret.encode("ascii"), salt, ITERATIONS)
        stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
        return cls(stored, _hmac(salted, b"Server Key"))

    @classmethod
    def read(cls, text: str | None) -> ScramVerifier | None:
        """Parse a verifier from the format of :attr:`text`; None if there is none."""
        found = None if text is None else _TEXT.match(text)
        if found is None:
            return None
        return cls(base64.b64decode(found[1]), base64.b64decode(found[2]))

    @property
    def text(self) -> str:
        """Text to store."""
        return f"{base64.b64encode(self.stored).decode()}:{base64.b64encode(self.server).decode()}"

    def check(self, shown: ClientProof) -> bytes | None:
        """Return the server's last message if the client has proved the secret; else None."""
        signature = _hmac(self.stored, shown.messages)
        key = bytes(a ^ b for a, b in zip(shown.proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self.stored):
            return None
        return b"v=" + base64.b64encode(_hmac(self.server, shown.messages))


class ScramExchange:
    """Server side of one exchange.

    Args:
        mechanism: that the client chose.
        nonce: random text of the server.
        binding: hash of the server's certificate on a TLS connection; None without TLS.
    """

    def __init__(self, mechanism: str, nonce: str, binding: bytes | None) -> None:
        if mechanism not in (MECHANISM, MECHANISM_PLUS) or (mechanism == MECHANISM_PLUS and binding is None):
            raise ScramError("unknown mechanism")
        self._plus = mechanism == MECHANISM_PLUS
        self._nonce = nonce.encode()
        self._binding = binding
        self._header = self._bare = self._sent = b""

    def first(self, message: bytes, salt: bytes = SALT) -> bytes:
        """Return the answer to the client's first message.

        Raises:
            ScramError: it is malformed; or an intermediary has hidden that the server supports channel binding.
        """
        found = _FIRST.match(message)
        if found is None:
            raise ScramError("malformed first message")
        flag = found[1]
        if self._plus != flag.startswith(b"p=") or (self._plus and found[2] != _BINDING):
            raise ScramError("channel binding does not match the mechanism")
        if flag == b"y" and self._binding is not None:
            raise ScramError("the client believes that the server has no channel binding")
        self._header, self._bare = flag + b",,", found[3]
        self._nonce = found[4] + self._nonce
        self._sent = b"r=%b,s=%b,i=%d" % (self._nonce, base64.b64encode(salt), ITERATIONS)
        return self._sent

    def final(self, message: bytes) -> ClientProof:
        """Return the proof in the client's last message.

        Raises:
            ScramError: it is malformed, or bound to another connection.
        """
        found = _FINAL.match(message)
        if found is None:
            raise ScramError("malformed last message")
        bound = self._header + (self._binding or b"" if self._plus else b"")
        if found[2] != base64.b64encode(bound) or found[3] != self._nonce:
            raise ScramError("the message is bound to another connection")
        try:
            proof = base64.b64decode(found[4], validate=True)
        except ValueError:
            raise ScramError("malformed proof") from None
        if len(proof) != 32:
            raise ScramError("malformed proof")
        return ClientProof(b",".join((self._bare, self._sent, found[1])), proof)


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
