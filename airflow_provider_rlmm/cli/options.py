# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and what they make of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import Any, TypeVar
from uuid import UUID

import click

from airflow_provider_rlmm.cli.access import access_of_command, storage_of_command
from airflow_provider_rlmm.cli.configuration import OTHERS, SETTINGS, CommandConfiguration, given_in, read_configuration
from airflow_provider_rlmm.cli.output import Output
from airflow_provider_rlmm.cli.tables import MAX_CELL
from airflow_provider_rlmm.core.base.declarations import (
    Declared,
    Duration,
    Flag,
    Names,
    Share,
    Text,
    Texts,
    Whole,
    Written,
)
from airflow_provider_rlmm.core.base.quoting import human_bytes, printable
from airflow_provider_rlmm.core.base.values import MAX_INTEGER, duration_text
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.core.runs import connection_fields as connection
from airflow_provider_rlmm.core.runs import run_parameters
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.storage.logins.login import INSTANCE_METADATA

Command = Callable[..., Any]
Made = TypeVar("Made", CleanerLimits, BlastRadius)


def option_of(
    declared: Declared[Any],
    sentence: str | None = None,
    *,
    option: str = "",
    in_bounds: bool = False,
    has_default: bool = False,
    **named: Any,
) -> Callable[[Command], Command]:
    """
    Return the option of a declared value. Where it is not given it is ``None``, and the default is that of its reader.

    :param declared: the value.
    :param sentence: what it means to the command, without a full stop; ``None``: what it means everywhere.
    :param option: how it is spelled, if not as the value is named.
    :param in_bounds: whether the option itself refuses a number out of bounds, and shows them.
    :param has_default: whether the option itself has the default, where no other code reads it.
    :param named: what click is told in place of what is declared.
    """
    told, default = _told(declared)
    if in_bounds:
        told["type"] = _range_of(declared)
    if has_default:
        told |= {"default": declared.default, "show_default": True}
    shown = f"  [default: {default}]" if default and not has_default else ""
    said = f"{declared.sentence if sentence is None else sentence}{_unit(declared)}.{shown}"
    spelled = option or f"--{declared.name.replace('_', '-')}"
    return click.option(spelled, declared.name, **{"help": said, **told, **named})


def _told(declared: Declared[Any]) -> tuple[dict[str, Any], str]:
    """Return what click is told of the kind of a value, and its default as people read it."""
    default = declared.default
    match declared.kind:
        case Whole(unit=unit):
            size = human_bytes(default).replace(".0 ", " ") if unit == "bytes" else str(default)
            return {"type": int}, "" if default is None else size
        case Duration():
            return {"type": int}, duration_text(default)
        case Share():
            return {"type": float}, str(default)
        case Flag():
            return {"is_flag": True, "default": None}, ""
        case Text():
            return {}, default or ""
        case Names(known):
            return {"type": click.Choice(sorted(known)), "multiple": True}, ""
        case Texts():
            return {"multiple": True}, ""
        case Written():
            return {}, ""


def _range_of(declared: Declared[Any]) -> click.IntRange:
    match declared.kind:
        case Whole(minimum, maximum) | Duration(minimum, maximum):
            return click.IntRange(minimum, None if maximum == MAX_INTEGER else maximum)
    raise TypeError(f"{declared.name} is no number with bounds")


def _unit(declared: Declared[Any]) -> str:
    return ", ms" if isinstance(declared.kind, Duration) or declared.kind == Whole(unit="ms") else ""


