# SPDX-License-Identifier: Apache-2.0
"""A layout that this project does not ship, known from the connection alone, cleaned by the operators of the DAG."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from dev import tiering
from dev.broker import LocalKafka
from dev.roots import expected_root_of
from tests.integration.operators import connect, run_cleaner
from tests.scrub import unfinished_segments

pytestmark = [pytest.mark.integration, pytest.mark.rare]

SpellKey = Callable[[RemoteLogSegmentMetadata], str]

CONNECTION = {
    "layout": "template",
    "key_pattern": "warm/{topic}-{partition}-{topic_id}/{segment_id}",
    "key_suffixes": '""',
}
"""One object for each segment, without suffix and without offset: there are plugins in companies that have it so."""

IN_FOLDERS = {
    "layout": "template",
    "key_pattern": (
        "warm/{md5(topic,'-',partition):4}/{topic}/{topic_id:uuid}/{partition:05}/{end_offset:020}_{segment_id:uuid}"
    ),
    "key_suffixes": "/log",
}
"""A salt, ids as UUIDs, and a folder for each segment."""


def key_of(segment: RemoteLogSegmentMetadata) -> str:
    """Spell the key without this package's layouts."""
    tip = segment.remote_log_segment_id.topic_id_partition
    folder = f"{tip.topic}-{tip.partition}-{kafka_uuid_str(tip.topic_id)}"
    return f"warm/{folder}/{kafka_uuid_str(segment.remote_log_segment_id.id)}"


def key_in_folders(segment: RemoteLogSegmentMetadata) -> str:
    """Spell the other one."""
    tip = segment.remote_log_segment_id.topic_id_partition
    salt = hashlib.md5(f"{tip.topic}-{tip.partition:05}".encode(), usedforsecurity=False).hexdigest()[:4]
    name = f"{segment.end_offset:020}_{segment.remote_log_segment_id.id}"
    return f"warm/{salt}/{tip.topic}/{tip.topic_id}/{tip.partition:05}/{name}/log"


def keys_below(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("connection", "key_of"), [(CONNECTION, key_of), (IN_FOLDERS, key_in_folders)], ids=["plain", "folders"]
)
def test_a_template_that_only_the_connection_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connection: dict[str, str], key_of: SpellKey
) -> None:
    """A real broker's log; the objects lie as a plugin with this layout would have put them."""
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "artifacts"))
    storage = tmp_path / "storage"
    with LocalKafka() as kafka:
        alive = tiering.create_tiered_topic(kafka, "orders", 2)
        tiering.create_tiered_topic(kafka, "clickstream", 3)
        tiering.produce_until_remote(kafka, "orders", 2)
        tiering.produce_until_remote(kafka, "clickstream", 3)
        gone = tiering.provoke_scenario_b(kafka, "clickstream")
        keys: dict[object, set[str]] = {alive: set(), gone: set()}
        for segment in unfinished_segments(kafka):
            path = storage / (key := key_of(segment))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"a segment")
            keys[segment.remote_log_segment_id.topic_id_partition.topic_id].add(key)
        stranger = sorted(keys[gone])[0] + ".bak"
        (storage / stranger).write_bytes(b"nobody knows what this is")
        named = expected_root_of(storage, "warm/")
        connect(monkeypatch, kafka, storage_uri=storage.as_uri(), expected_root=named, **connection)

        # An object that the connection does not name as a part of a segment stays, and its segment is not finished.
        with pytest.raises(AirflowFailException, match="layout template knows no file of this kind"):
            run_cleaner("with-a-stranger")
        assert keys_below(storage) & {*keys[gone], stranger} == {stranger}
        [unfinished] = [key for key in map(key_of, unfinished_segments(kafka)) if key in keys[gone]]
        assert unfinished + ".bak" == stranger

        (storage / stranger).unlink()
        run_cleaner("without")
        assert {key for key in keys_below(storage) if key.startswith("warm/")} == keys[alive]
        left = {m.remote_log_segment_id.topic_id_partition.topic_id for m in unfinished_segments(kafka)}
        assert left == {alive}
