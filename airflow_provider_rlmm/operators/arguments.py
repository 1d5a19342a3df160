# SPDX-License-Identifier: Apache-2.0
"""
Operator arguments, which reach us as templates, turned into values of exactly one kind with errors that say what is allowed.

A template renders numbers and booleans as text, or as themselves where the DAG asks for native objects: both are taken, and
nothing that only resembles them: no ``1.5`` or ``1e3`` for a count, no ``yes`` for a flag, no ``True`` for a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from dataclasses import fields as fields_of
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from airflow.sdk import Context

from airflow_provider_rlmm.core.base import strict_json, values
from airflow_provider_rlmm.core.base.clock import system_clock
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
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import list_in_quotes
from airflow_provider_rlmm.core.base.values import refused
from airflow_provider_rlmm.core.plans import limits, prices
from airflow_provider_rlmm.core.plans.approval import ApprovalLimits
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits, ScrubLimits
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.run_parameters import read_topic_id
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from airflow_provider_rlmm.features.archiving.restore_rules import RESTORE_OVERRIDES, Undecided
from airflow_provider_rlmm.features.cleanup.steps import MAX_EXPIRES_IN_MS
from airflow_provider_rlmm.features.copying.rules import COPY, CopyLimits
from airflow_provider_rlmm.run_groups import run_group_of
from airflow_provider_rlmm.settings import artifact_name_of, check_location, plan_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.write_guard import WritableEvent

MAX_TEXT = 4_096
MAX_EVENTS = 10_000
MAX_PARTITION = 2**31 - 1

_OF_THE_SPARK_CONNECTION: Final = frozenset({"spark.master", "spark.submit.deployMode"})

Reader = Callable[[str, object], Any]
"""
Takes the name of an argument, for the error, and what was given; returns the value that it means.

Raises :class:`~airflow_provider_rlmm.core.base.errors.ConfigurationError` for anything else than the reader's kind.
"""

Value = TypeVar("Value")

_READER: Final = "reader"
_DECLARED: Final = "declared"
_TEMPLATED: Final = "templated"
_REQUIRED: Final = object()


def read_by(reader: Callable[[str, object], Value], default: object = _REQUIRED, *, templated: bool = True) -> Value:
    """
    Return the field of an argument, in the data class of what an operator's arguments mean.

    To the type checker it is a value of the reader's kind, so a field whose type is another one is an error.

    :param reader: what reads the argument: a :data:`Reader`.
    :param default: what the argument means where the operator is given none; without it the operator must be given one.
    :param templated: whether Airflow fills in templates: whether ``template_fields`` of the operator names it.
    """
    return cast("Value", _field({_READER: reader, _TEMPLATED: templated}, default))


def _field(metadata: Mapping[str, Any], default: object) -> Any:
    # An empty mapping is none that a data class takes as it is.
    return (
        field(metadata=metadata) if default is _REQUIRED else field(metadata=metadata, default_factory=lambda: default)
    )


def readers_of(arguments: type) -> Mapping[str, Reader]:
    """
    Return argument → what reads it.

    :param arguments: a data class whose fields :func:`read_by` has made.
    """
    return {found.name: found.metadata[_READER] for found in fields_of(arguments)}


def templated_of(arguments: type) -> frozenset[str]:
    """
    Return the arguments in which Airflow fills in templates.

    :param arguments: a data class whose fields :func:`read_by` and :func:`declared_as` have made.
    """
    return frozenset(found.name for found in fields_of(arguments) if found.metadata[_TEMPLATED])


def declarations_of(arguments: type) -> Mapping[str, Declared[Any]]:
    """
    Return argument → its declaration, of those that have one.

    :param arguments: a data class whose fields :func:`read_by` and :func:`declared_as` have made.
    """
    return {f.name: f.metadata[_DECLARED] for f in fields_of(arguments) if _DECLARED in f.metadata}


_NUMBER = re.compile(r"[0-9]{0,19}\.?[0-9]{1,19}(e-?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)

integer = values.spelled_integer
"""Returns an integer within bounds, or the one that a text spells: a :data:`Reader`."""


duration_ms = values.duration_ms
"""Returns a duration, ms, that may be written in words: a :data:`Reader`."""


def share(name: str, value: object) -> float:
    """Return a share: a number from 0 to 1, or the text of one; see :data:`Reader`."""
    spelled = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    return values.share(name, float(spelled[0]) if spelled else value)


flag = values.spelled_flag
"""Returns a boolean, or what the text of one spells: a :data:`Reader`."""


def flag_or_unsaid(name: str, value: object) -> bool | None:
    """Return a boolean as :data:`flag` does, ``None`` where nothing is said; see :data:`Reader`."""
    return None if value is None else flag(name, value)


def text(name: str, value: object) -> str:
    """Return a text that is not empty, such as the name of a connection or a URI; see :data:`Reader`."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or not value.isprintable():
        raise refused(name, value, f"a text of 1 to {MAX_TEXT} characters without line breaks or control characters")
    return value