_CONFIG = click.option(
    "--config", metavar="FILE", help="Configuration file in TOML.  [default: ~/.config/rlmm/config.toml]"
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
_WORK = click.option(
    "--work-dir",
    "work_uri",
    metavar="FOLDER",
    help="Where plans and reports go, and what runs remember: a folder or its URI.  [default: ~/.local/state/rlmm]",
)
_CLUSTER = (
    click.option("--bootstrap-server", metavar="HOST:PORT,…", help="Brokers to ask first."),
    click.option(
        "--command-config",
        metavar="FILE",
        help="Properties of a Java client, as Kafka's own tools take them: security protocol, login, certificates in PEM.",
    ),
    _CONFIG,
    option_of(connection.METADATA_TOPIC, "Name of the metadata topic", metavar="NAME"),
    option_of(
        connection.EXPECTED_CLUSTER_ID, "Refuse any other cluster than this one", option="--cluster-id", metavar="ID"
    ),
    _WORK,
    _JSON,
)
_STORE = (
    option_of(
        connection.STORAGE_URI,
        option="--storage",
        metavar="URI",
        help="Root of the remote storage: s3://…, gs://…, abfss://…, file:///…",
    ),
    option_of(
        connection.LAYOUT,
        metavar="NAME",
        help="How the storage plugin lays out its objects: aiven, template or local-tiered-storage, the default.",
    ),
    option_of(connection.KEY_PREFIX, "What all keys begin with, as the storage plugin is configured", metavar="TEXT"),
    option_of(connection.FORMER_KEY_PREFIXES, 'Prefixes of older copies, by commas; "" is none', metavar="LIST"),
    option_of(connection.KEY_PATTERN, "Of the layout template: the keys of a segment", metavar="PATTERN"),
    option_of(connection.KEY_SUFFIXES, "Of the layout template: by commas; those with ? are optional", metavar="LIST"),
    option_of(
        connection.PLUGIN_SETTINGS,
        "Of the layout aiven: how it is set, where no copy of a broker shows it",
        metavar="TEXT",
    ),
    click.option(
        "--store-option",
        "store_options",
        metavar="NAME=VALUE",
        multiple=True,
        help="Option of the object store, such as endpoint=https://…; secrets belong into the environment, such as "
        "AWS_SECRET_ACCESS_KEY, or into the configuration file.",
    ),
    click.option(
        "--instance-metadata",
        is_flag=True,
        help="Allow to ask 169.254.169.254 for the role of this machine, where nothing else logs in to the object store.",
    ),
)
_STORAGE = (
    *_STORE,
    option_of(connection.EXPECTED_ROOT, metavar="LIST"),
    option_of(connection.CLOCK_TOPIC, "Topic with LogAppendTime, to read a broker's clock by a record", metavar="NAME"),
    option_of(connection.HOLD, "Topics that are never touched: names, patterns, ids, by commas", metavar="LIST"),
)
override_option = option_of(
    limits.NAMED_OVERRIDES, "Named override, see docs/safety.md; needs --cluster-id", option="--override"
)
_LIMITS = (
    option_of(limits.MIN_ABSENCE, "How long a topic must have been gone"),
    option_of(limits.BATCH_SEGMENTS),
    option_of(limits.MAX_MISSING_SEGMENTS),
    option_of(limits.ALLOWED_QUARANTINE, "Kind of unusable records that stops nothing", option="--allow-quarantine"),
    override_option,
    option_of(limits.OBJECTS_PER_SECOND, "The most that is deleted in a second"),
    option_of(limits.DELETION_WINDOW, "Time of day for deletion: '22:00-06:00 Europe/Berlin'", metavar="TIMES"),
)
max_minutes_option = option_of(
    limits.MAX_MINUTES, "Minutes after which no further batch is begun; the next run goes on", metavar="N"
)
only_option = option_of(
    run_parameters.ONLY,
    "Only this topic: a name, a pattern with * and ?, or an id; may be given several times. A hold counts all the same",
    metavar="TOPIC",
    has_default=True,
    show_default=False,
)
max_copy_option = option_of(limits.MAX_COPY, in_bounds=True, has_default=True)
_CONFIRM = (
    option_of(
        run_parameters.CONFIRM_LOST_RECORDS,
        "Go on though a metadata partition has lost what an earlier run had read of it; named as the refusal names it",
        metavar="PARTITION@OFFSET",
    ),
    option_of(
        run_parameters.CONFIRM_METADATA_TOPIC_ID,
        "Go on though the metadata topic was deleted and made anew; its new id, as the refusal names it",
        metavar="ID",
    ),
)
archive_option = click.option(
    "--archive",
    "archive_uri",
    metavar="URI",
    help="Folder of archives, outside of the storage root: a folder or the URI of one in an object store.",
)
_RADIUS = (
    option_of(limits.MAX_SEGMENTS),
    option_of(limits.MAX_BYTES),
    option_of(limits.MAX_SHARE),
    option_of(limits.MAX_SEGMENTS_THIS_RUN, in_bounds=True),
)


@dataclass(frozen=True, slots=True)
class Invocation:
    """
    What the shared options say.

    :param options: name → value of those about cluster and storage.
    :param store_options: of the object store.
    :param output: what prints.
    :param announce: is told each configuration that the command goes by.
    """

    options: Mapping[str, str | bool | None]
    store_options: Mapping[str, str]
    output: Output
    announce: Callable[[CommandConfiguration], None] = lambda _: None

    def configuration(self, *, allow_writes: bool = False, allow_copy: bool = False) -> CommandConfiguration:
        """
        Put together what options, environment and configuration file say.

        :param allow_writes: whether the command may write and delete.
        :param allow_copy: whether it may copy segments of living topics.
        :raises ConfigurationError: naming the field.
        """
        return self._announced(
            read_configuration(self.options, self.store_options, allow_writes=allow_writes, allow_copy=allow_copy)
        )

    def _announced(self, configuration: CommandConfiguration) -> CommandConfiguration:
        self.announce(configuration)
        return configuration

    def given(self) -> dict[str, str | bool]:
        """Return what options and environment say, in the order of a configuration file; not what stands in one."""
        return given_in(self.options, os.environ)

    @property
    def work_uri(self) -> str:
        """
        Folder of plans, reports and what runs remember.

        :raises ConfigurationError: naming the field.
        """
        return read_configuration(self.options, self.store_options, has_cluster=False).work_uri

    def storage_configuration(self) -> CommandConfiguration:
        """
        Put together what options, environment and configuration file say, where there is no cluster.

        :raises ConfigurationError: naming the field.
        """
        return self._announced(read_configuration(self.options, self.store_options, has_cluster=False))

    def storage_access(self) -> StorageAccess:
        """
        Return what opens the storage, where there is no cluster.

        :raises ConfigurationError: naming the field.
        """
        return storage_of_command(self.storage_configuration())

    def access(self, *, allow_writes: bool = False, allow_copy: bool = False) -> RemoteLogAccess:
        """
        Return what opens cluster and storage.

        :param allow_writes: whether the command may write and delete.
        :param allow_copy: whether it may copy segments of living topics.
        :raises ConfigurationError: naming the field.
        """
        return access_of_command(partial(self.configuration, allow_writes=allow_writes, allow_copy=allow_copy))


def with_cluster(command: Command) -> Command:
    """Give a command the options of a cluster; it gets an :class:`Invocation`."""
    return _taking(_CLUSTER)(_invoked(command))


def with_storage(command: Command) -> Command:
    """Give a command the options of a cluster and its storage; it gets an :class:`Invocation`."""
    return _taking((*_CLUSTER, *_STORAGE))(_invoked(command))


def with_storage_only(command: Command) -> Command:
    """Give a command the options of a storage whose cluster is not asked; it gets an :class:`Invocation`."""
    return _taking((*_STORE, _WORK, _CONFIG, _JSON))(_invoked(command))


def with_work_folder(command: Command) -> Command:
    """Give a command that asks neither cluster nor storage its work folder; it gets an :class:`Invocation`."""
    return _taking((_WORK, _CONFIG, _JSON))(_invoked(command))


def with_limits(command: Command) -> Command:
    """Give a command the limits of destructive work, as ``limits``."""

    @wraps(command)
    def limited(*args: Any, **given: Any) -> Any:
        for name in ("allowed_quarantine", "overrides"):
            given[name] = frozenset(given[name])
        # Of those that only look, none has it.
        given.setdefault(limits.MAX_MINUTES.name, None)
        return command(*args, limits=_made(CleanerLimits, given), **given)

    return _taking(_LIMITS)(limited)


def with_blast_radius(command: Command) -> Command:
    """Give a command the most that it may delete, as ``blast_radius``, and ``max_segments_this_run``."""

    @wraps(command)
    def limited(*args: Any, **given: Any) -> Any:
        return command(*args, blast_radius=_made(BlastRadius, given), **given)

    return _taking(_RADIUS)(limited)


def with_confirmation(command: Command) -> Command:
    """Give a command what a person confirms about the metadata topic, as ``confirm``."""

    @wraps(command)
    def confirming(
        *args: Any, confirm_lost_records: tuple[str, ...], confirm_metadata_topic_id: str | None, **given: Any
    ) -> Any:
        from airflow_provider_rlmm.core.log.floored_log import Confirmation

        topic_id = None if confirm_metadata_topic_id is None else _topic_id(confirm_metadata_topic_id)
        confirm = Confirmation(confirm_lost_records, metadata_topic_id=topic_id)
        return command(*args, confirm=confirm, **given)

    return _taking(_CONFIRM)(confirming)


def _topic_id(text: str) -> UUID:
    try:
        return parse_kafka_uuid(text)
    except ValueError:
        raise click.BadParameter(
            "it must be a topic id in Kafka's form, such as g9LiIua4STiXAgIF9bPVMg",
            param_hint="--confirm-metadata-topic-id",
        ) from None


def _made(kind: type[Made], given: dict[str, Any]) -> Made:
    """Take the fields of a value object out of what is given; what is ``None`` takes its default."""
    found = {field.name: given.pop(field.name) for field in fields(kind)}
    return kind(**{name: value for name, value in found.items() if value is not None})


def _taking(options: tuple[Callable[[Command], Command], ...]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _invoked(command: Command) -> Command:
    @wraps(command)
    def invoked(*args: Any, as_json: bool, store_options: tuple[str, ...] = (), **given: Any) -> Any:
        shared = {name: given.pop(name) for name in (*SETTINGS, *OTHERS, "config") if name in given}
        allowed = {INSTANCE_METADATA: "true"} if given.pop(INSTANCE_METADATA, False) else {}
        invocation = Invocation(shared, _pairs(store_options) | allowed, Output(as_json=as_json), Announcer())
        return command(invocation, *args, **given)

    return invoked


def _on_standard_error(line: str) -> None:
    click.echo(line, err=True)


class Announcer:
    """
    Says once, before anything is read, where the command has its settings from and which cluster it asks.

    :param say: prints the line, where it does not get into what the command answers.
    """

    def __init__(self, say: Callable[[str], None] = _on_standard_error) -> None:
        self._say = say
        self._has_said = False

    def __call__(self, configuration: CommandConfiguration) -> None:
        """Say it, if it has not been said."""
        if not self._has_said:
            self._has_said = True
            self._say(f"rlmm: {printable(configuration.in_words, MAX_CELL)}")


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for option in given:
        name, equals, value = option.partition("=")
        if not (name and equals):
            raise click.BadParameter("it must be NAME=VALUE", param_hint="--store-option")
        pairs[name] = value
    return pairs
