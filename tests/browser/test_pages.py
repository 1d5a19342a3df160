# SPDX-License-Identifier: Apache-2.0
"""
The pages as people meet them: in Airflow's UI, in Chromium, about a real broker that a real scheduler cleans up after.

The tests follow a day in order: each begins where the one before has left the cluster.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from dev import tiering, ui_scene
from dev.ui_scene import ASKING, CLEANER, SLOWLY, Scene

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]

NASTY = "<img src=x onerror=alert(1)>"
Watched = Callable[[str], Page]


def badge(page: Page, words: str) -> None:
    """Wait for a badge."""
    expect(page.locator(".badge", has_text=words).first).to_be_visible(timeout=120_000)


def test_without_a_login_there_is_nothing(scene: Scene, opened: Browser) -> None:
    for address in ("/", "/plans/x", "/runs/x", "/runs/x/now/json", f"/clusters/{scene.kafka.cluster_id}/topics"):
        assert httpx.get(scene.pages + address).status_code == 401
    context = opened.new_context()
    page = context.new_page()
    page.goto(f"{scene.pages}/")
    expect(page.get_by_role("heading", name="Unauthorized")).to_be_visible()
    expect(page.get_by_text("log in to Airflow")).to_be_visible()
    context.close()


def test_airflows_navigation_leads_to_the_overview(scene: Scene, watched: Watched) -> None:
    page = watched("admin")
    page.goto(scene.airflow.url, wait_until="networkidle")
    entry = page.get_by_text("Remote", exact=True).first
    # The whole word is to be seen, in a font that is wider than most, too.
    assert entry.evaluate("e => { e.style.fontFamily = 'DejaVu Sans'; return e.scrollWidth <= e.clientWidth }") is True
    entry.click()
    frame = page.frame_locator("iframe[title='Remote']")
    expect(frame.get_by_role("heading", name="rlmm_default")).to_be_visible()
    orphaned = frame.locator(".tiles div", has_text="Orphaned")
    expect(orphaned).to_contain_text("20 segments of 1 topic")
    expect(frame.locator(".charts svg")).to_have_count(6)
    frame.get_by_role("link", name="Topics").first.click()
    expect(frame.get_by_role("heading", name="Topics")).to_be_visible()
    expect(frame.get_by_role("link", name="payments")).to_be_visible()


def test_from_a_topic_to_its_segments_and_their_trails(scene: Scene, watched: Watched) -> None:
    page = watched("admin")
    page.goto(f"{scene.cluster}/topics")
    page.get_by_label("Name or topic id").fill("PAY")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="payments").click()
    expect(page.locator(".badge", has_text="orphaned").first).to_be_visible()
    page.get_by_role("link", name="3", exact=True).click()
    expect(page.get_by_role("heading", name="payments, partition 3")).to_be_visible()
    expect(page.locator("svg .seg-ok")).to_have_count(ui_scene.GONE_SEGMENTS)
    expect(page.locator("tbody tr")).to_have_count(ui_scene.GONE_SEGMENTS)
    page.locator("tbody summary").first.click()
    expect(page.locator(".trail").first).to_contain_text(re.compile(r"It was copied, says broker \d+\."))


def test_a_state_is_chosen_from_a_list(scene: Scene, watched: Watched) -> None:
    page = watched("admin")
    page.goto(f"{scene.cluster}/topics")
    page.get_by_label("State").select_option("LIVING")
    page.wait_for_url("**state=LIVING**")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(page.get_by_role("link", name="payments")).to_have_count(0)


def test_a_run_is_kept_current_without_a_reload(scene: Scene, watched: Watched) -> None:
    page, run_id = watched("admin"), scene.start(SLOWLY)
    page.goto(scene.page_of(run_id))
    badge(page, "under way")
    page.evaluate("window.notReloaded = true")
    done = page.locator(".tiles div", has_text="Segments deleted").locator("dd").first
    expect(done).to_be_visible(timeout=120_000)
    before = int(done.inner_text())
    expect(done).not_to_have_text(str(before), timeout=60_000)
    assert int(done.inner_text()) > before
    badge(page, "at work")
    assert page.locator("progress").count() >= 1
    assert page.evaluate("window.notReloaded") is True
    assert scene.airflow.wait(CLEANER, run_id) == "success"
    badge(page, "done")
    # It ended: the whole page was loaded once more.
    assert page.evaluate("window.notReloaded") is None
    expect(page.get_by_text("Nothing needs a person: 20 segments")).to_be_visible()


def test_green_runs_have_logged_no_error(scene: Scene) -> None:
    """Neither the logs of the tasks, nor what their supervisors say: until here every run was green."""
    logs = [file for file in scene.airflow.home.rglob("*.log") if "webserver" not in file.name]
    said = [line for file in logs for line in file.read_text(errors="replace").splitlines()]
    assert any("rlmm_plan" in line or "check" in line for line in said)
    assert [line for line in said if re.search(r'"level": ?"(error|critical)"|\[(error|critical) *\]', line)] == []


def test_a_tab_of_the_dag_run_shows_its_page(scene: Scene, watched: Watched) -> None:
    page = watched("admin")
    (run,) = scene.airflow.get(f"/dags/{CLEANER}/dagRuns", limit=1, order_by="-id")["dag_runs"]
    page.goto(f"{scene.airflow.url}/dags/{CLEANER}/runs/{run['dag_run_id']}", wait_until="networkidle")
    # Not the link of the same name in the menu, which leads to all connections.
    page.locator("a[href*='/runs/'][href*='/plugin/']", has_text="Remote log").click()
    frame = page.frame_locator("iframe[title='Remote log']")
    expect(frame.get_by_role("heading", level=1)).to_contain_text(CLEANER)
    frame.get_by_role("link", name="Plan").click()
    expect(frame.get_by_role("cell", name="the topic no longer exists").first).to_be_visible()


def test_what_was_deleted_stays_in_the_trail(scene: Scene, watched: Watched) -> None:
    page = watched("admin")
    page.goto(scene.cluster)
    expect(page.locator(".tiles div", has_text="Reclaimed").first).to_contain_text("by 1 run")
    page.get_by_role("link", name="Topics").first.click()
    expect(page.get_by_role("link", name="payments")).to_have_count(0)


def test_a_run_waits_for_a_person_who_approves_on_the_page(scene: Scene, watched: Watched) -> None:
    tiering.provoke_scenario_b(scene.kafka, "clicks")
    run_id = scene.start(ASKING)
    page, viewer = watched("admin"), watched("viewer")
    page.goto(scene.page_of(run_id))
    expect(page.get_by_role("heading", name="A person is asked to approve the plan")).to_be_visible(timeout=120_000)
    viewer.goto(scene.page_of(run_id))
    expect(viewer.get_by_role("heading", name="A person is asked to approve the plan")).to_be_visible()
    expect(viewer.locator("button")).to_have_text(["Why?"])
    request = page.get_by_role("alert")
    expect(request.get_by_role("cell", name="clicks")).to_be_visible()
    expect(request.get_by_role("button")).to_have_count(1)
    expect(request.get_by_role("button")).to_be_in_viewport()
    request.get_by_role("button", name="Approve: delete 10 segments").click()
    assert scene.airflow.wait(CLEANER, run_id) == "success"
    page.goto(scene.page_of(run_id))
    badge(page, "approved")
    expect(page.get_by_text("was approved by 'admin'")).to_be_visible()


def test_questions_of_a_morning_are_answered_on_the_first_screen(scene: Scene, opened: Browser) -> None:
    """From the overview with two clicks at most, on a screen of 1360 by 768; when and who approved come from runs before."""
    page = ui_scene.log_in(opened, scene.airflow)
    page.set_viewport_size({"width": 1360, "height": 768})

    def overview() -> None:
        page.goto(scene.cluster, wait_until="networkidle")

    overview()
    for tile in ("Last run", "Stored", "Orphaned", "Waiting", "Refused"):
        expect(page.locator(".tiles div", has_text=tile).first).to_be_in_viewport(ratio=1)
    expect(page.locator(".tiles div", has_text="Last run").locator("dd").first).to_have_text("done")
    page.locator(".tiles div", has_text="Stored").get_by_role("link").click()
    expect(page.locator("tbody tr").first.get_by_role("link", name="orders")).to_be_in_viewport(ratio=1)
    overview()
    page.locator(".tiles div", has_text="Last run").get_by_role("link").click()
    expect(page.get_by_text("deleted:").first).to_be_in_viewport(ratio=1)
    expect(page.get_by_text("was approved by 'admin'")).to_be_in_viewport(ratio=1)
    overview()
    page.get_by_role("link", name="Runs").click()
    expect(page.get_by_text("approved by 'admin'").first).to_be_in_viewport(ratio=1)
    overview()
    page.get_by_label("Topic, segment or key").fill("orders")
    page.get_by_role("button", name="Why?").click()
    for words in ("its leader's: this package deletes nothing of a living topic", "rlmm why orders"):
        expect(page.get_by_text(words)).to_be_in_viewport(ratio=1)
    page.context.close()


def test_a_topic_of_a_nasty_name_does_nothing(scene: Scene, watched: Watched) -> None:
    topic_id = scene.write_foreign_topic(NASTY)
    page = watched("admin")
    alarms: list[str] = []
    page.on("dialog", lambda dialog: alarms.append(dialog.message))
    scene.run({"dry_run": False})
    for address in ("", "/topics", f"/topics/{ui_scene.text_of(topic_id)}", f"/topics/{ui_scene.text_of(topic_id)}/0"):
        page.goto(scene.cluster + address)
        expect(page.get_by_text("onerror").first).to_be_visible()
        assert page.locator("img").count() == 0
    assert alarms == []


def test_a_button_starts_a_dry_run(scene: Scene, watched: Watched) -> None:
    page = watched("admin")
    page.goto(scene.cluster)
    page.get_by_role("button", name="Start a dry run").click()
    page.wait_for_url("**/dag-run?**")
    badge(page, "dry run")
    run_id = page.url.partition("run_id=")[2].replace("%3A", ":").replace("%2B", "+")
    scene.airflow.wait(CLEANER, run_id)


def test_a_run_that_is_refused_is_red(scene: Scene, watched: Watched) -> None:
    tiering.create_tiered_topic(scene.kafka, "carts", 1)
    tiering.produce_until_remote(scene.kafka, "carts", 2)
    tiering.provoke_scenario_b(scene.kafka, "carts")
    run_id, state = scene.run(ui_scene.AT_ONCE | {"max_segments": 1})
    assert state == "failed"
    page = watched("admin")
    page.goto(scene.page_of(run_id))
    badge(page, "needs a person")
    page.get_by_role("link", name="Report").click()
    expect(page.get_by_role("alert")).to_contain_text("stopped by its blast radius")
    page.goto(scene.cluster)
    expect(page.get_by_role("alert")).to_contain_text("The last run of the cleaner needs a person")


def test_why_something_was_refused_and_when_a_topic_is_deleted_is_on_the_first_screen(
    scene: Scene, opened: Browser
) -> None:
    """From the overview with two clicks at most, on a screen of 1360 by 768."""
    page = ui_scene.log_in(opened, scene.airflow)
    page.set_viewport_size({"width": 1360, "height": 768})
    page.goto(scene.cluster, wait_until="networkidle")
    page.get_by_role("alert").get_by_role("link").first.click()
    page.get_by_role("link", name="Report").first.click()
    expect(page.get_by_text("stopped by its blast radius").first).to_be_in_viewport(ratio=1)
    expect(page.get_by_text("What to do: ").first).to_be_in_viewport(ratio=1)
    page.goto(scene.cluster, wait_until="networkidle")
    page.get_by_label("Topic, segment or key").fill("carts")
    page.get_by_role("button", name="Why?").click()
    goes = page.locator(".answer div", has_text="Goes").locator("dd").first
    expect(goes).to_be_in_viewport(ratio=1)
    expect(goes).to_contain_text("may go now: with the next real run")
    page.goto(scene.cluster, wait_until="networkidle")
    page.locator(".tiles div", has=page.locator("dt", has_text=re.compile("^Orphaned$"))).get_by_role("link").click()
    row = page.locator("tbody tr", has_text="carts")
    expect(row).to_be_in_viewport(ratio=1)
    expect(row).to_contain_text("may go now")
    page.context.close()


def test_a_limit_is_raised_from_the_page_of_the_plan(scene: Scene, watched: Watched) -> None:
    (run,) = scene.airflow.get(f"/dags/{CLEANER}/dagRuns", limit=1, order_by="-id")["dag_runs"]
    page = watched("admin")
    page.goto(scene.page_of(run["dag_run_id"]))
    page.get_by_role("link", name="Plan", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("This is more than one run may delete")
    assert int(alert.get_by_label("Most segments").input_value()) > 1
    assert alert.get_by_label("Plan", exact=True).input_value() == page.url.rpartition("/")[2]
    alert.get_by_role("button", name="Dry run with these limits").click()
    page.wait_for_url("**/dag-run?**")
    (dry,) = scene.airflow.get(f"/dags/{CLEANER}/dagRuns", limit=1, order_by="-id")["dag_runs"]
    assert (dry["conf"]["dry_run"], dry["conf"]["max_segments"] > 1) == (True, True)
    assert scene.airflow.wait(CLEANER, dry["dag_run_id"]) == "success"


def test_a_record_that_cannot_be_applied_is_red(scene: Scene, watched: Watched) -> None:
    scene.write_keyed_record()
    _, state = scene.run({"dry_run": True})
    assert state == "failed"
    page = watched("admin")
    page.goto(scene.cluster)
    quarantined = page.locator(".tiles .bad-tile", has_text="Quarantined")
    expect(quarantined.locator("dd").first).to_have_text("1")
    page.get_by_role("alert").get_by_role("link").first.click()
    page.get_by_role("link", name="Report").click()
    expect(page.get_by_role("alert")).to_contain_text("quarantined")


def test_the_kill_switch_is_switched_and_seen(scene: Scene, watched: Watched) -> None:
    page = watched("admin")
    page.goto(scene.cluster)
    page.locator("summary", has_text="Stop all deletion").click()
    page.get_by_label("Why everything is to stop").fill("the store moves")
    page.get_by_role("button", name="Stop all deletion").click()
    expect(page.get_by_role("alert")).to_contain_text("the store moves")
    page.get_by_role("button", name="End the stop").click()
    expect(page.locator("summary", has_text="Stop all deletion")).to_be_visible()
    expect(page.get_by_text("the store moves")).to_have_count(0)


def test_a_viewer_reads_and_has_no_button(scene: Scene, watched: Watched) -> None:
    viewer = watched("viewer")
    (run,) = scene.airflow.get(f"/dags/{CLEANER}/dagRuns", limit=1, order_by="-id")["dag_runs"]
    for address in (scene.cluster, f"{scene.cluster}/runs", scene.page_of(run["dag_run_id"])):
        viewer.goto(address)
        expect(viewer.get_by_role("heading", level=1)).to_be_visible()
        assert viewer.locator("form[data-ask]").count() == 0
        assert viewer.locator("button:not(.filters button, .find button)").count() == 0


def test_the_pages_follow_airflows_light_and_dark(scene: Scene, opened: Browser) -> None:
    page = ui_scene.log_in(opened, scene.airflow, theme="dark")
    page.goto(f"{scene.airflow.url}/plugin/remote-log", wait_until="networkidle")
    frame = page.frame_locator("iframe[title='Remote']")
    expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
    assert lightness(page) < 60
    page.evaluate("document.documentElement.classList.replace('dark', 'light')")
    expect(frame.locator("html")).to_have_attribute("data-theme", "light")
    assert lightness(page) > 200
    page.context.close()


def lightness(page: Page) -> int:
    """How light the background of the framed page is, from 0 to 255."""
    colour = page.frames[-1].evaluate("getComputedStyle(document.body).backgroundColor")
    return max(map(int, re.findall(r"\d+", colour)[:3]))


def test_where_nobody_has_chosen_the_systems_light_and_dark_counts(scene: Scene, opened: Browser) -> None:
    for scheme, dark in (("dark", True), ("light", False)):
        context = opened.new_context(color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(f"{scene.pages}/")
        assert (lightness(page) < 60) is dark
        context.close()


def test_ten_thousand_topics_take_no_second_more_than_none(scene: Scene, watched: Watched, large_cluster: Path) -> None:
    page = watched("admin")
    large = f"{scene.pages}/clusters/cluster-with-10000-topics"
    nothing = seconds(page, f"{scene.cluster}/topics?search=nothing-is-called-that")
    taken = {
        address: seconds(page, large + address)
        for address in (
            "",
            "/topics",
            "/topics?page=100",
            "/topics?search=99&sort=topic",
            "/topics?state=WAITING",
            "/runs",
        )
    }
    assert {address: round(s, 2) for address, s in taken.items() if s > nothing + 1} == {}
    page.goto(f"{large}/topics")
    expect(page.get_by_text("1–100 of 10,000")).to_be_visible()


def seconds(page: Page, address: str) -> float:
    """How long a page takes until it is there whole: the fastest of three."""
    taken = []
    for _ in range(3):
        began = time.monotonic()
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 200
        taken.append(time.monotonic() - began)
    return min(taken)
