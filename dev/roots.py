# SPDX-License-Identifier: Apache-2.0
"""What a person types into ``expected_root`` for the brokers that are started here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from obstore.store import LocalStore

from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.opening import location_of


def expected_root_of(remote_dir: Path, place: str = LocalTieredStorageLayout.prefix) -> str:
    """
    Say where a broker's remote storage lies, in the words of the connection's ``expected_root``: as ``rlmm check`` prints it.

    :param remote_dir: the broker's ``rsm.config.dir``.
    :param place: path of the folder in it that the layout's place is, ending in ``/``.
    """
    # A location names its folder by its file system and number: it has to be there.
    (remote_dir / place).mkdir(parents=True, exist_ok=True)
    return str(location_of(LocalStore(remote_dir), place))


def expected_root_in_s3(bucket: str, endpoint: str, places: Iterable[str]) -> str:
    """
    Say the same of a bucket that a server of ours serves.

    :param bucket: its name.
    :param endpoint: of the server.
    :param places: paths of the folders that the places are.
    """
    query = f"?endpoint={quote(endpoint, safe=':/')}"
    return " ".join(f"s3://{'/'.join(filter(None, (bucket, quote(path))))}{query}" for path in places)
