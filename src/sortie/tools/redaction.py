"""No secret leaves this process: not in an answer, not in an error, not in a log line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.redact import Redactor

_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """The values of all `SORTIE_*` variables that are named like a secret."""
    return [
        value
        for name, value in environ.items()
        if name.startswith("SORTIE_") and any(word in name for word in _SECRET_WORDS)
    ]


class Veil:
    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(secret for secret in secrets if secret)
        self._redactor: Redactor | None = None

    def text(self, text: str) -> str:
        if not self._secrets:
            return text
        if self._redactor is None:
            from ..core.redact import Redactor

            self._redactor = Redactor(self._secrets)
        return self._redactor.text(text)

    def value(self, value: Any) -> Any:
        """The same JSON with every text in it veiled; the names of fields stay as they are."""
        if not self._secrets:
            return value
        match value:
            case str():
                return self.text(value)
            case dict():
                return {name: self.value(inner) for name, inner in value.items()}
            case list() | tuple():
                return [self.value(inner) for inner in value]
            case _:
                return value
