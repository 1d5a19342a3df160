# SPDX-License-Identifier: Apache-2.0
"""Opens cluster and storage as the command was told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.cli.configuration import CommandConfiguration
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess, RemoteLogSource
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess, StorageSource
from airflow_provider_rlmm.core.world.kill_switch import reason_of

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
    from airflow_provider_rlmm.core.storage.credentials import StoreAccess
    from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector

STOP_FILE: Final = "stop"
"""Name of the file in the work folder that stops runs, even an empty one; its text is the reason."""

MAX_STOP_BYTES: Final = 4096
"""The longest text that it may hold."""


def access_of_command(read: Callable[[], CommandConfiguration]) -> RemoteLogAccess:
    """
    Return what opens the cluster, with the settings as they are now; only the hold is read anew.

    :param read: reads what the command was told.
    :raises ConfigurationError: naming the field.
    """
    configuration = read()
    stop_file = f"{configuration.work_uri}/{STOP_FILE}"
    return RemoteLogAccess(
        RemoteLogSource(
            settings=lambda: configuration.settings,
            read_settings=lambda: read().settings,
            read_client_config=partial(_client_config, configuration),
            login_owner=lambda: "the login of --command-config",
            stop_switch=_switch(stop_file),
            read_stop=partial(read_stop, stop_file),
            storage=partial(storage_of_command, configuration),
            watched=True,
        )
    )


def storage_of_command(configuration: CommandConfiguration) -> StorageAccess:
    """
    Return what opens the storage, with obstore's own options and the login of this machine.

    :param configuration: what the command was told.
    """
    return StorageAccess(
        StorageSource(settings=lambda: configuration.settings, open_store=partial(_store_access, configuration))
    )


def _store_access(configuration: CommandConfiguration, uri: str) -> tuple[StoreAccess, BucketInspector | None]:
    """Return the options with the login, and what reads the settings of the bucket by the same login."""
    from airflow_provider_rlmm.core.storage.logins.inspecting import inspector_of_login
    from airflow_provider_rlmm.core.storage.logins.login import with_login

    options = configuration.store_options
    access = with_login(uri, options)
    return access, inspector_of_login(uri, options, access)


def _client_config(configuration: CommandConfiguration) -> KafkaClientConfig:
    from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig, check_files

    config = KafkaClientConfig({"client.id": "rlmm", **configuration.client_properties})
    check_files(config.properties)
    return config


def read_stop(stop_file: str) -> str | None:
    """
    Look for the file whose presence stops runs; return why it does, ``None`` where it is not there.

    :param stop_file: URI of the file.
    :raises OSError: if it cannot be told whether it is there, or it cannot be read.
    """
    from airflow_provider_rlmm.core.base.file_systems import read_file

    try:
        text = bytes(read_file(stop_file, MAX_STOP_BYTES)).decode(errors="replace")
    except FileNotFoundError:
        return None
    return reason_of(_switch(stop_file), text)


def _switch(stop_file: str) -> str:
    return f"the file {stop_file}"
