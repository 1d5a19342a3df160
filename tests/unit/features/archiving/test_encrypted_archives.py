# SPDX-License-Identifier: Apache-2.0
"""Encrypted segments in archives: refused, or their objects kept as they are, deleted, and put back byte by byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.plans.plan_archive import PlanArchive
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.features.archiving.archive.manifests import read_manifest
from airflow_provider_rlmm.features.archiving.archive.reading import open_topic
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchiveManifest
from airflow_provider_rlmm.features.archiving.restore_archive import _require_readable
from tests.archiving import ArchivingCluster, Run
from tests.builders import CLUSTER_ID, tip

GONE = tip()


@pytest.fixture
def cluster() -> ArchivingCluster:
    """A deleted topic with three encrypted segments, marked a day ago."""
    cluster = ArchivingCluster(layout=AivenLayout("tiered/"))
    for number in range(3):
        cluster.encrypted_segment(GONE, number)
    cluster.mark_and_wait()
    return cluster


@pytest.fixture
def run(cluster: ArchivingCluster, tmp_path: Path) -> Run:
    run = Run(cluster, tmp_path)
    run.encrypted_as_is = True
    return run


def test_an_encrypted_topic_is_refused_unless_its_objects_may_be_kept_as_they_are(run: Run) -> None:
    run.encrypted_as_is = False
    (refusal,) = run.archive().refused.values()
    assert "its key is with the brokers" in refusal.why
    assert "archive_encrypted = as_is" in refusal.why


def test_objects_are_kept_as_they_are_deleted_and_put_back(cluster: ArchivingCluster, run: Run) -> None:
    before = {key: cluster.storage._objects[key][0] for key in cluster.keys_of(GONE)}
    assert len(before) == 9
    archive = run.archive()
    assert PlanArchive.from_json(archive.to_json()) == archive
    assert archive.counts() | {"bytes": 0} == {
        "partitions": 1, "segments": 3, "not_whole": 0, "as_is": 3, "records": 0, "bytes": 0, "refused_topics": 0,
    }  # fmt: skip
    assert [told["as_is"] for told in archive.to_report()["partitions"]] == [3]
    report = run.clean(archive)
    assert [(p.outcome.value, p.segments_deleted) for p in report.partitions] == [("FINISHED", 3)]
    assert cluster.keys_of(GONE) == set()
    (found,) = archive.partitions
    manifest = read_manifest(found.folder, found.manifest, found.manifest_sha256)
    put_back = {
        segment.keys[suffix]: (Path(found.folder) / file.name).read_bytes()
        for segment in manifest.segments
        for suffix, file in segment.files.items()
    }
    assert put_back == before
    (log,) = open_topic(run.archive_uri, CLUSTER_ID, kafka_uuid_str(GONE.topic_id)).logs
    log.verify()


def test_a_restore_says_why_it_cannot_and_where_the_objects_belong(cluster: ArchivingCluster, run: Run) -> None:
    run.archive()
    archived = open_topic(run.archive_uri, CLUSTER_ID, kafka_uuid_str(GONE.topic_id))
    assert not archived.missing
    with pytest.raises(
        ArchiveError, match=r"3 archived segments are encrypted.*put each file back.*tiered/"
    ) as refused:
        _require_readable(archived.logs)
    assert any(key in str(refused.value) for key in cluster.keys_of(GONE))


@pytest.mark.parametrize("suffix", [".log", ".indexes"])
def test_an_encrypted_copy_that_lacks_an_object_keeps_its_topic(
    cluster: ArchivingCluster, run: Run, suffix: str
) -> None:
    (key, *_) = sorted(key for key in cluster.keys_of(GONE) if key.endswith(suffix))
    del cluster.storage._objects[key]
    (refusal,) = run.archive().refused.values()
    assert f"lacks {suffix} in storage" in refusal.why
    assert refusal.kind is RefusalKind.ARCHIVE


def test_what_an_interrupted_run_has_left_of_one_is_kept_and_goes(cluster: ArchivingCluster, tmp_path: Path) -> None:
    half = cluster.encrypted_segment(tip("half", 0, 9), 5, S.DELETE_SEGMENT_STARTED)
    del cluster.storage._objects[f"{cluster.layout.segment_stem(half)}.log"]
    cluster.mark_and_wait()
    run = Run(cluster, tmp_path)
    run.encrypted_as_is = True
    archive = run.archive()
    (found,) = [one for one in archive.partitions if one.topic == "half"]
    assert (found.as_is, found.not_whole) == (1, 1)
    outcomes = {p.topic: p.outcome.value for p in run.clean(archive).partitions}
    assert outcomes["half"] == "FINISHED"


def test_an_object_that_was_changed_in_the_archive_stops_the_deletion(cluster: ArchivingCluster, run: Run) -> None:
    archive = run.archive()
    (found,) = archive.partitions
    (first, *_) = sorted((Path(found.folder) / "segments").glob("*.as-is.log"))
    first.write_bytes(first.read_bytes()[:-1])
    (refused,) = run.clean(archive).partitions
    assert refused.segments_deleted == 0
    assert len(cluster.keys_of(GONE)) == 9


def test_manifests_of_before_have_no_keys_and_keys_need_their_files(cluster: ArchivingCluster, run: Run) -> None:
    (found,) = run.archive().partitions
    manifest = read_manifest(found.folder, found.manifest)
    (first, *others) = manifest.segments
    document = plain_of(replace(manifest, segments=(replace(first, keys=None), *others)))
    del document["segments"][0]["keys"]
    read = ArchiveManifest.from_json(json.dumps(strict_json.sealed(document, 1)))
    assert (read.segments[0].keys, read.segments[0].is_kept) == (None, False)
    for wrong in (replace(first, keys={".log": "tiered/x.log"}), replace(first, whole=True)):
        with pytest.raises(ArchiveError, match=r"other files than keys|called whole and has no log"):
            ArchiveManifest.from_json(
                json.dumps(strict_json.sealed(plain_of(replace(manifest, segments=(wrong, *others))), 1))
            )
