# SPDX-License-Identifier: Apache-2.0
"""
Takes ``docs/images/*.png``: a cleanup in Airflow's UI, on a real broker with orphans, in a real browser.

``python -m dev.ui_pictures`` takes them anew. It needs Chromium (Debian: ``apt-get install chromium``) and the package
``playwright``, which drives it.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

from airflow_provider_rlmm.resources import dags_folder
from dev import DevEnvironmentError, tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka
from dev.demo import connections

IMAGES = Path(__file__).parents[1] / "docs" / "images"
CLEANER = "remote_log_cleaner"
AT_ONCE = {"dry_run": False, "min_absence_ms": 0, "overrides": ["short_min_absence"], "max_share": 1.0}
SIZE: ViewportSize = {"width": 1360, "height": 820}


def main() -> None:
    """Run a cleanup and take pictures of it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise DevEnvironmentError("no Chromium is installed (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory(prefix="rlmm-pictures-") as folder, LocalKafka(Path(folder) / "kafka") as kafka:
        for topic in ("orders", "payments"):
            tiering.create_tiered_topic(kafka, topic, 4)
            tiering.produce_until_remote(kafka, topic, 5)
        tiering.provoke_scenario_b(kafka, "payments")
        dags = Path(folder) / "dags"
        dags.mkdir()
        shutil.copy(Path(dags_folder()) / f"{CLEANER}.py", dags)
        env = {"AIRFLOW__RLMM__WORK_URI": str(Path(folder) / "artifacts")}
        with LocalAirflow(
            Path(folder) / "airflow", dags_folder=dags, connections=connections(kafka), env=env
        ) as airflow:
            run_id = airflow.trigger(CLEANER, AT_ONCE)
            airflow.wait(CLEANER, run_id)
            pages = {
                "run": f"/dags/{CLEANER}/runs/{run_id}",
                "plan": airflow.link(CLEANER, run_id, "plan", "Plan"),
                "report": airflow.link(CLEANER, run_id, "report", "Report"),
            }
            _take(browser, airflow, pages)


def _take(browser: str, airflow: LocalAirflow, pages: dict[str, str]) -> None:
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(viewport=SIZE)
        _log_in(page, airflow)
        for name, address in pages.items():
            page.goto(address if "://" in address else airflow.url + address, wait_until="networkidle")
            page.screenshot(path=str(IMAGES / f"{name}.png"))
        opened.close()


def _log_in(page: Page, airflow: LocalAirflow) -> None:
    page.goto(airflow.url, wait_until="networkidle")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", airflow.password)
    page.click("button[type=submit]")
    page.wait_for_load_state("networkidle")


if __name__ == "__main__":
    main()
