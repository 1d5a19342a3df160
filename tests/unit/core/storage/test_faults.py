# SPDX-License-Identifier: Apache-2.0
"""
What S3 and its configuration do wrong, through the real cleaner against moto's S3; docs/storage.md has a table of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import HiddenCopiesError, StorageAccessError, StorageRootError
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.pace import MOST_IN_A_ROW
from tests.builders import Cluster, add, on_nth_publish, reasons, tip
from tests.moto_s3 import SLOW_DOWN, Answer, MotoS3, Request, running_moto_s3
from tests.unit.core.storage.bucket_cluster import BucketCluster

pytestmark = pytest.mark.slow

GONE = tip()
DENIED = Answer.error(403, "AccessDenied")


@pytest.fixture(scope="module")
def server() -> Iterator[MotoS3]:
    with running_moto_s3() as server:
        yield server


@pytest.fixture
def s3(server: MotoS3) -> MotoS3:
    server.heal()
    return server


def marked(cluster: BucketCluster, segments: int = 6) -> BucketCluster:
    """Give it a deleted topic that may be cleaned now."""
    cluster.segments(GONE, segments)
    cluster.mark_and_wait()
    cluster.s3.requests.clear()
    return cluster


@pytest.fixture
def cluster(s3: MotoS3) -> BucketCluster:
    return marked(BucketCluster(s3))


def finished(cluster: Cluster) -> int:
    return cluster.states().count("DELETE_SEGMENT_FINISHED")


def kinds(report: Any) -> set[RefusalKind]:
    return {refusal.kind for partition in report.partitions for refusal in partition.refusals}


def always(answer: Answer, which: Callable[[Request], bool]) -> Callable[[Request], Answer | None]:
    return lambda request: answer if which(request) else None


def cleans_to_the_end(cluster: BucketCluster) -> None:
    """The next run, with a healthy store, leaves nothing of the deleted topic and all of the living one."""
    cluster.s3.heal()
    report = cluster.clean()
    assert [p.outcome for p in report.partitions] == ["FINISHED"], reasons(report)
    assert cluster.keys_of(GONE) == set()
    assert len(cluster.keys_of(cluster.alive)) == 3


def test_objects_that_a_bulk_deletion_refuses_stay_for_their_own_reason(cluster: BucketCluster) -> None:
    keys = sorted(cluster.keys_of(GONE))
    refused = {keys[0]: "AccessDenied", keys[7]: "InvalidObjectState"}
    cluster.s3.refuse_keys = dict(refused)
    report = cluster.clean()
    assert cluster.keys_of(GONE) == set(refused)
    for key, code in refused.items():
        [line] = [line for line in reasons(report).splitlines() if f"said by the test of {key}" in line]
        assert f"(code: {code})" in line
    assert RefusalKind.STORAGE in kinds(report)
    assert finished(cluster) == 4
    assert cluster.s3.count(lambda r: r.method == "POST") == 3, "one in bulk, one for each that is left"
    cleans_to_the_end(cluster)


def test_a_storm_of_slow_down_ends_the_run_and_loses_nothing(cluster: BucketCluster) -> None:
    before = cluster.keys_of(GONE)
    cluster.s3.refuse_keys = dict.fromkeys(before, "SlowDown")
    report = cluster.clean(batch_segments=2)
    assert cluster.keys_of(GONE) == before
    assert kinds(report) == {RefusalKind.NEXT_RUN}, reasons(report)
    assert "throttle" in reasons(report)
    of_obstore = 4
    assert cluster.s3.count(lambda r: r.is_delete) == MOST_IN_A_ROW * of_obstore, "later batches are not tried"
    assert (finished(cluster), cluster.states().count("DELETE_SEGMENT_STARTED")) == (0, 2)
    cleans_to_the_end(cluster)


def test_an_object_that_the_store_never_manages_to_delete_needs_a_person(cluster: BucketCluster) -> None:
    """As an internal error that lasts: S3 says so of one object, and obstore shows all of the answer."""
    stuck = sorted(cluster.keys_of(GONE))[4]
    cluster.s3.refuse_keys = {stuck: "InternalError"}
    report = cluster.clean()
    assert cluster.keys_of(GONE) == {stuck}
    assert RefusalKind.STORAGE in kinds(report)
    assert finished(cluster) == 5
    cleans_to_the_end(cluster)


def test_a_store_that_slows_down_for_a_while_is_waited_for(cluster: BucketCluster) -> None:
    throttled = iter(range(4))
    cluster.s3.fault = lambda r: SLOW_DOWN if r.is_delete and next(throttled, None) is not None else None
    report = cluster.clean()
    assert [p.outcome for p in report.partitions] == ["FINISHED"], reasons(report)
    assert next(throttled, None) is None


def test_a_principal_that_may_list_and_not_delete_leaves_all_and_needs_a_person(cluster: BucketCluster) -> None:
    before = cluster.keys_of(GONE)
    cluster.s3.fault = always(DENIED, lambda r: r.is_delete)
    report = cluster.clean()
    assert cluster.keys_of(GONE) == before
    assert RefusalKind.STORAGE in kinds(report)
    assert finished(cluster) == 0
    cleans_to_the_end(cluster)


def test_a_listing_that_is_denied_at_its_second_page_deletes_nothing(cluster: BucketCluster) -> None:
    before = cluster.keys_of(GONE)
    cluster.s3.page_size = 4
    cluster.s3.fault = always(DENIED, lambda r: "continuation-token" in r.query)
    with pytest.raises(StorageAccessError):
        cluster.storage.delete_log_segments([m for h in cluster.replay().histories.values() for m in h.unfinished()])
    report = cluster.clean()
    deletions = cluster.s3.count(lambda r: r.is_delete)
    cluster.s3.fault = None
    assert cluster.keys_of(GONE) == before
    assert kinds(report) == {RefusalKind.STORAGE}
    assert (deletions, finished(cluster)) == (0, 0)
    cleans_to_the_end(cluster)


def test_a_listing_that_is_denied_after_the_deletion_finishes_nothing(cluster: BucketCluster) -> None:
    requests = cluster.s3.requests
    cluster.s3.fault = always(DENIED, lambda r: r.is_listing and any(other.is_delete for other in requests))
    report = cluster.clean()
    cluster.s3.fault = None
    assert cluster.keys_of(GONE) == set()
    assert finished(cluster) == 0
    assert "not confirmed by a listing" in reasons(report)
    cleans_to_the_end(cluster)


def versioned(s3: MotoS3, status: str, rules: list[dict[str, Any]] | None = None) -> str:
    bucket = s3.bucket()
    s3.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
    if rules is not None:
        s3.client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    return bucket


EXPIRY = {
    "ID": "versions",
    "Status": "Enabled",
    "Filter": {"Prefix": "kp/"},
    "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
}


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
def test_a_bucket_that_keeps_versions_for_good_is_refused_without_the_override(s3: MotoS3, status: str) -> None:
    cluster = marked(BucketCluster(s3, versioned(s3, status), inspected=True))
    before = cluster.keys_of(GONE)
    with pytest.raises(HiddenCopiesError, match=rf"versioning of .* is {status.lower()}.*NoncurrentVersionExpiration"):
        cluster.clean()
    assert (cluster.keys_of(GONE), cluster.ours()[1:]) == (before, [])
    cluster.clean(overrides=frozenset({"versioned_bucket"}))
    assert cluster.keys_of(GONE) == set()


def test_the_rule_that_expires_versions_lets_the_run_go_on(s3: MotoS3) -> None:
    cluster = marked(BucketCluster(s3, versioned(s3, "Enabled", [EXPIRY]), inspected=True))
    cluster.clean()
    assert cluster.keys_of(GONE) == set()
    assert cluster.storage.deletion_effect().sentence.startswith("deleted objects are hidden, freed in 7 days: ")


def test_where_the_settings_may_not_be_read_the_objects_tell_of_versions(s3: MotoS3) -> None:
    cluster = marked(BucketCluster(s3, versioned(s3, "Enabled"), inspected=True))
    cluster.s3.fault = always(DENIED, lambda r: not {"versioning", "lifecycle", "object-lock"}.isdisjoint(r.query))
    with pytest.raises(HiddenCopiesError, match="has a version id, so the bucket keeps versions"):
        cluster.clean()


def test_versions_that_only_the_deleted_topic_has_refuse_its_partitions(s3: MotoS3) -> None:
    cluster = BucketCluster(s3)
    s3.client().put_bucket_versioning(Bucket=cluster.bucket, VersioningConfiguration={"Status": "Enabled"})
    marked(cluster)
    report = cluster.clean()
    assert "have a version id" in reasons(report)
    assert kinds(report) == {RefusalKind.STORAGE}
    assert (len(cluster.keys_of(GONE)), finished(cluster)) == (18, 0)
    cluster.clean(overrides=frozenset({"versioned_bucket"}))
    assert (cluster.keys_of(GONE), cluster.storage.versions) == (set(), 3 + 18 + 1), "hidden, not freed"  # type: ignore[attr-defined]


def test_a_locked_bucket_is_one_that_keeps_versions(s3: MotoS3) -> None:
    bucket = s3.bucket(ObjectLockEnabledForBucket=True)
    s3.client().put_object_lock_configuration(
        Bucket=bucket,
        ObjectLockConfiguration={
            "ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 30}},
        },
    )
    cluster = marked(BucketCluster(s3, bucket, inspected=True))
    with pytest.raises(HiddenCopiesError, match="object lock keeps each version for 30 days"):
        cluster.clean()
    s3.client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [EXPIRY]})
    cluster.opens(cluster.layout, inspected=True)
    assert cluster.storage.deletion_effect().days == 30, "no rule expires what is locked"


def test_a_former_prefix_that_is_configured_as_the_only_one_is_refused(cluster: BucketCluster) -> None:
    """It holds an object of this cluster, which retention has left behind, and nothing that was copied since."""
    cluster.opens(AivenLayout("then/"))
    for key in cluster.layout.required_keys(add(cluster.alive, 7)):
        cluster.storage.put_object(key, b"x")
    before = cluster.storage.keys
    with pytest.raises(StorageRootError, match="of the newest copied segments of 1 living topic 1 is not at then"):
        cluster.clean()
    assert (cluster.storage.keys, finished(cluster)) == (before, 0)


def test_a_mistyped_prefix_is_refused_although_its_stamp_is_known(cluster: BucketCluster) -> None:
    cluster.opens(AivenLayout("kq/"))
    place, [key, *_] = cluster.layout.places[0], cluster.layout.required_keys(add(cluster.alive, 7))
    cluster.storage.put_object(key, b"x")
    [stamp] = cluster.storage.stamp_root(cluster.check_root())
    cluster.delete_objects(key)
    cluster.recorded_roots |= {str(stamp.root_id)}
    assert cluster.check_root().verified_places == {place.name}
    with pytest.raises(StorageRootError, match="is not at kq"):
        cluster.clean()
    assert finished(cluster) == 0


def test_objects_of_another_cluster_below_the_same_prefix_prove_nothing_and_stay(cluster: BucketCluster) -> None:
    theirs = tip("gone", 0, 900)
    for prefix in ("kp/", "theirs/"):
        for key in AivenLayout(prefix).required_keys(add(theirs, 0)):
            cluster.storage.put_object(key, b"theirs")
    cleans_to_the_end(cluster)
    assert len(cluster.keys_of(theirs)) == 3
    cluster.opens(AivenLayout("theirs/"))
    assert not cluster.check_root().verified


def test_an_object_that_lands_while_the_others_are_deleted_keeps_its_segment(cluster: BucketCluster) -> None:
    late = sorted(cluster.keys_of(GONE))[1]
    cluster.delete_objects(late)

    def land(request: Request) -> None:
        if request.is_delete and late not in cluster.storage.keys:
            cluster.s3.fault = None
            cluster.storage.put_object(late, b"an upload in flight")

    cluster.s3.fault = land
    report = cluster.clean()
    assert cluster.keys_of(GONE) == {late}
    assert "it appeared after the deletion had begun" in reasons(report)
    assert finished(cluster) == 5
    cleans_to_the_end(cluster)


def test_copies_below_a_former_prefix_are_found_and_deleted(s3: MotoS3) -> None:
    cluster = BucketCluster(s3, layout=AivenLayout("now/", ["then", ""]))
    metadatas = [cluster.segment(GONE, number, objects=False) for number in range(6)]
    for number, metadata in enumerate(metadatas):
        for key in cluster.layout.required_keys(metadata, cluster.layout.places[number % 3]):
            cluster.storage.put_object(key, b"x")
    cluster.mark_and_wait()
    report = cluster.clean()
    assert [p.outcome for p in report.partitions] == ["FINISHED"], reasons(report)
    assert {key for key in cluster.storage.keys if "gone" in key} == set()


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("state", [S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED])
@pytest.mark.parametrize("nth", [1, 4])
def test_a_run_that_is_killed_in_mid_batch_is_gone_on_with(cluster: BucketCluster, state: S, nth: int) -> None:
    def kill() -> None:
        cluster.log.on_effect = lambda effect, detail: None
        raise Killed

    cluster.log.on_effect = on_nth_publish(state, kill, nth)
    with pytest.raises(Killed):
        cluster.clean(batch_segments=3)
    cleans_to_the_end(cluster)
