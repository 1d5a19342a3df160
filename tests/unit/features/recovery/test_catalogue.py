# SPDX-License-Identifier: Apache-2.0
"""What a catalogue says of a bucket: of recorded objects, and of damage of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    StorageAccessError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.plans.catalogue_rows import ProvedBy, RowKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str, parse_kafka_uuid
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.pacing import MAX_FAILURES
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from tests.contracts.aiven_objects import AivenPacking
from tests.recovery import (
    Bucket,
    as_bytes,
    as_copied,
    kinds,
    manifest_of,
    partition,
    recorded_bucket,
    segment,
    without_custom,
)
from tests.unit.core.storage.test_aiven import RECORDED

ZSTD = AivenPacking(chunk_size=4, compressed=True, variable=True)


def test_recorded_objects_are_told_field_by_field() -> None:
    bucket, manifests = recorded_bucket()
    made, rows = bucket.catalogue()
    assert {row.keys[0].removesuffix(".indexes") for row in rows} == {found["stem"] for found in manifests}
    by_stem = {found["stem"]: found for found in manifests}
    for row in rows:
        manifest = by_stem[row.keys[0].removesuffix(".indexes")]
        said = manifest["remoteLogSegmentMetadata"]
        segment_id = said["remoteLogSegmentId"]
        assert row.kind is (RowKind.ENCRYPTED if "encryption" in manifest else RowKind.COPIED)
        assert row.proved_by is ProvedBy.MANIFEST
        assert row.topic == segment_id["topicIdPartition"]["topicPartition"]["topic"]
        assert row.topic_id == parse_kafka_uuid(segment_id["topicIdPartition"]["topicId"])
        assert row.segment_id == parse_kafka_uuid(segment_id["id"])
        assert (row.partition, row.start_offset, row.end_offset) == (0, said["startOffset"], said["endOffset"])
        assert row.segment_leader_epochs == ((0, said["segmentLeaderEpochs"]["0"]),)
        assert (row.max_timestamp_ms, row.event_timestamp_ms) == (said["maxTimestampMs"], said["eventTimestampMs"])
        assert (row.broker_id, row.txn_idx_empty) == (said["brokerId"], said["txnIdxEmpty"])
        assert row.segment_size_in_bytes == manifest["chunkIndex"]["originalFileSize"]
        assert (row.compressed, row.encrypted) == (manifest["compression"], "encryption" in manifest)
        assert (row.state, row.custom_metadata) == (None, None)
    assert (made.kinds["COPIED"].rows, made.kinds["ENCRYPTED"].rows, made.kinds["HOLE"].rows) == (12, 6, 0)
    assert (made.listed.objects, made.listed.bytes) == (54, sum(row.stored_bytes for row in rows))
    assert list(made.problems()) == []


def log_of_the_recorded_run() -> dict[UUID, RemoteLogSegmentMetadata]:
    """Return the segments of a recorded metadata topic whose copy was finished, each as its copy began."""
    begun, finished = dict[UUID, RemoteLogSegmentMetadata](), set[UUID]()
    for line in (RECORDED / "metadata.jsonl").read_text().splitlines():
        event: Any = deserialize(bytes.fromhex(json.loads(line)["value_hex"]))
        if isinstance(event, RemoteLogSegmentMetadata):
            begun[event.remote_log_segment_id.id] = event
        elif event.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            finished.add(event.remote_log_segment_id.id)
    return {segment_id: begun[segment_id] for segment_id in finished}


def test_a_catalogue_equals_the_logs_own_metadata_state_and_custom_metadata_aside() -> None:
    log, bucket = log_of_the_recorded_run(), Bucket()
    for metadata in log.values():
        bucket.copy(metadata)
    rows = bucket.rows()
    assert {row.segment_id: as_copied(row) for row in rows} == {
        segment_id: without_custom(metadata) for segment_id, metadata in log.items()
    }
    assert len(rows) > 50


def test_the_manifests_of_these_tests_are_as_large_as_those_that_the_plugin_wrote() -> None:
    """What they are made of is then what the plugin makes them of."""
    log, listed = log_of_the_recorded_run(), dict[str, int]()
    for line in (RECORDED / "listing_before_deletes.txt").read_text().splitlines():
        key, _, size = line.partition("\t")
        listed[key] = int(size)
    compared = 0
    for metadata in log.values():
        tip, segment_id = metadata.remote_log_segment_id.topic_id_partition, metadata.remote_log_segment_id.id
        keys = [k for k in listed if k.endswith(f"{kafka_uuid_str(segment_id)}.rsm-manifest")]
        if keys and tip.topic in ("live.accounts", "midcopy-sessions-0"):
            ours = manifest_of(metadata)
            theirs = {"offset": (0, 24), "timestamp": (24, 12), "producerSnapshot": (36, 10), "leaderEpoch": (46, 8)}
            ours["segmentIndexes"] |= {name: {"position": p, "size": s} for name, (p, s) in theirs.items()}
            # The last, smaller segment has indexes of other sizes.
            if listed[keys[0].replace(".rsm-manifest", ".indexes")] == 54:
                assert len(as_bytes(ours)) == listed[keys[0]]
                compared += 1
    assert compared >= 5


@pytest.mark.parametrize("without", [".log", ".indexes", ".rsm-manifest"])
def test_a_segment_that_lacks_an_object_is_unfinished_and_nothing_is_told_but_its_key(without: str) -> None:
    bucket = Bucket()
    bucket.copy(segment(1, 0, 9), without=[without])
    [row] = bucket.rows()
    assert (row.kind, row.proved_by, row.why) == (RowKind.UNFINISHED, ProvedBy.KEY, f"it lacks {without}")
    assert (row.topic, row.start_offset, row.segment_id) == ("orders", 0, UUID(int=1_001))
    assert (row.end_offset, row.segment_leader_epochs, row.max_timestamp_ms, row.broker_id) == (None,) * 4


def changed(**fields: Any) -> bytes:
    document = manifest_of(segment(1, 5, 9, [(2, 5), (4, 7)]))
    document["remoteLogSegmentMetadata"] |= fields
    return as_bytes(document)


def of_another(**fields: Any) -> bytes:
    return as_bytes(manifest_of(replace(segment(1, 5, 9), **fields)))


DAMAGED = {
    "no JSON": b"{",
    "empty": b"",
    "no object": b"[]",
    "of another segment": as_bytes(manifest_of(segment(2, 5, 9))),
    "of another user partition": as_bytes(manifest_of(segment(1, 5, 9, of=partition(1)))),
    "of another topic id": as_bytes(manifest_of(segment(1, 5, 9, of=partition(topic_id=8)))),
    "of another topic": as_bytes(manifest_of(segment(1, 5, 9, of=partition(topic="payments")))),
    "of a topic that no key can have": as_bytes(manifest_of(segment(1, 5, 9, of=partition(topic="../x")))),
    "of another start offset": as_bytes(manifest_of(segment(1, 4, 9))),
    "of a larger log": of_another(segment_size_in_bytes=11),
    "an end before the start": changed(endOffset=4),
    "no epochs": changed(segmentLeaderEpochs={}),
    "an epoch that is no number": changed(segmentLeaderEpochs={"x": 5}),
    "an epoch of too many digits": changed(segmentLeaderEpochs={"9" * 5_000: 5}),
    "epochs that go back": changed(segmentLeaderEpochs={"2": 7, "4": 5}),
    "epochs that begin too late": changed(segmentLeaderEpochs={"2": 6}),
    "epochs behind the end": changed(segmentLeaderEpochs={"2": 5, "4": 10}),
    "one epoch twice": changed(segmentLeaderEpochs={"2": 5, "02": 7}),
    "a time that is no number": changed(maxTimestampMs="5"),
    "a broker that is a truth value": changed(brokerId=True),
    "an offset that is too large": changed(endOffset=2**63),
    "a topic id in another spelling": as_bytes(
        {**manifest_of(segment(1, 5, 9)), "remoteLogSegmentMetadata": {"remoteLogSegmentId": {"id": "x"}}}
    ),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_manifest_that_is_not_the_segments_own_proves_nothing(data: bytes) -> None:
    bucket = Bucket()
    stem = bucket.copy(segment(1, 5, 9))
    bucket.storage.put_object(f"{stem}.rsm-manifest", data)
    made, [row] = bucket.catalogue()
    assert (row.kind, row.proved_by) == (RowKind.DAMAGED, ProvedBy.KEY)
    assert (row.topic, row.partition, row.start_offset, row.end_offset) == ("orders", 0, 5, None)
    assert (row.segment_leader_epochs, row.max_timestamp_ms, row.broker_id, row.compressed) == (None,) * 4
    assert row.why
    [problem] = made.problems()
    assert problem.startswith("1 DAMAGED: ")


@pytest.mark.parametrize(
    "change",
    [
        lambda stem, put: put(f"{stem}.log", b"x" * 9),
        lambda stem, put: put(f"{stem}.log", b"x" * 11),
        lambda stem, put: put(f"{stem}.indexes", b"x"),
        lambda stem, put: put(f"{stem}.indexes", b"x" * 100),
    ],
)
def test_objects_of_another_size_than_the_manifest_names_are_damaged(change: Callable[..., None]) -> None:
    for packing, encrypted in (
        (AivenPacking(chunk_size=100), False),
        (AivenPacking(chunk_size=100, variable=True), True),
    ):
        bucket = Bucket()
        stem = bucket.copy(segment(1, 5, 9), packing, encrypted=encrypted)
        change(stem, bucket.storage.put_object)
        [row] = bucket.rows()
        assert (row.kind, row.end_offset) == (RowKind.DAMAGED, None)
        assert "bytes, and its manifest names" in str(row.why)


def test_a_manifest_of_a_form_that_is_not_known_here_cannot_be_told() -> None:
    bucket = Bucket()
    first, second = bucket.copy(segment(1, 0, 9)), bucket.copy(segment(2, 10, 19))
    bucket.storage.put_object(f"{first}.rsm-manifest", as_bytes({**manifest_of(segment(1, 0, 9)), "version": "2"}))
    bucket.storage.put_object(f"{second}.rsm-manifest", b"PFA1 and so on")
    rows = bucket.rows()
    assert kinds(rows) == ["CANNOT_TELL", "CANNOT_TELL"]
    assert "only version 1 is known here" in str(rows[0].why)


def test_an_encrypted_segment_is_listed_with_what_its_manifest_says() -> None:
    bucket = Bucket()
    bucket.copy(segment(1, 0, 9), ZSTD, encrypted=True)
    bucket.copy(segment(2, 10, 19), ZSTD)
    rows = bucket.rows()
    assert kinds(rows) == ["ENCRYPTED", "COPIED"]
    assert [(row.end_offset, row.compressed, row.encrypted) for row in rows] == [(9, True, True), (19, True, False)]


@pytest.mark.parametrize(
    ("one", "other", "is_conflict"),
    [
        (segment(1, 0, 9), segment(2, 0, 9), True),
        (segment(1, 0, 9), segment(2, 5, 14), True),
        (segment(1, 0, 9), segment(2, 5, 14, [(0, 5), (1, 12)]), False),
        (segment(1, 0, 9), segment(2, 5, 14, [(1, 5)]), False),
        (segment(1, 0, 9, [(0, 0), (2, 7)]), segment(2, 5, 14, [(1, 5)]), True),
        (segment(1, 0, 9, [(0, 0), (2, 7)]), segment(2, 5, 14, [(0, 5), (3, 12)]), True),
        (segment(1, 0, 9, [(0, 0), (2, 7)]), segment(2, 5, 14, [(0, 5)]), False),
        (segment(1, 0, 9), segment(2, 10, 14), False),
        (segment(1, 0, 9), segment(2, 0, 9, of=partition(1)), False),
        (segment(1, 0, 9), segment(2, 0, 9, of=partition(topic_id=8)), False),
    ],
)
def test_segments_that_share_offsets_are_in_conflict_where_no_epoch_tells(
    one: RemoteLogSegmentMetadata, other: RemoteLogSegmentMetadata, *, is_conflict: bool
) -> None:
    bucket = Bucket()
    stems = {bucket.copy(one), bucket.copy(other)}
    rows = bucket.rows()
    assert kinds(rows) == ["CONFLICT" if is_conflict else "COPIED"] * 2
    assert {(row.partners and row.partners[0]) for row in rows} == (stems if is_conflict else {()})
    assert all(as_copied(row) in (one, other) for row in rows)


def test_a_segment_at_two_places_is_in_conflict_with_itself() -> None:
    bucket = Bucket(AivenLayout("now/", ["then/"]))
    bucket.copy(segment(1, 0, 9))
    bucket.copy(segment(1, 0, 9), place=1)
    rows = bucket.rows()
    assert [(row.kind, row.place) for row in rows] == [(RowKind.CONFLICT, "now"), (RowKind.CONFLICT, "then")]


def test_offsets_between_two_segments_that_no_whole_one_covers_are_a_hole() -> None:
    bucket = Bucket()
    first, last = bucket.copy(segment(1, 0, 9)), bucket.copy(segment(4, 30, 39))
    lost = bucket.copy(segment(2, 10, 19), without=[".log"])
    rows = bucket.rows()
    assert kinds(rows) == ["COPIED", "UNFINISHED", "HOLE", "COPIED"]
    hole = rows[2]
    assert (hole.topic, hole.partition, hole.start_offset, hole.end_offset) == ("orders", 0, 10, 29)
    assert (hole.partners, hole.keys, hole.stored_bytes) == ((first, last), (), 0)
    assert f"{lost}, which is UNFINISHED, may hold some of them" in str(hole.why)


def test_a_long_segment_covers_what_lies_behind_shorter_ones() -> None:
    bucket = Bucket()
    bucket.copy(segment(1, 0, 29))
    bucket.copy(segment(2, 5, 9, [(1, 5)]))
    bucket.copy(segment(3, 30, 39, [(1, 30)]))
    assert kinds(bucket.rows()) == ["COPIED"] * 3


def test_what_is_of_no_segment_is_a_row_and_counted() -> None:
    bucket = Bucket()
    stem = bucket.copy(segment(1, 0, 9))
    for key in (f"{stem}.log.bak", "kp/readme.txt", "kp/backups/a.tar"):
        bucket.storage.put_object(key, b"xx")
    made, rows = bucket.catalogue()
    assert kinds(rows) == ["COPIED", "FOREIGN", "FOREIGN"]
    assert [row.keys for row in rows[1:]] == [(f"{stem}.log.bak",), ("kp/readme.txt",)]
    assert (made.foreign_folders, made.foreign) == (1, ("kp/backups/",))
    assert list(made.problems()) == []


def breaks(storage: InMemoryRemoteStorageManager, effect: str, prefix: str, error: Exception) -> None:
    def fail(what: str, key: str) -> None:
        if what == effect and key.startswith(prefix):
            raise error

    storage.on_effect = fail


def test_what_lies_below_a_folder_that_was_not_listed_whole_cannot_be_told() -> None:
    bucket = Bucket()
    bucket.copy(segment(1, 0, 9))
    stem = bucket.copy(segment(2, 0, 9, of=partition(1)))
    bucket.copy(segment(3, 30, 39, of=partition(1)))
    bucket.copy(segment(4, 0, 9, of=partition(topic="payments", topic_id=8)))
    folder, tries = f"{stem.rpartition('/')[0]}/", list[int]()

    def arrange(found: list[StoredObject]) -> Iterator[StoredObject]:
        is_of_the_folder = all(stored.key.startswith(folder) for stored in found)
        is_of_the_topic = all(stored.key.startswith("kp/orders-") for stored in found)
        for stored in found:
            if is_of_the_topic and "/1/00000000000000000030-" in stored.key and stored.key.endswith(".indexes"):
                tries.append(1)
                # The listing of the topic's folders goes well at the second time, that of the user partition never.
                if len(tries) == 1 or is_of_the_folder:
                    raise StorageUnavailableError("cut off")
            yield stored

    bucket.storage.arrange = arrange
    made, rows = bucket.catalogue()
    assert [(row.topic, row.partition, row.kind.value, row.start_offset, row.end_offset) for row in rows] == [
        ("orders", 0, "COPIED", 0, 9),
        ("orders", 1, "CANNOT_TELL", 0, None),
        ("orders", 1, "CANNOT_TELL", 30, None),
        ("payments", 0, "COPIED", 0, 9),
    ]
    [incomplete] = made.incomplete
    assert (incomplete.folder, incomplete.why) == (folder, "cut off")
    seen = incomplete.seen
    # Of the second one only the log was seen before the listing broke off: it is not called unfinished.
    assert (seen.rows, seen.objects, seen.bytes) == (2, 4, rows[1].stored_bytes + rows[2].stored_bytes)
    assert [problem.partition(":")[0] for problem in made.problems()][:1] == ["2 CANNOT_TELL"]
    assert any(problem.startswith("1 folder was not listed whole") for problem in made.problems())


def test_where_not_all_of_a_user_partition_was_seen_no_hole_is_claimed() -> None:
    bucket = Bucket(AivenLayout("now/", ["then/"]))
    bucket.copy(segment(1, 0, 9))
    bucket.copy(segment(3, 30, 39))
    assert kinds(bucket.rows()) == ["COPIED", "HOLE", "COPIED"]
    breaks(bucket.storage, "list", "then/", StorageUnavailableError("cut off"))
    made, rows = bucket.catalogue()
    assert kinds(rows) == ["COPIED", "COPIED"]
    assert [one.folder for one in made.incomplete] == ["then/"]


def test_a_manifest_that_storage_does_not_hand_out_cannot_be_told() -> None:
    bucket = Bucket()
    stem = bucket.copy(segment(1, 0, 9))
    bucket.copy(segment(2, 10, 19))
    for error in (StorageAccessError("forbidden"), StorageUnavailableError("busy")):
        breaks(bucket.storage, "get", stem, error)
        made, rows = bucket.catalogue()
        assert kinds(rows) == ["CANNOT_TELL", "COPIED"]
        assert str(error) in str(rows[0].why)
        assert [problem.partition(":")[0] for problem in made.problems()] == ["1 CANNOT_TELL"]


@pytest.mark.parametrize("error", [StorageAccessError("forbidden"), StorageUnavailableError("busy")])
@pytest.mark.parametrize("at_once", [1, 8])
def test_a_storage_that_hands_out_nothing_is_no_catalogue(error: Exception, at_once: int) -> None:
    bucket, asked = Bucket(), list[str]()
    for number in range(3 * MAX_FAILURES):
        bucket.copy(segment(number, 10 * number, 10 * number + 9))

    def fail(what: str, key: str) -> None:
        if what == "get":
            asked.append(key)
            raise error

    bucket.storage.on_effect = fail
    with pytest.raises(type(error), match=str(error)):
        bucket.rows(at_once=at_once)
    assert MAX_FAILURES <= len(asked) <= MAX_FAILURES + at_once + 1


def test_a_root_that_goes_away_is_no_catalogue() -> None:
    bucket = Bucket()
    bucket.copy(segment(1, 0, 9))

    def vanish(what: str, _: str) -> None:
        bucket.storage.root_exists = bucket.storage.root_exists and what != "get"
        if what == "get":
            raise StorageRootError("gone")

    bucket.storage.on_effect = vanish
    with pytest.raises(StorageRootError):
        bucket.rows()


def test_what_is_deleted_or_written_while_it_is_read_cannot_be_told() -> None:
    bucket = Bucket()
    first, second = bucket.copy(segment(1, 0, 9)), bucket.copy(segment(2, 10, 19))

    def change(what: str, key: str) -> None:
        if what == "get" and key.startswith(first):
            bucket.storage._objects.pop(f"{first}.rsm-manifest", None)
        if what == "get" and key.startswith(second):
            bucket.storage.put_object(f"{second}.rsm-manifest", as_bytes(manifest_of(segment(2, 10, 19))) + b" ")

    bucket.storage.on_effect = change
    rows = bucket.rows(at_once=1)
    assert kinds(rows) == ["CANNOT_TELL", "CANNOT_TELL"]
    assert "is gone" in str(rows[0].why)
    assert "was listed with" in str(rows[1].why)


def test_only_the_topics_that_are_asked_for_are_read_and_the_others_counted() -> None:
    bucket, asked = Bucket(), list[str]()
    bucket.copy(segment(1, 0, 9))
    bucket.copy(segment(2, 0, 9, of=partition(topic="payments", topic_id=8)))
    bucket.storage.put_object("kp/readme.txt", b"xx")
    bucket.storage.on_effect = lambda what, key: asked.append(key) if what == "get" else None
    for topic in ("orders", kafka_uuid_str(UUID(int=7))):
        made, rows = bucket.catalogue(topics=[topic])
        assert [(row.topic, row.kind) for row in rows] == [("orders", RowKind.COPIED)]
        assert (made.left_out.objects, made.listed.objects, made.not_found) == (4, 7, ())
    assert all("/orders-" in key for key in asked)
    made, rows = bucket.catalogue(topics=["order"])
    assert (rows, made.not_found) == ([], ("order",))
    assert list(made.problems()) == ["nothing was seen of ['order']: look whether name or id is right"]


def test_a_name_that_two_topics_had_is_told_with_both_ids() -> None:
    bucket = Bucket()
    bucket.copy(segment(1, 0, 9))
    bucket.copy(segment(2, 0, 9, of=partition(topic_id=8)))
    made, rows = bucket.catalogue()
    assert kinds(rows) == ["COPIED", "COPIED"]
    assert made.several_ids == ("orders",)
    assert [(t.topic, t.topic_id, t.whole.rows) for t in made.topics] == [
        ("orders", kafka_uuid_str(UUID(int=n)), 1) for n in (7, 8)
    ]


def test_the_manifest_tells_the_topic_where_a_prefix_reads_as_its_beginning() -> None:
    bucket = Bucket(AivenLayout("", ["flat"]))
    bucket.copy(segment(1, 0, 9), place=1)
    bucket.copy(segment(2, 10, 19, of=partition(topic="flatorders")))
    bucket.copy(segment(3, 20, 29), place=1, without=[".log"])
    rows = bucket.rows()
    assert [(row.kind, row.topic, row.place) for row in rows] == [
        (RowKind.COPIED, "orders", "flat"),
        (RowKind.COPIED, "flatorders", "/"),
        (RowKind.UNFINISHED, None, None),
    ]


def test_a_storage_without_any_segment_needs_a_person() -> None:
    made, rows = Bucket().catalogue()
    assert rows == []
    [problem] = made.problems()
    assert problem.startswith("no object of any segment was seen")


def test_it_says_that_it_says_what_was_copied() -> None:
    made, _ = Bucket().catalogue()
    assert any("never what is alive" in sentence for sentence in made.says)
    assert any("by their topic ids only" in sentence for sentence in made.says)
