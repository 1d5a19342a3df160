# SPDX-License-Identifier: Apache-2.0
"""Where the command gets its settings from: options before the environment before a file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings, read_fields

CONFIG_VARIABLE: Final = "RLMM_CONFIG"
_PREFIX: Final = "RLMM_"
_NOT_WRITTEN_DOWN: Final = frozenset({"allow_writes", "allow_copy"})
"""What is never switched on for good: ``--execute`` does, for one run."""

SETTINGS: Final = tuple(f.name for f in fields(RemoteLogSettings) if f.name not in _NOT_WRITTEN_DOWN)
OTHERS: Final = ("bootstrap_server", "command_config", "work_uri")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
STORE: Final = "store"
"""Table of a configuration file: options of the object store."""


@dataclass(frozen=True, slots=True)
class CommandConfiguration:
    """
    What the command was told.

    :param settings: cluster, storage and rules.
    :param client_properties: librdkafka's, of every client.
    :param store_options: obstore's.
    :param work_uri: folder of plans, reports and what runs remember.
    :param command_config: file of a Java client's properties, ``None`` where none is named.
    :param sources: where all that came from, in words.
    """

    settings: RemoteLogSettings
    client_properties: Mapping[str, str]
    store_options: Mapping[str, str]
    work_uri: str
    command_config: str | None = None
    sources: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # Properties and options hold secrets.
        return f"CommandConfiguration({self.settings!r})"

    @property
    def in_words(self) -> str:
        """Where it came from, and which cluster is asked; no secret."""
        brokers = self.client_properties.get("bootstrap.servers")
        expected = self.settings.expected_cluster_id
        named = f", cluster id {expected} expected" if expected else ""
        cluster = f"cluster at {brokers}{named}" if brokers else "no cluster is asked"
        return f"{cluster}; configuration from {', '.join(self.sources) or 'nowhere'}"


def read_configuration(
    options: Mapping[str, str | bool | None],
    store_options: Mapping[str, str],
    *,
    environment: Mapping[str, str] = os.environ,
    allow_writes: bool = False,
    allow_copy: bool = False,
    has_cluster: bool = True,
) -> CommandConfiguration:
    """
    Put together what options, environment and configuration file say.

    :param options: name out of :data:`SETTINGS` and :data:`OTHERS`, or ``config`` → value, ``None`` where it is not given.
    :param store_options: options of the object store.
    :param environment: ``RLMM_`` and a name in upper case → value.
    :param allow_writes: whether the command may write and delete.
    :param allow_copy: whether it may copy segments of living topics.
    :param has_cluster: whether there is a cluster to be asked; without one no broker need be named, and none is.
    :raises ConfigurationError: naming the file and the field, or where a real run would take a file that was not named.
    """
    named = options.get("config") or environment.get(CONFIG_VARIABLE) or None
    if named is None and (allow_writes or allow_copy) and default_file(environment).is_file():
        raise ConfigurationError(
            f"a real run takes only a configuration that is named: say --config {default_file(environment)}, or another"
        )
    written = _read_file(str(named) if named else None, environment)
    sources = tuple(_sources(written, named, options, store_options, environment))
    stored = written.pop(STORE, {})
    found = {**written, **dict(_in_environment(environment)), **{n: v for n, v in options.items() if v is not None}}
    found.pop("config", None)
    others = {name: found.pop(name, None) for name in OTHERS}
    settings = RemoteLogSettings(
        **read_fields(RemoteLogSettings, found, without=_NOT_WRITTEN_DOWN),
        allow_writes=allow_writes,
        allow_copy=allow_copy,
    )
    settings.check()
    return CommandConfiguration(
        settings,
        _client_properties(others["bootstrap_server"], others["command_config"]) if has_cluster else {},
        _plain_if_named(settings.storage_uri, {**_store_table(stored), **store_options}, environment),
        str(others["work_uri"] or _default_work_folder(environment)).rstrip("/"),
        str(others["command_config"]) if others["command_config"] else None,
        sources,
    )


def read_prices(config: str | None = None, *, environment: Mapping[str, str] = os.environ) -> RemoteLogSettings:
    """
    Return what environment and configuration file say of prices, and nothing else: no cluster need be named.

    :param config: the file, ``None`` for the one that the environment names, or the usual one.
    :param environment: ``RLMM_`` and a name in upper case → value.
    :raises ConfigurationError: naming the file and the field.
    """
    named = config or environment.get(CONFIG_VARIABLE) or None
    found = {**_read_file(named, environment), **dict(_in_environment(environment))}
    given = {name: value for name, value in found.items() if name in ("storage_class", "prices")}
    settings = RemoteLogSettings(**read_fields(RemoteLogSettings, given, without=_NOT_WRITTEN_DOWN))
    settings.check()
    return settings


def _sources(
    written: Mapping[str, Any],
    named: object,
    options: Mapping[str, str | bool | None],
    store_options: Mapping[str, str],
    environment: Mapping[str, str],
) -> Iterator[str]:
    """Yield where settings come from, what counts least first."""
    if written or named:
        yield str(named or default_file(environment))
    if variables := [f"{_PREFIX}{name.upper()}" for name, _ in _in_environment(environment)]:
        more = f" and {len(variables) - 1} more RLMM_ variables" if len(variables) > 2 else ""
        yield f"{variables[0]}{more}" if more else " and ".join(variables)
    if store_options or any(value is not None for name, value in options.items() if name != "config"):
        yield "options"


def _in_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in (*SETTINGS, *OTHERS):
        if (value := environment.get(f"{_PREFIX}{name.upper()}", "")).strip():
            yield name, value


def _read_file(named: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """Read the file that is named, or the usual one if it is there."""
    path = Path(named).expanduser() if named else default_file(environment)
    if named is None and not path.is_file():
        return {}
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as e:
        raise ConfigurationError(
            f"the configuration file {in_quotes(str(path))} cannot be read: {e.strerror}"
        ) from None
    except ValueError:
        # The text of the error may repeat a secret.
        raise ConfigurationError(f"the configuration file {in_quotes(str(path))} is no TOML in UTF-8") from None
    known = (*SETTINGS, *OTHERS, STORE)
    if unknown := sorted(found.keys() - set(known)):
        advice = "; writing is allowed by --execute, for one run" if _NOT_WRITTEN_DOWN & set(unknown) else ""
        raise ConfigurationError(
            f"the configuration file {in_quotes(str(path))} has unknown fields {unknown}; known are {list(known)}{advice}"
        )
    return found


def _store_table(stored: object) -> dict[str, str]:
    if not isinstance(stored, dict) or not all(isinstance(v, str | bool | int) for v in stored.values()):
        raise ConfigurationError(f"[{STORE}] of the configuration file must hold texts, numbers and booleans only")
    return {name: str(v).lower() if isinstance(v, bool) else str(v) for name, v in stored.items()}


def _plain_if_named(storage_uri: str | None, options: dict[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Allow a store without TLS to a user who has named one by ``http://``; obstore wants it said once more."""
    if storage_uri is not None and storage_uri.startswith("file:"):
        # The environment speaks of another storage than this folder, which takes no options.
        return options
    named = [options.get("endpoint"), options.get("aws_endpoint"), *map(environment.get, _ENDPOINTS)]
    plain = any(address and address.lower().startswith("http://") for address in named)
    return {"allow_http": "true", **options} if plain else options


