# SPDX-License-Identifier: Apache-2.0
"""
Takes ``docs/images/*.png``: every page of the package in Airflow's UI, light and dark, about a real broker with orphans.

``python -m dev.ui_pictures`` takes them anew. It needs Chromium (Debian: ``apt-get install chromium``) and the package
``playwright``, which drives it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import Page

from dev import tiering, ui_scene
from dev.ui_scene import ASKING, AT_ONCE, CLEANER, SLOWLY, Scene

IMAGES = Path(__file__).parents[1] / "docs" / "images"
THEMES = {"light": "", "dark": "-dark"}
"""What a person has chosen in Airflow → the end of the names of its pictures."""

SETTLED_MS = 300
LOW = 360
"""Height of a window in which the whole of a page of ours does not fit, pixels."""


def main() -> None:
    """Run cleanups and take pictures of them."""
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="rlmm-pictures-") as folder,
        ui_scene.browser() as opened,
        ui_scene.scene(Path(folder)) as scene,
    ):
        pages = {theme: ui_scene.log_in(opened, scene.airflow, theme=theme) for theme in THEMES}
        scene.run({"dry_run": True})
        _take(pages, {"topics": f"{scene.cluster}/topics"})
        _under_way(scene, pages)
        _asked(scene, pages)
        tiering.create_tiered_topic(scene.kafka, "carts", 3)
        tiering.produce_until_remote(scene.kafka, "carts", 4)
        tiering.provoke_scenario_b(scene.kafka, "carts")
        run_id, _ = scene.run({"dry_run": False})
        (carts,) = {topic.partition("/")[0] for topic in _links(pages["light"], f"{scene.cluster}/topics?search=carts")}
        _take(
            pages,
            {
                "overview": f"{scene.airflow.url}/plugin/remote-log",
                "topic": f"{scene.cluster}/topics/{carts}",
                "partition": f"{scene.cluster}/topics/{carts}/0",
                "run": f"{scene.airflow.url}/dags/{CLEANER}/runs/{run_id}",
                "run-tab": f"{scene.airflow.url}/dags/{CLEANER}/runs/{run_id}/plugin/remote-log-run",
                "runs": f"{scene.cluster}/runs",
            },
        )
        _red(scene, pages)


def _under_way(scene: Scene, pages: Mapping[str, Page]) -> None:
    """Take a run while it deletes, and its plan and report afterwards."""
    run_id = scene.start(SLOWLY)
    for page in pages.values():
        page.goto(scene.page_of(run_id))
    # Something is deleted, and not yet all of it.
    for page in pages.values():
        page.locator("progress:not([value='0'])").first.wait_for(timeout=120_000)
    _shoot(pages, "progress")
    scene.airflow.wait(CLEANER, run_id)
    addresses = {
        name: scene.airflow.link(CLEANER, run_id, task, link)
        for name, task, link in (("plan", "plan", "Plan"), ("report", "report", "Report"))
    }
    _take(pages, addresses)


def _asked(scene: Scene, pages: Mapping[str, Page]) -> None:
    """Take a run that waits for a person, who approves."""
    tiering.provoke_scenario_b(scene.kafka, "clicks")
    run_id = scene.start(ASKING)
    for page in pages.values():
        page.goto(scene.page_of(run_id))
        page.get_by_role("button", name="Approve").wait_for(timeout=120_000)
    _shoot(pages, "approval")
    pages["light"].get_by_role("button", name="Approve").click()
    scene.airflow.wait(CLEANER, run_id)


def _red(scene: Scene, pages: Mapping[str, Page]) -> None:
    """Take what needs a person: a record that nobody can apply, and a plan that is larger than it may be."""
    scene.write_keyed_record()
    run_id, _ = scene.run(AT_ONCE | {"max_segments": 1})
    _take(
        pages,
        {
            "red": f"{scene.airflow.url}/plugin/remote-log",
            "red-report": scene.airflow.link(CLEANER, run_id, "report", "Report"),
        },
    )


def _take(pages: Mapping[str, Page], addresses: Mapping[str, str]) -> None:
    for name, address in addresses.items():
        for page in pages.values():
            page.goto(address, wait_until="networkidle")
        _shoot(pages, name)


def _shoot(pages: Mapping[str, Page], name: str) -> None:
    for theme, page in pages.items():
        # What moves in when a page is shown stands still then.
        page.wait_for_timeout(SETTLED_MS)
        # A page of ours is shown whole and no higher than it is; one within Airflow's fills its window.
        ours = "/rlmm/" in page.url and "/plugin/" not in page.url
        page.set_viewport_size({**ui_scene.SIZE, "height": LOW} if ours else ui_scene.SIZE)
        page.screenshot(path=str(IMAGES / f"{name}{THEMES[theme]}.png"), full_page=ours)


def _links(page: Page, address: str) -> list[str]:
    """Return what the links of a list of topics lead to, below the list."""
    page.goto(address)
    found = page.locator("tbody .name a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    return [href.partition("/topics/")[2] for href in found]


if __name__ == "__main__":
    main()
