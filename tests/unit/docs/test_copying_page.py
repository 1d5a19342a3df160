# SPDX-License-Identifier: Apache-2.0
"""The how-to of copying: what it has people wait for is what a run says, and its alter comes behind a green run."""

from __future__ import annotations

import re

from airflow_provider_rlmm.features.copying.copy_hole import hole_ahead
from airflow_provider_rlmm.features.copying.rules import LocalSegment
from tests.unit.docs.pages import DOCS

PAGE = (DOCS / "how-to" / "copy-a-log-directory.md").read_text()
ALTER = re.compile(r"--add-config (\S+)")


def test_the_page_shows_what_a_run_says_of_segments_that_are_about_to_expire() -> None:
    expiring = [LocalSegment(b, b + 4_999, 1, 0, ((0, b),), True) for b in range(0, 60_000, 5_000)]
    assert f"```text\n{hole_ahead('payments', 0, expiring)}\n```" in PAGE


def test_copying_is_enabled_and_retention_raised_behind_a_run_that_has_nothing_left_to_expire() -> None:
    first, last = ALTER.findall(PAGE)
    assert "remote.log.copy.disable=true" in first
    assert "retention.ms" not in first.replace("local.retention.ms", "")
    assert {"remote.log.copy.disable=false", "retention.ms=2592000000"} < set(last.split(","))
    assert (
        PAGE.index("## What is about to expire")
        < PAGE.index("Run it once more. If it ends in green")
        < PAGE.index(last)
    )
    operator = (DOCS / "operators" / "copying.md").read_text()
    assert not ALTER.search(operator), "said once, on the page of the how-to"
