# SPDX-License-Identifier: Apache-2.0
"""What the derived readers of documents accept and refuse is what their tables did, to the message."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import plain_of, reader_of
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from tests.examples import examples
from tests.property.mutated_documents import VERSION, mutated
from tests.property.old_documents import OLD_READERS
from tests.property.old_reports import OLD_REPORT_READERS
from tests.property.sample_documents import SAMPLES

pytestmark = pytest.mark.slow

DOCUMENTS = examples(2_000)
OLD = {**OLD_READERS, **OLD_REPORT_READERS}

REWORDED = (
    "values to unpack",
    "not enough values",
    " entries",
    " elements, not ",
    "not one of [",
    "names the partition",
)
"""In messages that say more of a field than they did; where a name and its value are bad, the name is told of now."""


def _outcome(read: strict.Reader[object], text: str) -> tuple[str, str]:
    try:
        found = read(strict.unsealed(text, VERSION), "it")
    except ValueError as e:
        return "refused", str(e)
    # 1, 1.0 and True are equal, and nothing else that a document holds is the same in words and is not.
    return "accepted", f"{type(found).__name__} {found!r}"


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_derived_and_old_reader_agree_on_mutated_documents(kind: type) -> None:
    old, new = OLD[kind], reader_of(kind)
    random = Random(kind.__name__)
    seen: Counter[str] = Counter()
    for number in range(DOCUMENTS):
        text = mutated(random, SAMPLES[kind])
        (was, said), (is_, says) = _outcome(old, text), _outcome(new, text)
        assert is_ == was, f"document {number} was {was} ({said}) and is {is_} ({says}): {text[:2000]}"
        if not any(word in said + says for word in REWORDED):
            assert says == said, f"document {number}: {text[:2000]}"
        seen[is_] += 1
    assert min(seen["accepted"], seen["refused"]) > DOCUMENTS // 20, seen


def test_every_kind_of_document_is_compared() -> None:
    assert OLD.keys() == SAMPLES.keys()


@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind is not ClusterState], ids=lambda kind: kind.__name__)
def test_what_is_read_is_written_as_it_was_and_reads_back(kind: type) -> None:
    """A topic id of a listing of a cluster is no plain JSON: that document has a test of its own."""
    read, random = reader_of(kind), Random(kind.__name__)
    assert plain_of(read(SAMPLES[kind], "it")) == SAMPLES[kind]
    accepted = 0
    for _ in range(DOCUMENTS // 4):
        try:
            found = read(strict.unsealed(mutated(random, SAMPLES[kind]), VERSION), "it")
        except ValueError:
            continue
        accepted += 1
        again = plain_of(found)
        assert read(json.loads(json.dumps(again)), "it") == found, again
    assert accepted > DOCUMENTS // 80
