# SPDX-License-Identifier: Apache-2.0
"""What opens a store beside its URI: options, and credentials that are asked for again when they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_rlmm.core.base.errors import StorageAccessError
from airflow_provider_rlmm.core.storage.secret_texts import safe_text

_SHORTEST_SECRET: Final = 6
"""Characters: what is shorter would garble every text."""


class StoreCredentials:
    """
    A credential provider of obstore. It keeps in mind what it has given, so that no text repeats it.

    obstore asks it in a thread of its own, when a request needs credentials and the earlier ones end soon.

    :param owner: completes "… gives no credentials": the connection.
    :param ask: returns what obstore's store takes, such as ``access_key_id``, ``secret_access_key``, ``token``,
        ``expires_at``; called by one thread at a time or by several.
    :param secrets: texts that must appear nowhere.
    :param remedy: what a person can do where none are given, in words; empty where that is not known.
    """

    def __init__(
        self, owner: str, ask: Callable[[], Mapping[str, Any]], secrets: Iterable[str] = (), remedy: str = ""
    ) -> None:
        self.secrets = set(secrets)
        self._remedy = f"; {remedy}" if remedy else ""
        self._owner = owner
        self._ask = ask

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._owner!r})"

    def __call__(self) -> Any:
        """
        Return credentials.

        :raises StorageAccessError: if there are none; obstore makes an error of its own from its text.
        """
        try:
            given = self._ask()
        except Exception as e:
            why = f"{type(e).__name__}: {safe_text(e, self.secrets)}"
        else:
            self.secrets.update(v for v in given.values() if isinstance(v, str) and len(v) >= _SHORTEST_SECRET)
            return given
        # Outside of the handler: the cause may hold what the text does not.
        raise StorageAccessError(f"{self._owner} gives no credentials: {why}{self._remedy}")


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """
    What a connection says of a store.

    :param options: obstore's options; those of an official connection hold no secret.
    :param credentials: of an official connection, ``None`` where the options hold them or none are used.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: StoreCredentials | None = None
