# SPDX-License-Identifier: Apache-2.0
"""
How the object stores of plan, generations and documents are opened: on the driver, and by what travels with each task on the
executors.

All of them go through :mod:`~airflow_provider_rlmm.core.base.file_systems`; Hadoop's file systems are asked for none. Options
and credentials come to the driver as a file or a named pipe, never on a command line or as a property of Spark: its pages and
its event log show those. To the executors they go within the serialized task, as the settings of the Kafka client do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import local_path
from airflow_provider_rlmm.core.base.object_stores import OpenedStore, open_stores_by, require_client
from airflow_provider_rlmm.core.base.store_uris import read_store_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.storage.handed_store import HandedStore


@dataclass(frozen=True, slots=True)
class Stores:
    """
    What opens object stores; it can be pickled.

    :param handed: options and credentials, ``None`` where the environment or the role of each machine opens all.
    :param kind: of the stores that they open, as :func:`~airflow_provider_rlmm.core.base.store_uris.read_store_uri` names it.
    """

    handed: HandedStore | None = None
    kind: str = ""

    @classmethod
    def of(cls, handed: HandedStore | None, uris: Iterable[str]) -> Stores:
        """
        Say what options are for.

        :param handed: options and credentials, ``None`` for none.
        :param uris: of all that the job reads and writes; paths among them are passed over.
        :raises ConfigurationError: if there are options, and no store or stores of two kinds.
        """
        if handed is None:
            return cls()
        kinds = sorted({read_store_uri(uri).kind for uri in uris if local_path(uri) is None})
        if len(kinds) != 1:
            found = f"lies in stores of {' and '.join(kinds)}" if kinds else "lies in no object store"
            raise ConfigurationError(f"--store-options opens the stores of one kind, and what this job uses {found}")
        return cls(handed, kinds[0])

    def use(self, uri: str | None = None) -> None:
        """
        Open stores in this process like that from now on.

        :param uri: of a folder that will be written to, or ``None``.
        :raises ConfigurationError: if it is in an object store, and this Python lacks what opens those.
        """
        if uri is not None and local_path(uri) is None:
            require_client(uri)
        _in_use[:] = [self]
        open_stores_by(self._opened)

    def _opened(self, uri: str) -> OpenedStore | None:
        if self.handed is None or read_store_uri(uri).kind != self.kind:
            return None
        return self.handed.open(uri)


_in_use: Final[list[Stores]] = []


def stores_in_use() -> Stores:
    """Return how this process opens stores: a task that is made here takes it along."""
    return _in_use[0] if _in_use else Stores()