def text_or_none(name: str, value: object) -> str | None:
    """Return a text argument, ``None`` where it is ``None`` or empty; see :data:`Reader`."""
    return None if value is None or value == "" else text(name, value)


def spark_properties(name: str, value: object) -> dict[str, str]:
    """
    Return properties of Spark: a mapping, or its JSON text, which a template can render; ``None`` and an empty text are none;
    see :data:`Reader`.

    Master and deploy mode are not among them: the Spark connection has these, and decides by them what is done.
    """
    allowed = (
        "a mapping, or one as JSON, from names that begin with spark., but spark.master and spark.submit.deployMode, which "
        "the Spark connection has, to texts, numbers, true or false"
    )
    if value is None or value == "":
        return {}
    try:
        given = strict_json.parse_object(value) if isinstance(value, str) else value
    except ValueError:
        raise refused(name, value, allowed) from None
    if not isinstance(given, Mapping):
        raise refused(name, value, allowed)
    for key, said in given.items():
        if not isinstance(key, str) or not key.startswith("spark.") or key in _OF_THE_SPARK_CONNECTION:
            raise refused(name, key, allowed)
        if not isinstance(said, str | int | float):
            raise refused(f"{name}[{key!r}]", said, "a text, a number, true or false")
    return {
        key: text(f"{name}[{key!r}]", str(said).lower() if isinstance(said, bool) else str(said))
        for key, said in given.items()
    }


def folder(name: str, value: object) -> str:
    """Return the path or the URI of a folder that files are written to; see :data:`Reader`."""
    uri = text(name, value)
    check_location(name, uri)
    return uri


def several_texts(name: str, value: object) -> tuple[str, ...]:
    """Return texts, none of them empty; nothing stands for none; see :data:`Reader`."""
    if value is None or value in ("", "None", [], ()):
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise refused(name, value, "a list of texts, or nothing for none")
    return tuple(text(f"{name}[{i}]", one) for i, one in enumerate(value))


def folders(name: str, value: object) -> tuple[str, ...]:
    """Return paths or URIs of files and folders, each as :func:`folder` does; see :data:`Reader`."""
    return tuple(folder(f"{name}[{i}]", one) for i, one in enumerate(several_texts(name, value)))


def plan_folder(source_plan: str | None) -> str | None:
    """
    Return the folder of a plan, ``None`` where none is given. The task's own settings say where plans may lie.

    :param source_plan: its name or its URI.
    :raises ConfigurationError: if it does not lie where plans may lie.
    """
    return None if source_plan is None else plan_uri(source_plan)


def metadata_partition(name: str, value: object) -> int:
    """Return the number of a metadata partition, an integer or the text of one; see :data:`Reader`."""
    return integer(name, value, 0, MAX_PARTITION)


def _offsets(what: str, name: str, value: object) -> dict[int, int]:
    given = {} if value is None else value
    if not isinstance(given, Mapping):
        raise refused(name, value, f"a mapping of {what}s to offsets")
    found = {metadata_partition(f"{name}: a {what}", p): o for p, o in given.items()}
    if len(found) != len(given):
        raise ConfigurationError(f"{name} names a {what} twice")
    return {p: integer(f"{name}: the offset of {what} {p}", o) for p, o in found.items()}


offsets = partial(_offsets, "metadata partition")
"""Returns metadata partition → offset, both integers or the text of one, ``None`` for none: a :data:`Reader`."""

partition_offsets = partial(_offsets, "partition")
"""Returns partition of a topic → offset, as :data:`offsets`."""

moment = values.moment_ms
"""Returns a point in time, ms since the epoch: a :data:`Reader`."""


