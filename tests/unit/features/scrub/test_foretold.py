# SPDX-License-Identifier: Apache-2.0
"""A scrub for which the machine has no room ends before anything is listed, and says how much it takes."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_rlmm.core.base.errors import RoomError
from airflow_provider_rlmm.features.scrub import foretold
from airflow_provider_rlmm.features.scrub.foretold import Foretold, foretell, require_room

MANY = Foretold(2_000_000, 6_000_000, 2**30, 2**30)


def test_the_last_scrub_and_the_log_tell_how_much_there_is() -> None:
    none = foretell(0, 3, None)
    assert (none.objects, none.disk) == (0, 0)
    assert foretell(1000, 3, None).objects == 3000
    leaked = foretell(1000, 3, 50_000)
    assert leaked.objects == 50_000
    assert leaked.memory == foretell(1000, 3, None).memory > none.memory
    assert leaked.disk > foretell(1000, 3, None).disk


def test_a_small_scrub_needs_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foretold, "free_disk", lambda _: 0)
    require_room(foretell(100, 3, 6_000))
    with pytest.raises(RoomError, match="set TMPDIR"):
        require_room(foretell(100, 3, 60_000))


@pytest.mark.parametrize(
    ("memory", "disk", "refused"),
    [
        (2**31, 2**31, None),
        (None, 2**31, None),
        (2**29, 2**31, r"takes some 1\.0 GiB of memory, and this machine has 512\.0 MiB left: run it where"),
        (2**31, 2**30, r"takes some 1\.0 GiB of temporary files, and the disk of /somewhere has 1\.0 GiB left"),
    ],
)
def test_what_does_not_suffice_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    memory: int | None,
    disk: int,
    refused: str | None,
) -> None:
    monkeypatch.setattr(foretold, "free_memory", lambda: memory)
    monkeypatch.setattr(foretold, "free_disk", lambda _: disk)
    monkeypatch.setattr(foretold, "temporary_folder", lambda: "/somewhere")
    caplog.set_level(logging.INFO)
    if refused is None:
        require_room(MANY)
    else:
        with pytest.raises(RoomError, match=refused):
            require_room(MANY)
    assert "about 6,000,000 objects and 2,000,000 segments will take some 1.0 GiB of memory" in caplog.text
