"""A real OpenID provider on loopback, on Authlib's server side: discovery, authorization code with PKCE, ID tokens.

It signs in whoever :attr:`OpenID.user` names, without asking. Fields in capitals of :class:`Lies` make it lie.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from authlib.oauth2.rfc6749 import AuthorizationServer, OAuth2Payload, OAuth2Request
from authlib.oauth2.rfc6749.errors import OAuth2Error
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core.grants import OpenIDCode
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from tacit.noise import entropy


@dataclass
class Lies:
    """How a provider departs from the protocol; nothing by default."""

    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    key: Any = None
    issuer: str | None = None
    endpoints: dict[str, str] = field(default_factory=dict)
    iss: str | None = None
    body: bytes | None = None
    seconds: float = 0


@dataclass
class _Code:
    code: str
    user: dict[str, Any]
    redirect_uri: str
    scope: str
    nonce: str | None
    code_challenge: str | None
    code_challenge_method: str | None

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int | None:
        return None

    def get_acr(self) -> str | None:
        return None

    def get_amr(self) -> list[str] | None:
        return None


class _Client:
    def __init__(self, name: str, secret: str, redirects: list[str]) -> None:
        self.client_id, self.secret, self.redirects = name, secret, redirects

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return self.redirects[0]

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, address: str) -> bool:
        return address in self.redirects

    def check_client_secret(self, secret: str) -> bool:
        return secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == ("client_secret_basic" if self.secret else "none")

    def check_response_type(self, kind: str) -> bool:
        return kind == "code"

    def check_grant_type(self, kind: str) -> bool:
        return kind == "authorization_code"


class _Payload(OAuth2Payload):
    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._data = dict(pairs)
        self._datalist: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in pairs:
            self._datalist[name].append(value)

    @property
    def data(self) -> dict[str, str]:
        return self._data

    @property
    def datalist(self) -> defaultdict[str, list[str]]:
        return self._datalist


class _Request(OAuth2Request):
    def __init__(self, method: str, uri: str, headers: dict[str, str], body: str) -> None:
        super().__init__(method, f"https{uri.removeprefix('http')}", headers=headers)
        self._args = dict(parse_qsl(urlsplit(uri).query))
        self._form = dict(parse_qsl(body))
        self.payload = _Payload([*parse_qsl(urlsplit(uri).query), *parse_qsl(body)])

    @property
    def args(self) -> dict[str, str]:
        return self._args

    @property
    def form(self) -> dict[str, str]:
        return self._form


class OpenID(AuthorizationServer):
    """One provider with one client; its keys can be changed while it runs."""

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self.client, self.issuer = client, ""
        self.user: dict[str, Any] = {"sub": "alice-1", "preferred_username": "alice", "groups": ["analysts"]}
        self.only_userinfo: tuple[str, ...] = ()
        self.lies = Lies()
        self.codes: dict[str, _Code] = {}
        self.tokens: dict[str, dict[str, Any]] = {}
        self.key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})
        self.fetched: list[str] = []
        self.asked: dict[str, str] = {}
        self.register_token_generator("default", BearerTokenGenerator(lambda **_: _random()))
        provider = self

        class Grant(AuthorizationCodeGrant):
            TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "none")

            def save_authorization_code(self, code: str, request: Any) -> None:
                said = request.payload.data
                provider.codes[code] = _Code(
                    code, dict(request.user), said["redirect_uri"], request.scope, said.get("nonce"),
                    said.get("code_challenge"), said.get("code_challenge_method"),
                )  # fmt: skip

            def query_authorization_code(self, code: str, client: Any) -> _Code | None:
                return provider.codes.get(code)

            def delete_authorization_code(self, code: _Code) -> None:
                del provider.codes[code.code]

            def authenticate_user(self, code: _Code) -> dict[str, Any]:
                return code.user

        class Tokens(OpenIDCode):
            def exists_nonce(self, nonce: str, request: Any) -> bool:
                return False

            def generate_user_info(self, user: dict[str, Any], scope: str) -> dict[str, Any]:
                return user

            def encode_id_token(self, token: dict[str, Any], request: Any) -> str:
                now, lies = int(time.time()), provider.lies
                claims = {
                    "iss": provider.issuer, "aud": provider.client.client_id, "iat": now, "exp": now + 300,
                    "nonce": request.authorization_code.nonce,
                    **{name: said for name, said in request.user.items() if name not in provider.only_userinfo},
                    **lies.claims,
                }  # fmt: skip
                claims = {name: said for name, said in claims.items() if said is not None}
                header = {"alg": "RS256", "kid": provider.key.kid, **lies.header}
                return jwt.encode(header, claims, lies.key or provider.key, [header["alg"]])

        self.register_grant(Grant, [CodeChallenge(required=True), Tokens(require_nonce=True)])

    def query_client(self, client_id: str) -> _Client | None:
        return self.client if client_id == self.client.client_id else None

    def save_token(self, token: dict[str, Any], request: Any) -> None:
        self.tokens[token["access_token"]] = dict(request.user)

    def create_oauth2_request(self, request: _Request) -> _Request:
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> tuple[int, bytes, dict[str, str]]:
        return status, json.dumps(body).encode() if isinstance(body, dict) else (body or b""), dict(headers)

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        pass

    def answer(self, method: str, path: str, headers: dict[str, str], body: str) -> tuple[int, bytes, dict[str, str]]:
        route = urlsplit(path).path
        self.fetched.append(route)
        if self.lies.seconds:
            time.sleep(self.lies.seconds)
        if self.lies.body is not None and route == "/token":
            return 200, self.lies.body, {}
        if route == "/.well-known/openid-configuration":
            about = {
                "issuer": self.lies.issuer or self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo", "authorization_response_iss_parameter_supported": True,
            }  # fmt: skip
            return 200, json.dumps({**about, **self.lies.endpoints}).encode(), {}
        if route == "/keys":
            return 200, json.dumps(KeySet([self.key]).as_dict(private=False)).encode(), {}
        if route == "/userinfo":
            user = self.tokens.get(headers.get("authorization", "").removeprefix("Bearer "))
            return (401, b"{}", {}) if user is None else (200, json.dumps(user).encode(), {})
        request = _Request(method, f"{self.issuer}{path}", _Headers(headers), body)
        if route == "/token":
            return self.create_token_response(request)  # type: ignore[no-any-return]
        try:
            self.asked = dict(request.args)
            grant = self.get_consent_grant(request, end_user=self.user)
        except OAuth2Error as problem:
            return 400, str(problem).encode(), {}
        status, text, more = self.create_authorization_response(request, grant_user=self.user, grant=grant)
        if "Location" in more:
            more["Location"] += f"&iss={self.lies.iss or self.issuer}"
        return status, text, more


class _Headers(dict[str, str]):
    def get(self, name: str, default: Any = None) -> Any:  # type: ignore[override]
        return super().get(name.lower(), default)


def _random() -> str:
    return f"{entropy.current().bits(256):064x}"


def symmetric(text: str) -> OctKey:
    """A key for HMAC out of what everyone knows."""
    return OctKey.import_key(text)


@contextmanager
def openid(redirect: str, *, client: str = "tacit", secret: str = "a shared secret") -> Iterator[OpenID]:
    """A provider that listens, for one client with one redirect address."""
    provider = OpenID(_Client(client, secret, [redirect]))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): text for name, text in self.headers.items()}
            status, body, more = provider.answer(self.command, self.path, headers, self.rfile.read(length).decode())
            self.send_response(status)
            for name, text in more.items():
                self.send_header(name, text)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST: Callable[..., None] = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
