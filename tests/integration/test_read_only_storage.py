# SPDX-License-Identifier: Apache-2.0
"""
The policy on ``docs/permissions.md`` is enough for the way back, and none of its rights can be left out.

An S3 server stands behind a proxy that refuses and writes down what the policy does not allow. `rlmm verify` gets its log
from this process: which rights it needs in Kafka is in ``test_permissions.py``.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.plans.catalogue_document import CATALOGUE_DOCUMENT, Catalogue
from airflow_provider_rlmm.core.plans.catalogue_rows import RowKind
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadataUpdate
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.stamps import STAMP_FOLDER
from dev.s3 import BUCKET, MotoServer, store_options
from tests.catalogued import CLUSTER, ID, NOW_MS, files_of
from tests.contracts.aiven_objects import SegmentContents
from tests.recovery import Bucket, rows_in
from tests.remote_log_world import TIP
from tests.s3_policy import ARN, Asked, PolicedS3, Policy

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text()
PREFIX = "tiered/"
SEGMENTS = 12
"""More than are read in a row where the storage forbids each of them."""

METADATA_PARTITIONS = 3
LIST, GET = "s3:ListBucket", "s3:GetObject"


def printed_policy() -> str:
    """Return the policy of the page, for the bucket of this test."""
    section = PAGE.partition("\n### Reading from a catalogue\n")[2].partition("\n## ")[0]
    (document,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    assert f"{ARN}bucket/{PREFIX}*" in document
    return str(document).replace(f"{ARN}bucket", f"{ARN}{BUCKET}")


@dataclass
class World:
    """A bucket of a lost cluster, and the metadata topic as it was."""

    s3: PolicedS3
    folder: Path
    log: InProcessMetadataEventLog = field(
        default_factory=lambda: InProcessMetadataEventLog(METADATA_PARTITIONS, clock=lambda: NOW_MS)
    )

    @property
    def storage(self) -> list[str]:
        given = [f"--store-option={name}={value}" for name, value in store_options(self.s3.endpoint).items()]
        return ["--storage", f"s3://{BUCKET}", "--layout", "aiven", "--key-prefix", PREFIX, *given]

    def recover(self, name: str, *more: str) -> tuple[int, Path]:
        output = self.folder / name
        return run(["recover", *self.storage, "--output", str(output), *more]), output

    @property
    def leave(self) -> list[str]:
        return ["--catalogue", str(self.folder / "catalogue"), "--was-not-deleted", ID]

    def jobs(self) -> dict[str, Callable[[], int]]:
        """Return what is done with reading rights alone; each may be done again."""
        archives = ["--archive", str(self.folder / "archives")]
        return {
            "recover": lambda: self.recover(f"catalogue-{len(list(self.folder.iterdir()))}")[0],
            "prove": lambda: self.recover(f"proved-{len(list(self.folder.iterdir()))}", "--prove")[0],
            "read": lambda: run(["read", ID, *self.leave, *self.storage, "--json"]),
            "archive": lambda: run(["archive", "--topic-id", ID, *self.leave, *archives, *self.storage]),
            "verify": lambda: run(["verify", *self.storage]),
        }


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicedS3]:
    """A bucket with segments of a topic, and the stamp of its cluster."""
    bucket = Bucket(AivenLayout(PREFIX))
    with MotoServer(tmp_path_factory.mktemp("s3")) as server, PolicedS3(server.port) as s3:
        for number in range(SEGMENTS):
            files = files_of(number, 30 * number)
            bucket.copy(files.metadata, contents=SegmentContents(files.log, files.indexes))
        for key in bucket.storage.keys:
            server.client.put_object(Bucket=BUCKET, Key=key, Body=bucket.storage.fetch_object(key))
        owner = ObjectStoreRemoteStorageManager(f"s3://{BUCKET}", bucket.layout, options=store_options(s3.endpoint))
        owner.stamp_root(owner.check_root(frozenset({TIP.topic_id}), CLUSTER))
        assert server.objects(STAMP_FOLDER)
        yield s3


@pytest.fixture
def world(stored: PolicedS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    def proven(self: Any, log: Any, **_: Any) -> ProvenClock:
        return ProvenClock(lambda: TimeProof(NOW_MS, system_clock(), "a test", proven=True))

    world = World(stored, tmp_path)
    for number in range(SEGMENTS):
        metadata = files_of(number, 30 * number).metadata
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        update = RemoteLogSegmentMetadataUpdate(metadata.remote_log_segment_id, NOW_MS, None, finished, 1)
        for event in (replace(metadata, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED), update):
            world.log.append(metadata_partition_for(TIP, METADATA_PARTITIONS), serialize(event))
    topics = InProcessClusterTopics({TIP.topic: TIP.topic_id}, cluster_id=CLUSTER)
    monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", "b:9092")
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    monkeypatch.setenv("RLMM_ALLOW_CATALOGUE", ID)
    monkeypatch.setattr(RemoteLogAccess, "get_proven_clock", proven)
    monkeypatch.setattr(RemoteLogAccess, "check_cluster", lambda self, *_: CLUSTER)
    monkeypatch.setattr(RemoteLogAccess, "get_event_log", lambda self: nullcontext(world.log))
    monkeypatch.setattr(RemoteLogAccess, "get_cluster_topics", lambda self: topics)
    assert world.recover("catalogue")[0] == 0
    stored.denied.clear()
    stored.granted.clear()
    yield world
    stored.allows = lambda _: True


def test_the_printed_policy_is_enough_and_nothing_else_is_asked_for(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.s3.allows = Policy(printed_policy()).allows
    for name, job in world.jobs().items():
        assert job() == 0, f"{name}: {capsys.readouterr().err}"
    assert world.s3.denied == []
    assert {asked.action for asked in world.s3.granted} == {LIST, GET}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", f"{PREFIX}x"),
        ("DELETE", f"{PREFIX}x"),
        ("POST", f"{PREFIX}x?uploads"),
        ("POST", "?delete"),
        ("GET", "elsewhere/x"),
        ("HEAD", "elsewhere/x"),
        ("GET", "?versioning"),
    ],
)
def test_the_printed_policy_allows_nothing_else(stored: PolicedS3, method: str, path: str) -> None:
    """And the proxy does refuse what a policy does not allow."""
    stored.allows = Policy(printed_policy()).allows
    connection = http.client.HTTPConnection("127.0.0.1", stored.server_port)
    try:
        connection.request(method, f"/{BUCKET}/{path}")
        assert connection.getresponse().status == 403
    finally:
        connection.close()
        stored.allows = lambda _: True


RIGHTS: dict[str, tuple[Callable[[Asked], bool], str]] = {
    "listing": (lambda asked: asked.action == LIST, LIST),
    "stamps": (lambda asked: asked.action == GET and STAMP_FOLDER in asked.resource, GET),
    "segments": (lambda asked: asked.action == GET and f"/{PREFIX}" in asked.resource, GET),
}
"""Part of the policy → what it allows, and the right that a refusal names."""


@pytest.mark.rare
@pytest.mark.parametrize("missing", RIGHTS)
@pytest.mark.parametrize("name", ["recover", "prove", "read", "archive", "verify"])
def test_without_any_one_right_the_refusal_names_it(
    world: World,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    name: str,
    missing: str,
) -> None:
    is_taken, right = RIGHTS[missing]
    policy = Policy(printed_policy())
    world.s3.allows = lambda asked: policy.allows(asked) and not is_taken(asked)
    capsys.readouterr()
    code = world.jobs()[name]()
    printed = capsys.readouterr()
    if (name, missing) in NOT_NEEDED:
        assert (code, world.s3.denied) == (0, [])
        return
    assert world.s3.denied
    assert right in printed.err + printed.out + caplog.text
    assert code in ((0,) if (name, missing) in GOES_ON else (1, 3, 4))
    assert not list(world.folder.glob(f"catalogue-*/{CATALOGUE_DOCUMENT}"))


NOT_NEEDED = {("read", "stamps"), ("archive", "stamps")}
"""The catalogue says of which cluster the segments are."""

GOES_ON = {("verify", "stamps")}
"""It says that nothing is compared with the metadata topic of other runs, and looks at the segments all the same."""


@pytest.mark.parametrize("folder", [PREFIX, f"{PREFIX}{TIP.topic}-{ID}/"])
def test_a_listing_that_is_denied_is_never_an_empty_catalogue(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    """Stamps may be listed, and a folder may not, as by a condition on ``s3:prefix``."""
    passed_on = PolicedS3.denies

    def denies(self: PolicedS3, method: str, path: str, status: int | None) -> bool:
        listed = re.search(r"[?&]prefix=([^&]*)", path)
        if status is None and listed is not None and listed[1].replace("%2F", "/").startswith(folder):
            self.denied.append(Asked(LIST, folder))
            return True
        return passed_on(self, method, path, status)

    monkeypatch.setattr(PolicedS3, "denies", denies)
    code, output = world.recover("denied")
    printed = capsys.readouterr().out
    assert world.s3.denied
    assert code == 4
    assert printed.startswith("needs a person: ")
    assert LIST in printed
    made = Catalogue.from_json((output / CATALOGUE_DOCUMENT).read_text())
    assert [one.folder.startswith(folder) for one in made.incomplete] == [True]
    assert not any(row.kind is RowKind.HOLE or row.kind.is_whole for row in rows_in(str(output)))
    assert json.loads((output / CATALOGUE_DOCUMENT).read_text())["kinds"]
