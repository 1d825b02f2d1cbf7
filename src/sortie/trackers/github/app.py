"""Access as a GitHub App: a token for one repository, signed for with the App's key and renewed before it ends.

The key is read when a token is needed and kept nowhere; neither key nor token is in any error.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from ...errors import TrackerError
from ...protocol.foreign_text import parse_time
from ..rest_client import RestClient
from ..rest_reply import Reply
from .settings import AppSettings

# GitHub refuses a signature from the future, and one for more than ten minutes: clocks differ a little.
SIGNED_BEFORE = 60
SIGNED_FOR = 540
RENEWED_BEFORE = 300.0
LARGEST_KEY = 64 * 1024

# All that is asked for, whatever the App may do elsewhere: who gets hold of a token gets no further.
NEEDED = {"issues": "write", "metadata": "read"}

_FIX = "Check github.app_id and github.private_key_path."


class App:
    """`client` is the one that uses the tokens; it is told to keep them out of errors. `permissions` are those of
    the last token, such as `{"issues": "write"}`, None where GitHub named none."""

    def __init__(self, settings: AppSettings, repository: str, client: Callable[[], RestClient]) -> None:
        self._settings = settings
        self._repository = repository
        self._client = client
        self._renewing = anyio.Lock()
        self._installation = settings.installation_id
        self._token = ""
        self._ends_at = 0.0
        self.permissions: Mapping[str, object] | None = None

    async def authorization(self) -> Mapping[str, str]:
        async with self._renewing:
            if time.time() > self._ends_at - RENEWED_BEFORE:
                await self._renew()
            return _bearer(self._token)

    def forget(self, refused: Mapping[str, str]) -> None:
        """This authorization is not accepted any more: the next call gets another one. Whoever hears of it late,
        when there is another already, costs nobody that one."""
        if refused == _bearer(self._token):
            self._ends_at = 0.0

    async def _renew(self) -> None:
        signed = await json_web_token(self._settings)
        client = self._client()
        client.hide([signed, self._token])

        async def as_app() -> Mapping[str, str]:
            return _bearer(signed)

        async def call(method: str, path: str, json: object = None) -> Reply:
            return await client.call(method, path, json=json, repeatable=True, authorization=as_app)

        try:
            if not self._installation:
                found = (await call("GET", f"/repos/{self._repository}/installation")).read(dict[str, object])
                self._installation = str(found.get("id", ""))
            path = f"/app/installations/{self._installation}/access_tokens"
            ours = {"repositories": [self._repository.rpartition("/")[2]]}
            try:
                reply = await call("POST", path, {**ours, "permissions": NEEDED})
            except TrackerError as error:
                if error.status != 422:
                    raise
                # It lacks one of them, or is for other repositories. What it may do is in the answer to this.
                reply = await call("POST", path, ours)
            given = reply.read(dict[str, object])
        except TrackerError as error:
            raise self._refused(error) from error
        token, ends_at = given.get("token"), parse_time(str(given.get("expires_at")))
        if not isinstance(token, str) or not token or ends_at is None:
            raise TrackerError(TrackerError.API, "GitHub gave no token to the App.", fix="Check tracker.endpoint.")
        client.hide([signed, self._token, token])  # calls with the one of before are still under way
        self._token, self._ends_at = token, ends_at
        permissions = given.get("permissions")
        self.permissions = permissions if isinstance(permissions, dict) else None

    def _refused(self, error: TrackerError) -> TrackerError:
        """Not found is the installation, not the issue for whose sake the token was needed."""
        if error.kind == TrackerError.NOT_FOUND or error.status == 422:
            self._installation = self._settings.installation_id
            message = f"The GitHub App {self._settings.app_id} is not installed for {self._repository}."
            return TrackerError(TrackerError.AUTH, message, fix="Install it there, or check installation_id.")
        if error.kind == TrackerError.AUTH:
            message = f"GitHub does not accept the key of the App: {error.message}"
            return TrackerError(TrackerError.AUTH, message, fix=f"{_FIX} This machine's clock must be right too.")
        return error


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def json_web_token(settings: AppSettings) -> str:
    """By which GitHub knows the App for some minutes."""
    try:
        from cryptography.hazmat.primitives.asymmetric import padding, rsa
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        message = "A GitHub App needs the package cryptography, which is not installed."
        raise TrackerError(
            TrackerError.AUTH, message, fix="pip install 'sortie-orchestrator[github-app]'"
        ) from None
    raw = await _key(settings.key_path)
    try:
        key = load_pem_private_key(raw, password=None)
    except Exception:  # whatever it says may quote the key
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise _bad_key(settings.key_path, "is no RSA private key without a password")
    now = int(time.time())
    claims = {"iat": now - SIGNED_BEFORE, "exp": now + SIGNED_FOR, "iss": settings.app_id}
    signed = b".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    proof = key.sign(signed, padding.PKCS1v15(), SHA256())
    return b".".join((signed, _encoded(proof))).decode("ascii")


async def _key(path: Path) -> bytes:
    try:
        async with await anyio.open_file(path, "rb") as file:
            return await file.read(LARGEST_KEY)
    except OSError as error:
        raise _bad_key(path, f"cannot be read: {error.strerror}") from error


def _bad_key(path: Path, problem: str) -> TrackerError:
    return TrackerError(
        TrackerError.AUTH, f"The App's key {path} {problem}.", fix="Download one from the App's page."
    )


def _encoded(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
