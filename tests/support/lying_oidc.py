"""An OpenID Connect provider that says of people whatever it is told, truths and lies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from .fake_server import Ask, Site, json_say

__all__ = ["CLIENT", "LyingProvider"]

CLIENT = "the-observatory"


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class LyingProvider(Site):
    """The provider.

    Attributes:
        lies: Claims in place of the true ones; None: left out.
        way: How the token is signed: `ES256`, `none`, `HS256` with the public key, or `other` for another's key.
        metadata: Fields of the discovery document in place of the true ones.
        nonce: The nonce of the last sign-in.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lies: dict[str, Any] = {}
        self.way = "ES256"
        self.metadata: dict[str, Any] = {}
        self.nonce = ""
        self.key = ECKey.generate_key("P-256", {"kid": "1"})
        self.on("GET", "/.well-known/openid-configuration", self._metadata)
        self.on("GET", "/keys", self._keys)
        self.on("POST", "/token", self._token)

    def turn_key(self) -> None:
        """Sign with another key from now on."""
        self.key = ECKey.generate_key("P-256", {"kid": "2"})

    def _keys(self, _: Ask) -> Any:
        return {"keys": [self.key.as_dict(private=False)]}

    def _metadata(self, _: Ask) -> dict[str, Any]:
        places = {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }
        return {"issuer": self.url, **places, **self.metadata}

    def _token(self, ask: Ask) -> Any:
        if b"code=used" in ask.body:
            return json_say({"error": "invalid_grant", "error_description": "The code was used."}, 400)
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": "1",
            "iat": now,
            "exp": now + 60,
            "nonce": self.nonce,
            "email": "ann@example.org",
            "email_verified": True,
            **self.lies,
        }
        told = {name: value for name, value in claims.items() if value is not None}
        return {"access_token": "a", "token_type": "Bearer", "id_token": self._signed(told)}

    def _signed(self, claims: dict[str, Any]) -> str:
        if self.way in ("ES256", "other"):
            key = self.key if self.way == "ES256" else ECKey.generate_key("P-256")
            return jwt.encode({"alg": "ES256", "kid": self.key.kid}, claims, key)
        text = ".".join(_part(json.dumps(one).encode()) for one in ({"alg": self.way, "kid": self.key.kid}, claims))
        public = self.key.as_pem(private=False)
        signature = hmac.digest(public, text.encode(), hashlib.sha256) if self.way == "HS256" else b""
        return f"{text}.{_part(signature)}"
