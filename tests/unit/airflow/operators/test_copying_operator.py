# SPDX-License-Identifier: Apache-2.0
"""Copying a disk of a broker by operator and by command, over the in-process log, a leader and a store in memory."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.base.errors import (
    CopyRefusedError,
    EventLogUnavailableError,
    LogDirectoryError,
    StorageRootError,
)
from airflow_provider_rlmm.core.log.answers import CopyConfigs
from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
)
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.world.current_root import NOTHING_RECORDED
from airflow_provider_rlmm.observability import stats
from airflow_provider_rlmm.operators.copying import CopyLogSegmentsOperator
from tests.log_directories import CLUSTER_ID
from tests.tiered_orders import START_MS
from tests.unit.airflow.operators.test_operators import connect
from tests.unit.features.copying.decommissioned import LIVING, ROOT, Decommissioned, files


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Decommissioned:
    fake = Decommissioned(tmp_path)

    def proven(self: Any, log: Any, **_: Any) -> ProvenClock:
        return ProvenClock(lambda: TimeProof(START_MS + 3_600_000, system_clock(), "a test", proven=True))

    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    connect(monkeypatch, allow_copy=True, expected_cluster_id=CLUSTER_ID, expected_root=ROOT)
    monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", "b:9092")
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    monkeypatch.setenv("RLMM_EXPECTED_ROOT", ROOT)
    # Both ways to make them, by a connection and by the command, share these methods.
    monkeypatch.setattr(RemoteLogAccess, "get_proven_clock", proven)
    monkeypatch.setattr(RemoteLogAccess, "check_cluster", lambda self, *_: CLUSTER_ID)
    for kind, name, value in (
        (RemoteLogAccess, "get_event_log", nullcontext(fake.log)),
        (RemoteLogAccess, "get_cluster_topics", fake.topics),
        (StorageAccess, "get_storage_manager", fake.storage),
    ):
        monkeypatch.setattr(kind, name, lambda self, value=value: value)
    monkeypatch.setattr(RemoteLogAccess, "open_leader", lambda self, cluster_id: nullcontext(fake.leader))
    return fake


PUSHED: dict[str, Any] = {}


def context() -> Any:
    PUSHED.clear()
    push = PUSHED.__setitem__
    return {
        "ti": SimpleNamespace(xcom_push=lambda key, value: push(key, value)),
        "dag_run": SimpleNamespace(dag_id="dag", run_id="run", start_date=None),
    }


def copy(world: Decommissioned, **arguments: Any) -> dict[str, Any]:
    operator = CopyLogSegmentsOperator(
        task_id="copy", **{"log_dir": str(world.log_dir), "topic": "living", "dry_run_only": False, **arguments}
    )
    return operator.execute(context())


def test_an_operator_tells_what_it_has_copied_and_leaves_the_same_document(
    world: Decommissioned, tmp_path: Path
) -> None:
    told = copy(world)
    assert (told["segments"], told["dry_run"]) == (6, False)
    assert world.copied(0) == world.copied(1) == list(range(90))
    document = json.loads((tmp_path / "work" / "dag.run" / "copy.json").read_text())
    assert document == {"cluster_id": CLUSTER_ID, **told}


def test_an_operator_gives_the_step_its_arguments(world: Decommissioned) -> None:
    assert copy(world, partitions=[0], limits={"max_segments": "1", "bytes_per_second": 10**9})["segments"] == 1
    with pytest.raises(LogDirectoryError, match="no snapshot can be made in /nowhere"):
        copy(world, snapshot_in="/nowhere")


@pytest.mark.parametrize("wrong", ["an old copy", "a copy that may be current"])
def test_a_dry_run_says_first_that_the_storage_would_be_refused(
    world: Decommissioned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    why = "nothing is copied there; check storage URI, layout and mount"
    if wrong == "an old copy":
        world.lose("orders")
    else:
        ledger = property(lambda session: NOTHING_RECORDED)
        monkeypatch.setattr("airflow_provider_rlmm.core.runs.cleaner_session.CleanerSession.root_ledger", ledger)
        connect(monkeypatch, allow_copy=True, expected_cluster_id=CLUSTER_ID, expected_root=None)
        monkeypatch.delenv("RLMM_EXPECTED_ROOT")
        why = "nothing is copied: no broker has copied a segment of a living topic"
    events = world.events
    with pytest.raises(AirflowFailException, match="2 partitions need a person, such as: a real run would be refused"):
        copy(world, dry_run_only=True)
    assert {p["needs_person"] for p in PUSHED["return_value"]["partitions"]} == {True}
    assert all(why in p["stopped_by"] for p in PUSHED["return_value"]["partitions"])
    assert run(["copy", str(world.log_dir), "living", "--json"]) == 4
    assert why in capsys.readouterr().out
    with pytest.raises(StorageRootError, match=why):
        copy(world)
    assert world.events == events


def test_a_layout_that_cannot_be_copied_into_is_refused_by_the_first_look(
    world: Decommissioned, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = InMemoryRemoteStorageManager(AivenLayout())
    monkeypatch.setattr(StorageAccess, "get_storage_manager", lambda self: packed)
    before, events = files(tmp_path / "kafka"), world.events
    for dry_run in (True, False):
        with pytest.raises(CopyRefusedError, match="nothing can be copied into the storage layout aiven"):
            copy(world, dry_run_only=dry_run, log_dir="/nowhere/yet")
    for more in ([], ["--execute", "--cluster-id", CLUSTER_ID]):
        assert run(["copy", str(world.log_dir), "living", *more]) == 1
        assert "nothing can be copied into the storage layout aiven" in capsys.readouterr().err
    assert (world.events, packed.keys, files(tmp_path / "kafka")) == (events, frozenset(), before)


def test_a_damaged_partition_needs_a_person_after_the_healthy_one_is_done(
    world: Decommissioned, tmp_path: Path
) -> None:
    world.damage("living-0/00000000000000000030.log")
    with pytest.raises(
        AirflowFailException, match=r"^1 partition needs a person, such as: .*00000000000000000030\.log"
    ):
        copy(world)
    assert (world.copied(0), world.copied(1)) == (list(range(30)), list(range(90)))
    told = json.loads((tmp_path / "work" / "dag.run" / "copy.json").read_text())
    assert [p["needs_person"] for p in told["partitions"]] == [True, False]
    assert not list(world.log_dir.parent.glob(".rlmm-*"))


EXPIRING = CopyConfigs(True, True, frozenset({"delete"}), 2 * 3_600_000 - 40_000, -1)
"""With these the first segment of each partition expires within the margin, and no other."""


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_left_to_expire_needs_a_person_and_everybody_tells_the_same(
    world: Decommissioned, tmp_path: Path, capsys: pytest.CaptureFixture[str], dry_run: bool
) -> None:
    world.lead(EXPIRING)
    said = [
        "do not enable copying, and do not raise retention.ms or retention.bytes, before the log start offset of "
        f"living-{n} is at least 30"
        for n in range(2)
    ]
    with pytest.raises(AirflowFailException, match=f"^2 partitions need a person, such as: 1 segment.*{said[0]}"):
        copy(world, dry_run_only=dry_run)
    told = PUSHED["return_value"]
    document = json.loads((tmp_path / "work" / "dag.run" / "copy.json").read_text())
    assert document == {"cluster_id": CLUSTER_ID, **told}
    assert (told["segments"], told["expiring"], [len(p["expiring"]) for p in told["partitions"]]) == (4, 2, [1, 1])
    assert all(p["needs_person"] and line in p["stopped_by"] for p, line in zip(told["partitions"], said, strict=True))
    command = ["copy", str(world.log_dir), "living", *([] if dry_run else ["--execute", "--cluster-id", CLUSTER_ID])]
    capsys.readouterr()
    assert run([*command, "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["expiring"] == 2
    assert run(command) == 4
    printed = capsys.readouterr().out
    assert all(line in printed for line in said)


def test_it_is_green_once_the_leaders_have_deleted_what_was_left_out(world: Decommissioned) -> None:
    world.lead(EXPIRING)
    with pytest.raises(AirflowFailException):
        copy(world)
    world.lead(EXPIRING, log_start=30)
    for dry_run in (True, False):
        told = copy(world, dry_run_only=dry_run)
        assert (told["segments"], told["expiring"], [p["stopped_by"] for p in told["partitions"]]) == (0, 0, [None] * 2)


def test_a_dry_run_needs_a_person_where_the_copy_would(world: Decommissioned) -> None:
    (world.log_dir / "living-0" / f"{0:020}.log").unlink()
    with pytest.raises(
        AirflowFailException, match=r"1 partition needs a person.*offsets 0\.\.29 are in the leader's log"
    ):
        copy(world, dry_run_only=True)


def test_what_a_later_try_may_do_is_tried_again(world: Decommissioned, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def before(question: str) -> None:
        asked.append(question)
        if len(asked) > 6:
            raise EventLogUnavailableError("no leader answers")

    world.leader.before = before
    with pytest.raises(
        AirflowException, match=r"1 partition is not done, a later try goes on: .*no leader answers"
    ) as e:
        copy(world, partitions=[0])
    assert not isinstance(e.value, AirflowFailException)


def test_copies_are_counted_under_kafkas_names(world: Decommissioned, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(stats, "_send", lambda metric, cluster_id, tagged: sent.append((metric, cluster_id)))
    told = copy(world)
    values = {metric.name: metric.value for metric, _ in sent}
    assert values == {
        "RemoteCopyBytesPerSec": told["bytes"],
        "RemoteCopyRequestsPerSec": 6,
        "RemoteCopyLagBytes": 0,
        "RemoteCopyLagSegments": 0,
    }
    assert {cluster_id for _, cluster_id in sent} == {CLUSTER_ID}
    assert sent[0][0].labels == {"connection": "rlmm_default", "topic": "living"}


# --- in a terminal ----------------------------------------------------------------------------------------------------


def test_the_command_copies_only_when_it_is_told_to(world: Decommissioned, capsys: pytest.CaptureFixture[str]) -> None:
    events = world.events
    assert run(["copy", str(world.log_dir), "living"]) == 0
    assert "6 segments" in capsys.readouterr().out
    assert world.events == events
    assert run(["copy", str(world.log_dir), "living", "--execute", "--cluster-id", CLUSTER_ID, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["segments"], told["dry_run"]) == (6, False)
    assert world.copied(0) == list(range(90))
    assert {
        m.broker_id for tip in LIVING for m in PartitionSegments(world.log, LIVING).list_remote_log_segments(tip)
    } == {COPIER_BROKER_ID}


def test_the_command_says_what_needs_a_person(world: Decommissioned, capsys: pytest.CaptureFixture[str]) -> None:
    world.damage("living-0/00000000000000000000.log")
    assert run(["copy", str(world.log_dir), "living", "0", "--execute", "--cluster-id", CLUSTER_ID]) == 4
    assert "00000000000000000000.log" in capsys.readouterr().out


def test_the_command_takes_over_when_the_lease_that_it_is_told_is_over(
    world: Decommissioned, capsys: pytest.CaptureFixture[str]
) -> None:
    world.announce(0, ago_ms=60_000)
    command = ["copy", str(world.log_dir), "living", "0", "--execute", "--cluster-id", CLUSTER_ID]
    assert run([*command, "--lease-ms", "90000"]) == 3
    assert "its lease ends at" in capsys.readouterr().out
    assert run(command) == 3
    assert run([*command, "--lease-ms", "60000"]) == 0
    assert world.copied(0) == list(range(90))