def moment_or_none(name: str, value: object) -> int | None:
    """
    Return a point in time, ms since the epoch, ``None`` where it is absent or a template that rendered as nothing; see
    :func:`~airflow_provider_rlmm.core.base.values.moment_ms` and :data:`Reader`.
    """
    return None if value is None or value in ("", "None") else values.moment_ms(name, value)


def isolation(name: str, value: object) -> ReadIsolation:
    """Return an isolation level of Kafka's consumers; see :data:`Reader`."""
    if not isinstance(value, str) or value not in list(ReadIsolation):
        raise refused(name, value, " or ".join(ReadIsolation))
    return ReadIsolation(value)


def undecided(name: str, value: object) -> Undecided | None:
    """Return what becomes of transactions without an end; ``None`` and an empty text are undecided; see :data:`Reader`."""
    if value is None or value in ("", "None"):
        return None
    if not isinstance(value, str) or value not in list(Undecided):
        raise refused(name, value, " or ".join(Undecided))
    return Undecided(value)


def mappings(name: str, value: object) -> list[Mapping[str, Any]]:
    """Return a sequence of mappings whose keys are texts as a list; see :data:`Reader`."""
    allowed = f"a list of at most {MAX_EVENTS} mappings with texts for keys"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or len(value) > MAX_EVENTS:
        raise refused(name, value, allowed)
    for element in value:
        if not isinstance(element, Mapping) or not all(isinstance(key, str) for key in element):
            raise refused(name, element, allowed)
    return list(value)


def events(name: str, value: object) -> list[WritableEvent]:
    """
    Return events, each as :func:`~airflow_provider_rlmm.features.cleanup.publishing.parse_event` reads it; see
    :data:`Reader`.
    """
    given = mappings(name, value)
    if not given:
        return []
    # Only DAGs that write events pay for the import.
    from airflow_provider_rlmm.features.cleanup.publishing import parse_event

    return [parse_event(raw, system_clock()) for raw in given]


def fields(name: str, given: object, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """
    Return what a mapping holds, each field read by its reader; those that are ``None`` are left out.

    :param name: of the argument, for the error.
    :param given: the mapping; ``None`` for an empty one.
    :param readers: field → what reads it.
    :raises ConfigurationError: on an unknown field, or a value that its reader refuses.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise refused(name, given, f"a mapping with fields out of {sorted(readers)}")
    if unknown := [str(key) for key in given if key not in readers]:
        raise ConfigurationError(f"unknown {name} {list_in_quotes(unknown)}; known are {sorted(readers)}")
    return {field: readers[field](field, value) for field, value in given.items() if value is not None}


def optional_integer(name: str, value: object, minimum: int = 0, maximum: int = values.MAX_INTEGER) -> int | None:
    """Return an integer, ``None`` where it is absent or a template that rendered as nothing; see :data:`Reader`."""
    absent = value is None or value in ("", "None")
    return None if absent else integer(name, value, minimum=minimum, maximum=maximum)


def reader_of(declared: Declared[Value]) -> Callable[[str, object], Value]:
    """
    Return the :data:`Reader` of a declared value: the value itself, or the text that a template makes of it.

    :param declared: the value; where its default is ``None``, nothing is read as ``None``.
    """
    match declared.kind:
        case Whole(minimum, maximum):
            read: Reader = partial(integer, minimum=minimum, maximum=maximum)
        case Duration(minimum, maximum):
            read = partial(duration_ms, minimum=minimum, maximum=maximum)
        case Share():
            read = share
        case Flag():
            read = flag
        case Text(words):
            read = partial(_word, words) if words else text
        case Names(known):
            read = partial(_names, known)
        case Written(read_text):
            read = read_text
        case Texts(read_texts):
            read = partial(_texts, read_texts)
    return partial(_optional, read) if declared.default is None else read


def _word(words: tuple[str, ...], name: str, value: object) -> str:
    if not isinstance(value, str) or value not in words:
        raise refused(name, value, " or ".join(words))
    return value


def _names(known: Collection[str], name: str, value: object) -> frozenset[str]:
    return values.names(name, () if value is None else value, known)


def _texts(read: Callable[[str, object], tuple[str, ...]], name: str, value: object) -> tuple[str, ...]:
    # Nothing else stands for "none": a slip of the pen must not lift a hold.
    return read(name, () if value is None or value == "" else value)


def _optional(read: Reader, name: str, value: object) -> Any:
    # A template that is to fill it in may render as nothing.
    return None if value is None or value in ("", "None") else read(name, value)


def declared_as(declared: Declared[Value]) -> Value:
    """Return the field of a declared argument, as :func:`read_by` does."""
    metadata = {_READER: reader_of(declared), _DECLARED: declared, _TEMPLATED: True}
    return cast("Value", _field(metadata, declared.default))


expiry = partial(integer, minimum=1, maximum=MAX_EXPIRES_IN_MS)
"""Returns for how long a plan may be applied, ms: a :data:`Reader`."""


def restore_overrides(name: str, value: object) -> frozenset[str]:
    """Return the overrides of a restore; ``None`` and an empty text are none; see :data:`Reader`."""
    return values.names(name, () if value is None or value == "" else value, RESTORE_OVERRIDES)


topic_id = read_topic_id
"""Returns the topic id that a text spells: a :data:`Reader`."""


def kafka_ids(name: str, value: object) -> tuple[str, ...]:
    """Return ids in Kafka's form: a list, or a text with commas; ``None`` and an empty text are none; see :data:`Reader`."""
    if value is None or value in ("", "None", [], ()):
        return ()
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, Sequence):
        raise refused(name, value, "a list of ids, or nothing for none")
    return tuple(kafka_uuid_str(topic_id(f"{name}[{i}]", one)) for i, one in enumerate(given))


