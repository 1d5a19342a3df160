# SPDX-License-Identifier: Apache-2.0
"""Brokers adopt the copies that we made of a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev import tiering
from tests.integration.copying.adopting import (
    await_all_remote,
    check_a_broker_goes_on_from_our_copies,
    check_adopted,
    enable_copying,
    read_everything,
)
from tests.integration.copying.copies import check_copies, check_hard
from tests.integration.copying.followers import FIRST, SECOND, replicated_topic, two_brokers
from tests.integration.copying.our_copier import OurCopier
from tests.integration.copying.world import make_world
from tests.integration.copying.writing import TIMEOUT_S

pytestmark = [pytest.mark.integration, pytest.mark.copying]

TOPIC = "uncopied"


def test_a_broker_goes_on_from_our_copies_of_its_own_disk(tmp_path: Path) -> None:
    check_a_broker_goes_on_from_our_copies(tmp_path)


def test_brokers_go_on_from_our_copies_of_a_stopped_brokers_disk() -> None:
    with two_brokers() as cluster:
        first, second = cluster.nodes
        cluster.create_tiered_topic("living", [[FIRST]])
        tiering.produce_until_remote(first, "living", 1)
        replicated_topic(cluster, TOPIC, SECOND)

        def next_epoch() -> None:
            second.restart()
            cluster.await_leader(TOPIC, 0, SECOND)

        world = make_world(second, TOPIC, next_epoch, cluster.bootstrap_servers)
        second.stop()
        cluster.await_leads(TOPIC, 0, FIRST)
        before = read_everything(first, TOPIC)

        report = OurCopier.of(first).copy(second.log_dir, world.tip)

        assert report.stopped_by is None
        ours = check_copies(first, world.tip)
        check_hard(ours, before)
        enable_copying(first, TOPIC)
        world.open_transaction.commit_transaction(TIMEOUT_S)
        world.writer.write(90)
        await_all_remote(first, world.tip)
        after = read_everything(first, TOPIC)
        assert after["read_uncommitted"][: len(before["read_uncommitted"])] == before["read_uncommitted"]
        # It is behind what the leader has left, so it begins its log anew from our objects.
        second.start()
        cluster.await_leader(TOPIC, 0, SECOND)
        await_all_remote(second, world.tip)
        assert read_everything(second, TOPIC) == after
        check_adopted(first, world.tip, ours)
        tiering.tiering_alive(first, "living")
