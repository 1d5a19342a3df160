# SPDX-License-Identifier: Apache-2.0
"""One real broker, one real Airflow and one real browser for all tests of the pages; minutes, and Chromium must be there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from dev import ui_scene
from dev.ui_scene import Scene


@pytest.fixture(scope="session")
def opened() -> Iterator[Browser]:
    """The browser."""
    if ui_scene.chromium() is None:
        pytest.fail("no Chromium is installed (Debian: apt-get install chromium)")
    with ui_scene.browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def scene(opened: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The broker, the Airflow, and a first run that changes nothing."""
    with ui_scene.scene(tmp_path_factory.mktemp("scene")) as made:
        _, state = made.run({"dry_run": True})
        assert state == "success"
        yield made


Complaints = list[str]


@pytest.fixture(scope="session")
def people(opened: Browser, scene: Scene) -> dict[str, Page]:
    """Who is logged in: ``admin`` and ``viewer``."""
    return {user: ui_scene.log_in(opened, scene.airflow, user) for user in ("admin", "viewer")}


@pytest.fixture
def watched(people: dict[str, Page]) -> Iterator[Callable[[str], Page]]:
    """Returns somebody's page; at the end neither a script nor the content security policy has complained."""
    complaints: list[str] = []
    handlers = []
    for page in people.values():
        on_console = lambda message: complaints.append(message.text) if message.type == "error" else None  # noqa: E731
        on_error = lambda error: complaints.append(str(error))  # noqa: E731
        page.on("console", on_console)
        page.on("pageerror", on_error)
        handlers.append((page, on_console, on_error))
    yield people.__getitem__
    for page, on_console, on_error in handlers:
        page.remove_listener("console", on_console)
        page.remove_listener("pageerror", on_error)
    assert complaints == []


@pytest.fixture(scope="session")
def large_cluster(scene: Scene) -> Path:
    """A cluster of 10,000 topics beside the real one; only its folder is made up."""
    from tests.sample_work_folder import sample_work_folder

    return sample_work_folder(scene.work, cluster_id="cluster-with-10000-topics", topics=10_000).cluster
