# SPDX-License-Identifier: Apache-2.0
"""
Makes ``docs/json/*.schema.json`` from the code, one for each ``--json`` of the command: ``python -m dev.json_schemas``.

What a document holds is said by its data class; what a command adds to it, or puts together by hand, is said here. Tests
compare the files with what this makes, and what commands print with the files. Things are only ever added: where a field or
a value is gone, nothing is written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from airflow_provider_rlmm.core.base.documents import AbsentAs
from airflow_provider_rlmm.core.plans.catalogue_document import Catalogue
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition
from airflow_provider_rlmm.features.archiving.restore_steps import RestoreReport
from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport
from airflow_provider_rlmm.features.contents.report_document import ContentsReport
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis
from airflow_provider_rlmm.features.reading.parquet import WrittenRecords
from airflow_provider_rlmm.features.reading.undecided import OpenTransaction
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary
from airflow_provider_rlmm.features.survey.inventory import Totals
from airflow_provider_rlmm.features.survey.orphans import OrphanedPartition, TopicInventory
from airflow_provider_rlmm.features.survey.why import Answer
from airflow_provider_rlmm.overview.trails import Step

FOLDER = Path(__file__).parents[1] / "docs" / "json"

Schema = dict[str, Any]

_NAMED_FOR_CHECKERS: Final = {"OpenTransaction": OpenTransaction}
"""Types of fields that a data class's module imports for type checkers only."""

_TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer"}
_NUMBER: Final[Schema] = {"type": "number"}
_FLAG: Final[Schema] = {"type": "boolean"}
_SIMPLE: Final = {str: _TEXT, int: _WHOLE, float: _NUMBER, bool: _FLAG, UUID: _TEXT, bytes: _TEXT, Path: _TEXT}


