"""Single sign-on by OpenID Connect: authorization code with PKCE, and roles from claims.

A browser is sent to the provider with a state, a nonce and the challenge of a verifier, all of them derived from one
secret in a cookie of this browser (:class:`.credentials.Entries`). The response is accepted if the state is that of the
cookie, the sign-in is not used up, and the ID token is signed by a key of the provider with an asymmetric algorithm,
for this client, by this issuer, with this nonce, and has not expired. Each provider has a separate redirect address, so
that the response of one is never accepted as another's (RFC 9700, 4.4).

Issuer and subject together identify a person. The name is a claim that the project file chooses; an e-mail address is
accepted only if the provider states that it is verified. Requests to the provider are limited to seconds and a
megabyte, follow no redirects, and use TLS unless the provider is on this machine.
"""

from __future__ import annotations

import json
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from tacit.core.errors import InputError
from tacit.project.project_file import OpenIDModel
from tacit.server.errors import NotSignedIn, ProviderDown
from tacit.server.identity.chain import Role
from tacit.server.identity.credentials import Code, Identity
from tacit.server.settings import is_loopback

#: Signature algorithms with which only the provider can sign: neither none nor a shared secret.
_ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
    "EdDSA",
)
#: Tolerated difference between the two clocks in seconds.
_LEEWAY: Final = 60
_SECONDS: Final = 10.0
_MOST_BYTES: Final = 1_000_000
#: Seconds for which a provider's metadata and keys are cached, and between two fetches for an unknown key.
_KEPT: Final = 3600.0
_KEYS_AGAIN: Final = 30.0
_LONGEST: Final = 1000

_log = logging.getLogger("tacit.operator")


