# SPDX-License-Identifier: Apache-2.0
"""The commands below a root that nothing shows to be the one that brokers write to now."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_rlmm.cli.main import run
from tests.builders import HOUR_MS, Cluster
from tests.unit.cli.test_lost_log import CLEAN, GONE, SCRUB, WRITES, cluster, said  # noqa: F401  # cluster is a fixture

HERE = "memory://kafka-tiered-storage"
NAMED = ("--expected-root", HERE)
NOBODY_COPIED = "no broker has copied a segment of a living topic to kafka-tiered-storage"
NAME_IT = f"set expected_root = {HERE} in the configuration"
AT_ONCE = ("--override", "short_min_absence", "--min-absence-ms", "0")


def needs_person(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """Run the cleaner, and return what its report calls red."""
    run([*arguments, "--json"])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["needs_person"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("named", [(), NAMED])
def test_the_first_run_waits_for_a_copy_or_is_told_the_root(
    cluster: Cluster,  # noqa: F811
    named: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number in range(12, 15):
        cluster.segment(GONE, number)
    keys = set(cluster.storage.keys)
    for command in (CLEAN, SCRUB):
        for _ in range(2):
            code, text = said(capsys, *command, *WRITES)
            assert code == 1
            assert f"nothing is deleted: {NOBODY_COPIED}" in text
            assert NAME_IT in text
            cluster.now_ms += 30 * HOUR_MS
    assert (set(cluster.storage.keys), cluster.ours()) == (keys, [])
    if not named:
        cluster.segment(cluster.alive, 20)
    keys |= set(cluster.storage.keys)
    gone = {key for key in keys if "gone-0-" in key}
    assert said(capsys, *CLEAN, *WRITES, *named)[0] == 0
    assert set(cluster.storage.keys) >= keys
    cluster.now_ms += 30 * HOUR_MS
    code, text = said(capsys, *CLEAN, *WRITES, *named)
    assert code == 0, text
    assert keys - set(cluster.storage.keys) == gone


@pytest.mark.slow
@pytest.mark.parametrize("command", [CLEAN, ("plan", *CLEAN[1:]), SCRUB])
def test_a_dry_run_and_a_plan_say_first_what_the_real_run_would_be_refused_for(
    cluster: Cluster,  # noqa: F811
    command: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster.segment(GONE, 12)
    for _ in range(2):
        code, text = said(capsys, *command)
        assert code == 4
        assert f"a real run would be refused: {NOBODY_COPIED}" in text
        assert NAME_IT in text
    assert said(capsys, *command, *NAMED)[0] == 0
    cluster.segment(cluster.alive, 20)
    assert said(capsys, *command)[0] == 0
    assert cluster.ours() == []


def test_the_report_of_a_dry_run_names_it_among_what_needs_a_person(
    cluster: Cluster,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, *others = needs_person(capsys, *CLEAN)
    assert (first["kind"], first["what"], others) == ("STORAGE", "the storage root", [])
    assert first["acknowledge_with"] is None, "a word for it would let no real run go on"
    # A document speaks of the connection: the pages show it, too.
    assert NAME_IT.replace("configuration", "rlmm connection") in first["what_to_do"]
    assert needs_person(capsys, *CLEAN, *NAMED) == []


@pytest.mark.slow
def test_who_takes_the_wait_away_names_the_root_whatever_was_copied_since(
    cluster: Cluster,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster.segment(GONE, 12)
    assert said(capsys, *CLEAN)[0] == 4
    cluster.segment(cluster.alive, 20)
    assert said(capsys, *CLEAN)[0] == 0
    keys = set(cluster.storage.keys)
    why = "the override 'short_min_absence' takes the wait away, and no person has named the storage root"
    code, text = said(capsys, *CLEAN, *AT_ONCE)
    assert (code, f"a real run would be refused: {why}" in text) == (4, True)
    for command in (CLEAN, SCRUB):
        code, text = said(capsys, *command, *AT_ONCE, *WRITES)
        assert (code, f"nothing is deleted: {why}" in text, NAME_IT in text) == (1, True, True)
    assert (set(cluster.storage.keys), cluster.ours()) == (keys, [])
    for _ in range(2):
        assert said(capsys, *CLEAN, *AT_ONCE, *WRITES, *NAMED)[0] == 0
        cluster.now_ms += 1000
    assert {key for key in keys - set(cluster.storage.keys) if "gone-0-" not in key} == set()
    assert not any("gone-0-" in key for key in cluster.storage.keys)