def _or_null(schema: Schema) -> Schema:
    if isinstance(schema.get("type"), str) and len(schema) == 1:
        return {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _object(optional: Mapping[str, Schema] | None = None, /, **required: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": sorted(required),
    }


def _names_of(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value}


def may_be_absent(hint: Any) -> bool:
    """Tell whether documents of earlier releases lack a field: some leave it out where it says nothing."""
    return get_origin(hint) is Annotated and any(isinstance(note, AbsentAs) for note in get_args(hint)[1:])


def _array(of: Schema) -> Schema:
    return {"type": "array", "items": of}


class _Forms:
    """Makes schemas of types, and collects those of data classes under their names."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    def of(self, hint: Any) -> Schema:
        """Return the schema of a type, as :func:`~airflow_provider_rlmm.core.base.documents.plain_of` writes its values."""
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.of(arguments[0])
        if hint in _SIMPLE:
            return _SIMPLE[hint]
        if hint is Any:
            return {}
        if origin in (Union, UnionType):
            (inner,) = (argument for argument in arguments if argument is not NoneType)
            return _or_null(self.of(inner))
        if isinstance(hint, type) and issubclass(hint, Enum):
            # Later releases know more of them: these are examples.
            return {"type": "string", "examples": [str(one.value) for one in hint]}
        if is_dataclass(hint):
            return self._of_class(hint)
        return self._of_several(hint)

    def _of_several(self, hint: Any) -> Schema:
        origin, arguments = get_origin(hint), get_args(hint)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return _names_of(self.of(arguments[1]))
        if origin is tuple and Ellipsis not in arguments:
            return {"type": "array", "prefixItems": [self.of(one) for one in arguments]}
        if origin is not None and arguments:
            return _array(self.of(arguments[0]))
        raise TypeError(f"{hint!r} has no schema")

    def _of_class(self, kind: Any) -> Schema:
        name = kind.__name__
        if name not in self.definitions:
            self.definitions[name] = {}  # a class may name itself
            self.definitions[name] = self.fields_of(kind)
        return {"$ref": f"#/$defs/{name}"}

    def fields_of(self, kind: Any, /, **more: Schema) -> Schema:
        """Return the schema of a data class, with what a command adds."""
        hints = get_type_hints(kind, localns=_NAMED_FOR_CHECKERS, include_extras=True)
        of_fields = {field.name: self.of(hints[field.name]) for field in fields(kind)}
        newer = {name: schema for name, schema in of_fields.items() if may_be_absent(hints[name])}
        return _object(newer, **{name: schema for name, schema in of_fields.items() if name not in newer}, **more)


class Printed(NamedTuple):
    """What a command prints for ``--json``."""

    name: str  # of the file, without its end
    command: str
    schema: Schema
    by_line: bool = False  # whether it is one object a line


_MONTH: Final = {"month_micros": _or_null(_WHOLE)}
_SEALED: Final = {"format_version": _WHOLE, "sha256": _TEXT}
_COUNT: Final = _object(segments=_WHOLE, bytes=_WHOLE)
_AMOUNT: Final = _object(objects=_WHOLE, bytes=_WHOLE)
_RANGE: Final = _object(start_offset=_WHOLE, end_offset=_WHOLE)
_COPIED: Final = _object(segment_id=_TEXT, start_offset=_WHOLE, end_offset=_WHOLE, segment_size_in_bytes=_WHOLE)
_EPOCHS: Final = _array({"type": "array", "prefixItems": [_WHOLE, _WHOLE]})

_RECORD: Final = _object(
    {
        "metadata_partition": _WHOLE, "offset": _WHOLE, "timestamp_ms": _WHOLE, "event": _TEXT, "state": _TEXT, "key": _TEXT,
        "topic_id": _TEXT, "topic": _TEXT, "partition": _WHOLE, "segment_id": _TEXT, "start_offset": _WHOLE,
        "end_offset": _WHOLE, "max_timestamp_ms": _WHOLE, "broker_id": _WHOLE, "event_timestamp_ms": _WHOLE,
        "segment_size_in_bytes": _WHOLE, "custom_metadata": _TEXT, "segment_leader_epochs": _EPOCHS, "txn_idx_empty": _FLAG,
        "error": _object(code=_TEXT, reason=_or_null(_TEXT)),
    }
)  # fmt: skip
_SEGMENT: Final = _object(
    {
        "custom_metadata": _TEXT, "max_timestamp_ms": _WHOLE, "broker_id": _WHOLE, "event_timestamp_ms": _WHOLE,
        "segment_size_in_bytes": _WHOLE, "txn_idx_empty": _FLAG, "segment_leader_epochs": _EPOCHS,
        "broker_leader_epoch": _WHOLE, "end_offset": _WHOLE, "start_offset": _WHOLE, "added_offset": _WHOLE,
        "event_offset": _WHOLE, "metadata_partition": _WHOLE,
    },
    topic_id=_TEXT, topic=_TEXT, partition=_WHOLE, segment_id=_TEXT, state=_TEXT,
)  # fmt: skip
_OVERDUE: Final = {
    "leader": _or_null(_WHOLE), "partition": _WHOLE, "since_ms": _WHOLE, "segments": _WHOLE, "bytes": _WHOLE,
    "what_to_do": _TEXT,
}  # fmt: skip
_HANGING: Final = {
    "leader": _or_null(_WHOLE), "partition": _WHOLE, "since_ms": _WHOLE, "copied_to": _or_null(_WHOLE),
    "waiting_offsets": _or_null(_WHOLE), "what_to_do": _TEXT,
}  # fmt: skip
_LEADER_COUNTS: Final = {
    "topic": _TEXT, "segments": _WHOLE, "bytes": _WHOLE, "by_reason": _names_of(_COUNT), "next_due_ms": _or_null(_WHOLE),
    "overdue_segments": _or_null(_WHOLE), "kept_segments": _WHOLE, "kept_bytes": _WHOLE, "foreign_segments": _WHOLE,
    "undecided_segments": _WHOLE, "leaked_segments": _WHOLE, "dangling_segments": _WHOLE, "not_tiered_segments": _WHOLE,
}  # fmt: skip


def _looking(forms: _Forms) -> Iterator[Printed]:
    yield Printed("topics", "topics", forms.fields_of(TopicInventory, **_MONTH), by_line=True)
    yield Printed("orphans", "orphans", forms.fields_of(OrphanedPartition, **_MONTH), by_line=True)
    yield Printed("why", "why", forms.fields_of(Answer, **_MONTH, trail=_array(forms.of(Step))))
    survey = forms.fields_of(Totals, inventory=_TEXT, month_micros=_names_of(_or_null(_WHOLE)))
    yield Printed("survey", "survey", survey)
    yield Printed("segments", "segments", _SEGMENT, by_line=True)
    yield Printed("events", "events", _RECORD, by_line=True)
    yield Printed("trail", "trail", _RECORD, by_line=True)
    yield Printed("decode", "decode", _RECORD)
    snapshot = _object(
        snapshot=_TEXT, segments=_WHOLE, records_read=_WHOLE, records_known=_WHOLE, next_offsets=_names_of(_WHOLE)
    )
    yield Printed("snapshot", "snapshot", snapshot)
    yield Printed("doctor", "doctor", forms.fields_of(ReportedDiagnosis))
    check = _object(good=_FLAG, findings=_array(_object(good=_FLAG, finding=_TEXT)))
    yield Printed("check", "check", check)


def _reading(forms: _Forms) -> Iterator[Printed]:
    header = _object(key=_TEXT, value=_or_null(_TEXT))
    record = _object(
        {"leader_epoch": _WHOLE, "timestamp_type": _TEXT, "producer_id": _WHOLE},
        partition=_WHOLE, offset=_WHOLE, timestamp=_WHOLE, key=_or_null(_TEXT), value=_or_null(_TEXT), headers=_array(header),
    )  # fmt: skip
    yield Printed("read", "read", record, by_line=True)
    written = forms.fields_of(WrittenRecords, partition=_WHOLE, file=_TEXT, start=_WHOLE, end=_WHOLE)
    yield Printed("read-output", "read --output", written, by_line=True)
    offset = _object({"offset": _WHOLE, "timestamp_ms": _WHOLE, "leader_epoch": _or_null(_WHOLE)}, partition=_WHOLE)
    yield Printed("find-offset", "find-offset", offset, by_line=True)


def _leaders(forms: _Forms) -> Iterator[Printed]:
    overdue, hanging = _object(**_OVERDUE), _object(**_HANGING)
    topic = _object(
        **_LEADER_COUNTS, topic_id=_TEXT, partitions=_WHOLE, all=_WHOLE, at_least=_WHOLE, unresolved=_WHOLE,
        why_unresolved=_array(_object(why=_TEXT, partitions=_array(_WHOLE))), overdue_bytes=_or_null(_WHOLE),
        overdue=_array(overdue), overdue_not_judged=_or_null(_TEXT), hanging=_array(hanging), leaked_bytes=_WHOLE,
        dangling_bytes=_WHOLE, not_tiered_bytes=_WHOLE,
    )  # fmt: skip
    yield Printed("retention", "retention", topic, by_line=True)
    partition = _object(
        **_LEADER_COUNTS, partition=_WHOLE, certainty=_TEXT, why=_array(_TEXT), leader=_or_null(_WHOLE),
        log_start_offset=_or_null(_WHOLE), overdue=_or_null(overdue), overdue_not_judged=_or_null(_TEXT),
        hanging=_or_null(hanging),
    )  # fmt: skip
    yield Printed("retention-topic", "retention TOPIC", partition, by_line=True)
    segment = _object(
        topic=_TEXT, partition=_WHOLE, certainty=_TEXT, segment_id=_TEXT, start_offset=_WHOLE, end_offset=_WHOLE,
        bytes=_WHOLE, reason=_TEXT, exact=_FLAG,
    )  # fmt: skip
    yield Printed("retention-segments", "retention --segments", segment, by_line=True)
    scenario = _object(
        settings=_TEXT, estimated=_FLAG, by_reason=_names_of(_COUNT), by_topic=_names_of(_COUNT), segments=_WHOLE,
        bytes=_WHOLE, saved_micros=_or_null(_WHOLE),
    )  # fmt: skip
    what_if = _object(
        cluster_id=_TEXT, generation=_WHOLE, created_at_ms=_WHOLE, evaluated_at_ms=_WHOLE, uncertain_segments=_WHOLE,
        scenarios=_array(scenario),
    )  # fmt: skip
    yield Printed("what-if", "what-if", what_if)
    listed = _object(cluster_state=_TEXT, cluster_id=_TEXT, topics=_WHOLE, explained_gaps=_WHOLE)
    yield Printed("cluster-state", "cluster-state --output", listed)
    yield Printed("spark-files", "spark-files", _object(job=_TEXT, py_files=_TEXT))


def _deleting(forms: _Forms) -> Iterator[Printed]:
    yield Printed("plan", "plan", _with_era_if_known(forms.fields_of(PlanSummary, **_SEALED, plan=_TEXT)))
    report = forms.fields_of(CleanupReport, format_version=_WHOLE, report=_TEXT)
    yield Printed("clean", "clean", report)
    planned = _object(objects=_WHOLE, segments=_WHOLE, bytes=_WHOLE, early=_or_null({"type": "object"}))
    deleted = _object(
        {"deleted": _names_of(_AMOUNT), "would_delete": _names_of(_AMOUNT)},
        gone_before=_WHOLE, held=_WHOLE, left=_WHOLE, barred=_WHOLE, folders_removed=_WHOLE, dry_run=_FLAG,
    )  # fmt: skip
    scrub = forms.fields_of(
        ScrubSummary, **_SEALED, planned=planned, deletion=_or_null(deleted), month_micros=_names_of(_or_null(_WHOLE)),
        scrub=_TEXT,
    )  # fmt: skip
    yield Printed("scrub", "scrub", _with_era_if_known(scrub))
    yield Printed("stop", "stop", _object(file=_TEXT, on=_FLAG, why=_or_null(_TEXT)))


def _with_era_if_known(schema: Schema) -> Schema:
    """See :func:`~airflow_provider_rlmm.core.records.told_era.without_unsaid_era`."""
    return schema | {"required": [name for name in schema["required"] if name != "era"]}


def _copying(forms: _Forms) -> Iterator[Printed]:
    yield Printed("verify", "verify", forms.fields_of(ContentsReport, **_SEALED))
    kinds = get_type_hints(ArchivedUserPartition, include_extras=True)
    named = (
        "topic", "topic_id", "partition", "segments", "not_whole", "as_is", "bytes", "records", "records_sha256", "manifest",
        "manifest_sha256",
    )  # fmt: skip
    archived = _object(**{name: forms.of(kinds[name]) for name in named})
    yield Printed("archive", "archive", _object(archive=_TEXT, partitions=_array(archived)))
    yield Printed("restore", "restore", forms.fields_of(RestoreReport, records=_WHOLE, left_out=_WHOLE))
    yield Printed("recover", "recover", forms.fields_of(Catalogue, **_SEALED))
    disk = _object(
        now_bytes=_or_null(_WHOLE), about_bytes=_or_null(_WHOLE), at_most_bytes=_or_null(_WHOLE),
        bytes_per_day=_or_null(_WHOLE), endless=_FLAG, cannot_tell=_or_null(_TEXT),
    )  # fmt: skip
    aid = _object(
        topic=_TEXT, topic_id=_TEXT, partitions=_WHOLE, replicas=_WHOLE, settings_of_topic_today=_names_of(_or_null(_TEXT)),
        copying_off=_or_null(_TEXT), as_today=_or_null(_TEXT), disk=_or_null(disk),
    )  # fmt: skip
    first_aid = _object(
        cluster_id=_TEXT, listed_topics=_WHOLE, metadata_topic_listed=_FLAG, listing_proved_whole=_FLAG,
        log_directories=_TEXT, needs_a_person=_array(_TEXT), not_told=_array(_object(topic=_TEXT, why=_TEXT)),
        topics=_array(aid),
    )  # fmt: skip
    yield Printed("first-aid", "first-aid", first_aid)
    planned = _object(start_offset=_WHOLE, end_offset=_WHOLE, segment_size_in_bytes=_WHOLE)
    copied = _object(
        {
            "planned": _array(planned), "topic": _TEXT, "topic_id": _TEXT, "copied": _array(_COPIED), "copied_bytes": _WHOLE,
            "taken_back": _array(_COPIED), "expiring": _array(_RANGE), "hole": _or_null(_RANGE), "remote_end": _WHOLE,
            "stopped_by": _or_null(_TEXT), "needs_person": _FLAG,
        },
        partition=_WHOLE, refused=_or_null(_TEXT),
    )  # fmt: skip
    copy = _object(
        topic=_TEXT, dry_run=_FLAG, segments=_WHOLE, bytes=_WHOLE, expiring=_WHOLE, partitions=_array(copied)
    )
    yield Printed("copy", "copy", copy)


def printed() -> list[Printed]:
    """Return what each command prints for ``--json``, as JSON schemas."""
    found = []
    for group in (_looking, _reading, _leaders, _deleting, _copying):
        forms = _Forms()
        found += [one._replace(schema=_whole(one, forms)) for one in group(forms)]
    return found


def _whole(one: Printed, forms: _Forms) -> Schema:
    """Return a schema with its head, and with those of the data classes that it names."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"rlmm {one.command} --json",
        "description": "One object a line." if one.by_line else "One document.",
    }
    wanted, text = dict[str, Schema](), json.dumps(one.schema)
    while missing := [n for n in forms.definitions if f'"#/$defs/{n}"' in text and n not in wanted]:
        wanted |= {name: forms.definitions[name] for name in missing}
        text += json.dumps(wanted)
    return head | one.schema | ({"$defs": wanted} if wanted else {})


