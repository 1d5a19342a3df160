# SPDX-License-Identifier: Apache-2.0
"""Opens cluster and storage as the command was told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.cli.configuration import CommandConfiguration
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.world.kill_switch import reason_of

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
    from airflow_provider_rlmm.core.storage.credentials import StoreAccess
    from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector

STOP_FILE: Final = "stop"
"""Name of the file in the work folder that stops runs, whatever is in it; its text is the reason."""

_MAX_STOP_BYTES = 4096


class CommandLineStorage(StorageAccess):
    """
    Opens the storage with obstore's own options, and what it finds in the environment.

    :param configuration: what the command was told.
    """

    def __init__(self, configuration: CommandConfiguration) -> None:
        self._configuration = configuration

    def get_connection_settings(self) -> RemoteLogSettings:
        """Return the settings."""
        return self._configuration.settings

    def open_store(self, uri: str) -> tuple[StoreAccess, BucketInspector | None]:
        """Return the options; nobody reads the settings of the bucket."""
        from airflow_provider_rlmm.core.storage.credentials import StoreAccess

        return StoreAccess(self._configuration.store_options), None


class CommandLineAccess(RemoteLogAccess):
    """
    Opens the cluster.

    :param read: reads what the command was told.
    """

    def __init__(self, read: Callable[[], CommandConfiguration]) -> None:
        self._read = read
        self._configuration = read()

    def get_connection_settings(self) -> RemoteLogSettings:
        """Return the settings, as they were when this was made."""
        return self._configuration.settings

    def read_connection_settings(self) -> RemoteLogSettings:
        """
        Read the settings anew: somebody may have added a hold to the configuration file.

        :raises ConfigurationError: if the file cannot be used any more.
        """
        return self._read().settings

    def read_client_config(self) -> KafkaClientConfig:
        """
        Return the properties of every client.

        :raises ConfigurationError: if they cannot be used, or name a file that is not there.
        """
        from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig, check_files

        config = KafkaClientConfig({"client.id": "rlmm", **self._configuration.client_properties})
        check_files(config.properties)
        return config

    @property
    def stop_switch(self) -> str:
        """The file whose presence stops runs."""
        return f"the file {self.work_uri}/{STOP_FILE}"

    def read_stop(self) -> str | None:
        """
        Look for that file.

        :raises OSError: if nobody can tell whether it is there, or it cannot be read.
        """
        from airflow_provider_rlmm.core.base.file_systems import read_file

        try:
            text = bytes(read_file(f"{self.work_uri}/{STOP_FILE}", _MAX_STOP_BYTES)).decode(errors="replace")
        except FileNotFoundError:
            return None
        return reason_of(self.stop_switch, text)

    @property
    def work_uri(self) -> str:
        """Folder of plans, reports and what runs remember."""
        return self._configuration.work_uri

    @property
    def login_owner(self) -> str:
        """The login of the command, for messages about missing rights."""
        return "the login of --command-config"

    def get_storage(self) -> CommandLineStorage:
        """Return what opens the storage."""
        return CommandLineStorage(self._configuration)