def _client_properties(bootstrap: object, command_config: object) -> dict[str, str]:
    from airflow_provider_rlmm.core.log.kafka.java_properties import read_java_properties

    properties = read_java_properties(str(command_config)) if command_config else {}
    if bootstrap:
        properties["bootstrap.servers"] = str(bootstrap)
    if "bootstrap.servers" not in properties:
        raise ConfigurationError(
            "no broker is named: give --bootstrap-server host:port, set RLMM_BOOTSTRAP_SERVER, or write bootstrap_server "
            "into the configuration file"
        )
    return properties


def given_in(options: Mapping[str, str | bool | None], environment: Mapping[str, str]) -> dict[str, str | bool]:
    """
    Return what options and environment say, in the order of a configuration file.

    :param options: as :func:`read_configuration` takes them.
    :param environment: likewise.
    """
    found = {
        **dict(_in_environment(environment)),
        **{name: value for name, value in options.items() if value is not None},
    }
    return {name: found[name] for name in (*OTHERS, *SETTINGS) if name in found}


def default_file(environment: Mapping[str, str]) -> Path:
    """
    Return the configuration file that is read where none is named.

    :param environment: of the process.
    """
    home = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(f"{home}/rlmm/config.toml").expanduser()


def _default_work_folder(environment: Mapping[str, str]) -> str:
    return str(Path(environment.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "rlmm")