def partitions(name: str, value: object) -> tuple[int, ...] | None:
    """Return user partitions, ``None`` for all of them; see :data:`Reader`."""
    if value is None or value in ("", "None", [], ()):
        return None
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise refused(name, value, "a list of partitions, or nothing for all of them")
    return tuple(integer(f"{name}[{i}]", number, maximum=MAX_PARTITION) for i, number in enumerate(value))


Made = TypeVar("Made")


class FieldsReader(Generic[Made]):
    """
    Reads a mapping of known fields into one value: a :data:`Reader`. Absent fields, and those that are ``None``, take their
    defaults.

    :param readers: field → what reads it.
    :param make: takes the fields, and refuses what they are together.
    """

    def __init__(self, readers: Mapping[str, Reader], make: Callable[..., Made]) -> None:
        self._readers = readers
        self._make = make

    def __call__(self, name: str, value: object) -> Made:
        """See :data:`Reader`."""
        return self._make(**fields(name, value, self._readers))

    def check_some(self, name: str, value: object) -> None:
        """
        Refuse fields that are wrong with any others.

        :param name: of the argument.
        :param value: a mapping that lacks what is not known yet.
        :raises ConfigurationError: on an unknown field, or a value that its reader refuses.
        """
        fields(name, value, self._readers)


def _readers_of(declared: Iterable[Declared[Any]]) -> Mapping[str, Reader]:
    return {field.name: reader_of(field) for field in declared}


cleaner_limits = FieldsReader(_readers_of(limits.CLEANER), CleanerLimits)
"""Returns :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`."""

scrub_limits = FieldsReader(_readers_of(limits.SCRUB), ScrubLimits)
"""Returns :class:`~airflow_provider_rlmm.core.plans.guards.ScrubLimits`."""

copy_limits = FieldsReader(_readers_of(COPY), CopyLimits)
"""Returns :class:`~airflow_provider_rlmm.features.copying.rules.CopyLimits`."""

_approval_limits = FieldsReader(_readers_of(limits.APPROVAL), ApprovalLimits)


def approval_limits(name: str, value: object) -> ApprovalLimits | None:
    """
    Return the largest plan that needs no approval, ``None`` where no plan needs one; see :data:`Reader`.

    :raises ConfigurationError: on an unknown field, or a value that is none.
    """
    return None if value is None else _approval_limits(name, value)


blast_radius = FieldsReader(_readers_of(limits.BLAST_RADIUS), BlastRadius)
"""Returns :class:`~airflow_provider_rlmm.core.plans.guards.BlastRadius`."""


def price_micros(name: str, value: object) -> int | None:
    """
    Return a price in millionths, ``None`` where it is absent or a template that rendered as nothing; see :data:`Reader`.

    :raises ConfigurationError: for what is no price.
    """
    return None if value is None or value in ("", "None") else prices.price_micros(name, value)


def artifact_name(context: Context) -> str:
    """
    Return the name under which a run, or a group of its tasks that is a run of its own, keeps its plan and its report.

    :param context: of the running task.
    """
    run = context["dag_run"]
    return artifact_name_of(run.dag_id, run.run_id, run_group_of(context.get("task")))
