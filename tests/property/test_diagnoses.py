# SPDX-License-Identifier: Apache-2.0
"""
What a diagnosis must be to be shown: what its page's table asked for, copied once, and what nobody looked at before.

A document that the table refuses is refused. One that it accepts is read as it read it, unless a field is wrong that its page
passed over.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from random import Random
from typing import Any, Final

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis, read_diagnosis
from airflow_provider_rlmm.features.doctor.findings import Severity
from tests.examples import examples
from tests.property.mutated_documents import VERSION, mutated

DOCUMENTS = examples(3_000)
_ID: Final = "AAAAAAAAAAAAAAAAAAAABw"

SAMPLE: Final[dict[str, Any]] = {
    "cluster_id": "cluster", "examined_at_ms": 1, "read_until": {"0": 5, "3": 1200}, "records": 1205, "segments": 2,
    "critical": 1, "counts": {"TOMBSTONE": 1, "STUCK_SEGMENT": 7},
    "findings": [
        {
            "kind": "TOMBSTONE", "severity": "CRITICAL", "metadata_partition": 3, "offset": 17, "topic_id": None,
            "topic": None, "partition": None, "segment_id": None, "since_ms": None, "detail": "its value is null",
            "since": "an unknown time",
        },
        {
            "kind": "STUCK_SEGMENT", "severity": "WARNING", "metadata_partition": 3, "offset": 20, "topic_id": _ID,
            "topic": "orders", "partition": -(2**31), "segment_id": _ID, "since_ms": -(2**63), "detail": "it began",
            "since": "1969-12-31 23:59:59 UTC",
        },
    ],
    "recoveries": [
        {
            "metadata_partition": 3, "delete_before_offset": 18, "records": 18, "segments": 1, "bytes": -1,
            "user_partitions": 1, "refused": [f"{_ID}:orders-0"], "usable": 4, "text": "first keep a copy",
        }
    ],
    "explanations": {
        "TOMBSTONE": {"meaning": "consumers end", "what_to_do": "delete it"},
        "STUCK_SEGMENT": {"meaning": "it never ended", "what_to_do": "run the cleaner"},
    },
    "era": "plain: no record has a key",
}  # fmt: skip

PASSED_OVER: Final = re.compile(
    r"lacks \['read_until'\]|diagnosis\.read_until|diagnosis\.findings\[\d+\](\.since_ms|\.partition| lacks \['since_ms'\])"
    r"|diagnosis\.recoveries\[\d+\]|diagnosis\.findings has .*, which diagnosis\.explanations lacks"
    r"|diagnosis\.era "
)
"""What is said of a document that the page showed, and that is refused now."""


def _fields(**readers: strict.Reader[Any]) -> strict.Reader[Any]:
    whole = strict.record(dict, readers)

    def read(value: object, what: str) -> Any:
        known = {name: value[name] for name in readers if name in value} if isinstance(value, dict) else value
        return whole(known, what)

    return read


_finding = _fields(
    kind=strict.string,
    severity=strict.one_of(Severity),
    metadata_partition=strict.optional(strict.integer),
    offset=strict.optional(strict.integer),
    **dict.fromkeys(("topic", "topic_id", "segment_id"), strict.optional(strict.string)),
    partition=strict.optional(strict.any_json),
    since=strict.string,
    detail=strict.string,
)
_diagnosis = _fields(
    cluster_id=strict.string,
    **dict.fromkeys(("examined_at_ms", "records", "segments", "critical"), strict.integer),
    counts=strict.by_name(strict.integer),
    findings=strict.array(_finding),
    recoveries=strict.array(_fields(text=strict.string)),
    explanations=strict.by_name(_fields(meaning=strict.string, what_to_do=strict.string)),
)


def old_reader(document: dict[str, Any]) -> Any:
    read = _diagnosis(document, "diagnosis")
    if read["explanations"].keys() - read["counts"].keys():
        raise ValueError("uncounted")
    return read


def _shown(value: Any, of: Any) -> Any:
    """Return what of a value another one has."""
    if isinstance(of, dict):
        return {name: _shown(value[name], of[name]) for name in of}
    return [_shown(*pair) for pair in zip(value, of, strict=True)] if isinstance(of, list) else value


def test_a_diagnosis_is_read_as_its_page_read_it() -> None:
    random, seen = Random("diagnoses"), Counter[str]()
    for number in range(DOCUMENTS):
        text = mutated(random, SAMPLE)
        try:
            document = strict.unsealed(text, VERSION)
        except ValueError:
            seen["no document"] += 1
            continue
        old = error = None
        try:
            old = old_reader(document)
        except ValueError:
            seen["refused before"] += 1
        try:
            new: ReportedDiagnosis = read_diagnosis(document)
        except ValueError as e:
            error = str(e)
        if old is None:
            assert error is not None, f"document {number} was refused: {text[:2000]}"
        elif error is not None:
            assert PASSED_OVER.search(error), f"document {number} was accepted: {error}: {text[:2000]}"
            seen["refused now"] += 1
        else:
            plain, was = plain_of(new), json.loads(json.dumps(old))
            assert _shown(plain, was) == was, f"document {number}: {text[:2000]}"
            assert read_diagnosis(json.loads(json.dumps(plain))) == new
            seen["read as before"] += 1
    assert min(seen["refused before"], seen["refused now"], seen["read as before"]) > DOCUMENTS // 30, seen


def test_what_is_read_is_written_as_it_was() -> None:
    written = plain_of(read_diagnosis(SAMPLE))
    # What the sample does not say is absent.
    assert {written.pop(name) for name in written.keys() - SAMPLE.keys()} <= {None}
    assert json.dumps(written) == json.dumps(SAMPLE)
