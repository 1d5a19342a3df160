# SPDX-License-Identifier: Apache-2.0
"""A worker process that cleans 500 segments, killed with SIGKILL at a random moment, again and again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from dev import tiering
from dev.faults import FaultyKafka
from tests.integration.cleaning import Cleaning
from tests.integration.scenarios.cleaning_worker import BEGUN, ENDED
from tests.integration.scenarios.orphans import clone_orphans
from tests.integration.scenarios.provoke import assert_unharmed
from tests.scrub import unfinished_segments

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]

KILLS = 20
PARTITIONS = 4
SEGMENTS = 125
"""Per partition."""
BATCH = 60
SEED = 4
FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


def run_worker(kafka: FaultyKafka, kill_after_s: float | None) -> tuple[bool, float]:
    """Let a worker clean; tell whether it was killed before its end, and the seconds of its cleaning."""
    arguments = (kafka.bootstrap_servers, str(kafka.remote_dir), kafka.cluster_id, str(BATCH))
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.scenarios.cleaning_worker", *arguments],
        cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True,
    ) as worker:  # fmt: skip
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == BEGUN
        begun = time.monotonic()
        if kill_after_s is not None:
            # Not a wait for something: the moment is what the test draws.
            time.sleep(kill_after_s)
            worker.kill()
        ended = worker.stdout.read().strip() == ENDED
        return not ended, time.monotonic() - begun


def converge(kafka: FaultyKafka, topic_id: UUID) -> Counter[str]:
    """The next run; returns the states that it found."""
    with Cleaning.of(kafka, batch_segments=BATCH) as cleaning:
        found = cleaning.segment_states(topic_id)
        cleaning.mark()
        assert cleaning.clean()["reasons"] == []
        assert cleaning.segment_states(topic_id) == {}
        assert cleaning.deletions(topic_id) == [FINISHED] * PARTITIONS
    assert tiering.remote_files(kafka, topic_id) == set()
    return found


def duplicates(kafka: FaultyKafka, topic_ids: set[UUID]) -> Counter[str]:
    """How often the cleaner wrote an event about a subject once more than needed, by state."""
    written: Counter[tuple[str, object]] = Counter()
    with Cleaning.of(kafka) as cleaning:
        for event in cleaning.events():
            assert not isinstance(event, RemoteLogSegmentMetadataSnapshot)
            if event.broker_id == OWN_BROKER_ID and topic_id_partition_of(event).topic_id in topic_ids:
                deletion = isinstance(event, RemotePartitionDeleteMetadata)
                subject = event.topic_id_partition if deletion else event.remote_log_segment_id
                written[event.state.name, subject] += 1
    found: Counter[str] = Counter()
    for (state, _), count in written.items():
        found[state] += count - 1
    return +found


@pytest.mark.timeout(3600)
def test_every_kill_converges_at_the_next_run(
    kafka: FaultyKafka, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Twenty kills; after each of them one more run leaves nothing behind, and no event twice.

    Protection: the next run takes up what it finds in DELETE_SEGMENT_STARTED, whoever started it
    (``batches._delete_segments``), with or without objects (``eligibility._why_left``); without, a kill between that
    event and DELETE_SEGMENT_FINISHED leaves segments for good.
    """
    draw = random.Random(SEED)
    model = next(m for m in unfinished_segments(kafka) if isinstance(m, RemoteLogSegmentMetadata))
    topic_ids = {clone_orphans(kafka, model, "measured", PARTITIONS, SEGMENTS)}
    killed, duration = run_worker(kafka, None)
    assert not killed
    kills, interrupted = 0, Counter[str]()
    while kills < KILLS:
        topic_id = clone_orphans(kafka, model, f"killed-{len(topic_ids)}", PARTITIONS, SEGMENTS)
        topic_ids.add(topic_id)
        assert len(topic_ids) <= 2 * KILLS, "the worker is too fast to be killed"
        # The topic grows, and with it the time to read it: the window reaches beyond the last end that was seen.
        killed, seconds = run_worker(kafka, draw.uniform(0, 1.2 * duration))
        kills += killed
        duration = duration if killed else seconds
        interrupted += converge(kafka, topic_id)
    repeated = duplicates(kafka, topic_ids)
    assert interrupted, "no kill left anything to do"
    record_property("duplicate_events", dict(repeated))
    with capsys.disabled():
        sys.stdout.write(f"\n{kills} kills with seed {SEED}, found {dict(interrupted)}, duplicates {dict(repeated)}\n")
    assert repeated.total() <= kills * BATCH, "at most the batch in flight is said twice"
    assert_unharmed(kafka)
