# SPDX-License-Identifier: Apache-2.0
"""The form of a diagnosis, as far as its page needs it: further fields may be there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_rlmm.policy import strict_json
from airflow_provider_rlmm.policy.findings import Severity

_Reader = Callable[[object, str], Any]


def _fields(**readers: _Reader) -> _Reader:
    whole: _Reader = strict_json.record(dict, readers)

    def read(value: object, what: str) -> Any:
        known = {name: value[name] for name in readers if name in value} if isinstance(value, dict) else value
        return whole(known, what)

    return read


_maybe_text = strict_json.optional(strict_json.string)

_finding = _fields(
    kind=strict_json.string,
    severity=strict_json.one_of(Severity),
    metadata_partition=strict_json.integer,
    offset=strict_json.optional(strict_json.integer),
    topic=_maybe_text,
    topic_id=_maybe_text,
    partition=strict_json.optional(strict_json.any_json),
    segment_id=_maybe_text,
    since=strict_json.string,
    detail=strict_json.string,
)

_diagnosis = _fields(
    cluster_id=strict_json.string,
    examined_at_ms=strict_json.integer,
    records=strict_json.integer,
    segments=strict_json.integer,
    critical=strict_json.integer,
    counts=strict_json.by_name(strict_json.integer),
    findings=strict_json.array(_finding),
    recoveries=strict_json.array(_fields(text=strict_json.string)),
    explanations=strict_json.by_name(_fields(meaning=strict_json.string, what_to_do=strict_json.string)),
)


def check_diagnosis(document: Mapping[str, Any]) -> None:
    """
    Check the form of what the doctor found.

    :param document: as it was read.
    :raises ValueError: naming the first field that is wrong.
    """
    read = _diagnosis(document, "diagnosis")
    if uncounted := sorted(read["explanations"].keys() - read["counts"].keys()):
        raise ValueError(f"diagnosis.explanations has {strict_json.shown(uncounted)}, which diagnosis.counts lacks")
