# SPDX-License-Identifier: Apache-2.0
"""What opens a store in another process, on this machine or on another one: options, and credentials as they are now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.object_stores import OpenedStore
from airflow_provider_rlmm.core.storage.credentials import StoreAccess, StoreCredentials
from airflow_provider_rlmm.core.storage.opening import open_store
from airflow_provider_rlmm.core.storage.secret_texts import one_line, secrets_in

_FIELDS: Final = ("options", "credentials")
_FORM: Final = '{"options": {"aws_region": "eu-central-1", …}}, each value a text, a number or a boolean'
_EXPIRY: Final = "expires_at"


@dataclass(frozen=True, slots=True)
class HandedStore:
    """
    Options and credentials of a store; it can be pickled, and shows neither when it is printed.

    Credentials that end are not renewed: who works longer is refused by the store.

    :param options: of obstore.
    :param credentials: what a credential provider of obstore has given, but for the time at which they end; empty where the
        options hold them or none are used.
    """

    options: Mapping[str, str] = field(repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, access: StoreAccess) -> HandedStore:
        """
        Take what a connection says of a store.

        :raises StorageAccessError: if it gives no credentials.
        """
        given: Mapping[str, Any] = {} if access.credentials is None else access.credentials()
        kept = {name: str(value) for name, value in given.items() if name != _EXPIRY and value is not None}
        return cls(dict(access.options), kept)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must appear nowhere."""
        return (*secrets_in(self.options), *self.credentials.values())

    def open(self, uri: str) -> OpenedStore:
        """
        Open a folder.

        :raises ConfigurationError: if the URI or an option is not usable.
        """
        credentials = StoreCredentials("what was handed over", self._given, self.secrets) if self.credentials else None
        return OpenedStore(open_store(uri, self.options, credentials), partial(one_line, self.secrets))

    def _given(self) -> Mapping[str, Any]:
        return {**self.credentials, _EXPIRY: None}

    def to_json(self) -> str:
        """Return a document that holds the secrets."""
        return json.dumps({"options": dict(self.options), "credentials": dict(self.credentials)})

    @classmethod
    def from_json(cls, text: str, what: str) -> HandedStore:
        """
        Read such a document, which a person may have written.

        :param text: the document.
        :param what: where it is from, for the message. No value is repeated there.
        :raises ConfigurationError: if it is no such document.
        """
        try:
            document = json.loads(text)
        except ValueError:
            raise ConfigurationError(f"{what} is no JSON; it must be {_FORM}") from None
        if not isinstance(document, dict) or not document.keys() <= set(_FIELDS):
            raise ConfigurationError(f"{what} must be {_FORM}")
        return cls(*(_texts(document.get(name, {}), what) for name in _FIELDS))


def _texts(given: object, what: str) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str | bool | int) for value in given.values()):
        raise ConfigurationError(f"{what} must be {_FORM}")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