class OpenIDProvider:
    """One OpenID provider of a project file; thread-safe."""

    def __init__(self, name: str, model: OpenIDModel, secret: str | None, clock: Callable[[], datetime]) -> None:
        self.name = name
        self._model = model
        self._secret = secret
        self._clock = clock
        self._lock = threading.Lock()
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None

    def address(self, entry: Code, redirect: str) -> str:
        """Return the URL at the provider to which a browser is sent to sign in."""
        return str(
            prepare_grant_uri(
                self._about()["authorization_endpoint"],
                client_id=self._model.client_id,
                response_type="code",
                redirect_uri=redirect,
                scope=" ".join(self._model.scopes),
                state=entry.derived("state"),
                nonce=entry.derived("nonce"),
                code_challenge=create_s256_code_challenge(entry.derived("pkce")),
                code_challenge_method="S256",
            )
        )

    def identify(self, entry: Code, answer: Mapping[str, str], redirect: str) -> Identity:
        """Return the person that the provider's response identifies.

        Raises:
            NotSignedIn: the response does not belong to this sign-in, or does not identify a person.
            ProviderDown: the provider cannot be reached, or violates the protocol.
        """
        about = self._about()
        issuer = answer.get("iss")
        if issuer is None and about.get("authorization_response_iss_parameter_supported") is True:
            raise self._refused("the response does not name its issuer")
        if issuer not in (None, self._model.issuer):
            raise self._refused("the response is of another issuer")
        if "error" in answer or "code" not in answer:
            raise self._refused("you were not signed in there")
        body = prepare_token_request(
            "authorization_code",
            redirect_uri=redirect,
            code=answer["code"][:_LONGEST],
            code_verifier=entry.derived("pkce"),
        )
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        _, headers, body = ClientAuth(self._model.client_id, self._secret, self._method(about)).prepare(
            "POST", about["token_endpoint"], headers, body
        )
        status, tokens = self._fetch("POST", about["token_endpoint"], headers=headers, content=body)
        if status != 200:
            raise self._refused("the code was not accepted; it may be used up")
        claims = self._claims(tokens, entry.derived("nonce"))
        wanted = (self._model.name_claim, self._model.groups_claim)
        if "userinfo_endpoint" in about and any(_claim(claims, each) is None for each in wanted):
            headers = {"Accept": "application/json", "Authorization": f"Bearer {tokens.get('access_token', '')}"}
            status, more = self._fetch("GET", about["userinfo_endpoint"], headers=headers)
            if status == 200 and more.get("sub") == claims["sub"]:
                claims = {**more, **claims}
        return self._identity(claims)

    def _identity(self, claims: dict[str, Any]) -> Identity:
        model, subject = self._model, claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
            raise self._refused("the ID token names no subject")
        name = _claim(claims, model.name_claim)
        if not isinstance(name, str) or not name:
            raise self._refused(f"the claim {model.name_claim!r} names nobody")
        if model.name_claim == "email" and claims.get("email_verified") is not True:
            raise self._refused("your e-mail address is not verified there")
        found = _claim(claims, model.groups_claim)
        groups = found if isinstance(found, list) else [found]
        mapped = [rule for group, rule in model.groups.items() if group in groups]
        role = Role(mapped[0].role) if mapped else None
        seen = [rule.populations for rule in mapped if rule.role == role]
        populations = None if None in seen else frozenset(each for some in seen for each in some or ())
        return Identity(self.name, f"{model.issuer} {subject}", name, role, populations)

    def _claims(self, tokens: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token after verifying it for this provider, client and sign-in."""
        text = tokens.get("id_token")
        if not isinstance(text, str):
            raise self._refused("there is no ID token; the scope openid may be missing")
        options = {
            "iss": {"essential": True, "value": self._model.issuer},
            "aud": {"essential": True, "value": self._model.client_id},
        }
        params = {"nonce": nonce, "client_id": self._model.client_id, "access_token": tokens.get("access_token")}
        try:
            token = self._decoded(text)
            claims = CodeIDToken(token.claims, token.header, options, params)
            claims.validate(int(self._clock().timestamp()), _LEEWAY)
        except (JoseError, ValueError, TypeError) as problem:
            raise self._refused(f"the ID token does not hold: {problem}") from None
        return dict(claims)

    def _decoded(self, text: str) -> jwt.Token:
        registry = JWSRegistry(algorithms=list(_ALGORITHMS), strict_check_header=False)
        try:
            return jwt.decode(text, self._key_set(_KEPT), registry=registry)
        except InvalidKeyIdError:
            # Providers rotate their keys.
            return jwt.decode(text, self._key_set(_KEYS_AGAIN), registry=registry)

    def _about(self) -> dict[str, Any]:
        """Return the provider's metadata, from a cache."""
        with self._lock:
            if self._metadata is not None and time.monotonic() - self._metadata[0] < _KEPT:
                return self._metadata[1]
        status, found = self._fetch("GET", self._model.issuer.rstrip("/") + "/.well-known/openid-configuration")
        needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        if status != 200 or found.get("issuer") != self._model.issuer:
            raise self._down("its configuration is not that of the issuer in the project file")
        if not all(isinstance(found.get(each), str) and is_safe(found[each]) for each in needed):
            raise self._down("its configuration lacks an endpoint over TLS")
        if not is_safe(str(found.get("userinfo_endpoint", self._model.issuer))):
            del found["userinfo_endpoint"]
        with self._lock:
            self._metadata = (time.monotonic(), found)
        return found

    def _key_set(self, kept: float) -> KeySet:
        with self._lock:
            if self._keys is not None and time.monotonic() - self._keys[0] < kept:
                return self._keys[1]
        status, found = self._fetch("GET", self._about()["jwks_uri"])
        try:
            keys = KeySet.import_key_set({"keys": [each for each in found["keys"] if each.get("use", "sig") == "sig"]})
        except (JoseError, KeyError, ValueError, TypeError, AttributeError):
            raise self._down(f"its keys cannot be read (status {status})") from None
        with self._lock:
            self._keys = (time.monotonic(), keys)
        return keys

    def _method(self, about: dict[str, Any]) -> str:
        """Return the client authentication method: by the secret, in the header if the provider accepts it."""
        if self._secret is None:
            return "none"
        known = about.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        return "client_secret_basic" if "client_secret_basic" in known else "client_secret_post"

    def _fetch(self, method: str, address: str, **words: Any) -> tuple[int, dict[str, Any]]:
        """Send a request; return the status and JSON object of the response."""
        deadline, read = time.monotonic() + _SECONDS, b""
        try:
            with (
                httpx2.Client(timeout=_SECONDS, verify=_tls()) as client,
                client.stream(method, address, **words) as response,
            ):
                for piece in response.iter_bytes():
                    read += piece
                    if len(read) > _MOST_BYTES or time.monotonic() > deadline:
                        raise self._down("its response is too long or too slow")
            found = json.loads(read)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as problem:
            raise self._down(f"{type(problem).__name__} at {urlsplit(address).path}") from None
        if not isinstance(found, dict):
            raise self._down("its response is no JSON object")
        return response.status_code, found

    def _refused(self, reason: str) -> NotSignedIn:
        _log.warning("sign-in by %s was refused: %s", self.name, reason)
        return NotSignedIn(f"{self.name}: {reason}")

    def _down(self, reason: str) -> ProviderDown:
        _log.warning("the identity provider %s cannot be used: %s", self.name, reason)
        return ProviderDown(self.name)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def is_safe(address: str) -> bool:
    """Whether an address uses TLS, or is on this machine."""
    parts = urlsplit(address)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    )


def open_providers(
    models: Mapping[str, OpenIDModel], clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> dict[str, OpenIDProvider]:
    """Return the providers of a project file, with their secrets.

    Raises:
        InputError: an issuer is not reached by TLS, or a secret cannot be read.
    """
    return {name: OpenIDProvider(name, model, _secret(name, model), clock) for name, model in models.items()}


def _secret(name: str, model: OpenIDModel) -> str | None:
    where = f"server.oidc.{name}"
    if not is_safe(model.issuer):
        raise InputError(f"{where}.issuer", "must begin with https:// unless it is on this machine")
    if model.client_secret is None:
        return None
    kind, _, place = model.client_secret.partition(":")
    try:
        found = os.environ[place] if kind == "env" else Path(place).read_text(encoding="utf-8").strip()
    except (KeyError, OSError, ValueError):
        raise InputError(f"{where}.client_secret", f"cannot be read from {model.client_secret}") from None
    if not found:
        raise InputError(f"{where}.client_secret", f"is empty in {model.client_secret}")
    return found


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a path into objects such as realm_access.roles."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