def text_of(schema: Schema) -> str:
    """Return the text of a file."""
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def removed(before: Any, now: Any, where: str = "") -> list[str]:
    """
    Return what consumers of a schema may rely on and do not find any more.

    :param before: the schema as they know it, or a part of it.
    :param now: the same part today.
    :param where: which part it is.
    """
    if isinstance(before, dict):
        if not isinstance(now, dict):
            return [f"{where or 'the schema'}: was {json.dumps(before)[:80]}"]
        gone = [f"{where}/{name}" for name in before if name not in now]
        return gone + [r for name in before if name in now for r in removed(before[name], now[name], f"{where}/{name}")]
    if isinstance(before, list) and isinstance(now, list):
        if where.endswith("/type"):
            # What may be null newly was never null before.
            return [] if set(now) <= set(before) else [f"{where}: {sorted(set(now) - set(before))} may be there now"]
        return [f"{where}: {one!r}" for one in before if one not in now] if where.endswith(("/required", "/examples")) else [
            gone for number, one in enumerate(before) for gone in
            (removed(one, now[number], f"{where}/{number}") if number < len(now) else [f"{where}/{number}"])
        ]  # fmt: skip
    return [] if before == now or where.endswith(("title", "description")) else [f"{where}: was {before!r}, is {now!r}"]


def main() -> int:
    """Write the files, or say what would be gone; return the exit code."""
    found = {FOLDER / f"{one.name}.schema.json": one.schema for one in printed()}
    gone = [f"{path.name}: the file" for path in FOLDER.glob("*.schema.json") if path not in found]
    for path, schema in found.items():
        if path.exists():
            gone += [f"{path.name}: {what}" for what in removed(json.loads(path.read_text("utf-8")), schema)]
    if gone:
        print("Nothing is written, as things are only ever added; these are gone or changed:", *gone, sep="\n  ")
        return 1
    FOLDER.mkdir(exist_ok=True)
    for path, schema in found.items():
        path.write_text(text_of(schema), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
