# SPDX-License-Identifier: Apache-2.0
"""A cluster at a glance: figures, charts and what needs a person, as pure functions of what runs have written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import HOUR_MS, since
from airflow_provider_rlmm.core.base.quoting import human_bytes, name_in_text
from airflow_provider_rlmm.core.plans.counts import Count, Unsized
from airflow_provider_rlmm.core.plans.prices import StoragePrice, money
from airflow_provider_rlmm.core.records.folded import Folded
from airflow_provider_rlmm.features.survey.inventory import Inventory, SurveyedState
from airflow_provider_rlmm.overview.inventories import GONE
from airflow_provider_rlmm.overview.reclaimed import deletions, last_tries, reclaimed_this_month
from airflow_provider_rlmm.overview.run_summary import RunKind, RunOutcome, RunSummary
from airflow_provider_rlmm.plugins.charts import Point, bars, trend
from airflow_provider_rlmm.plugins.clusters import Cluster
from airflow_provider_rlmm.plugins.next_runs import DeletionTimes
from airflow_provider_rlmm.plugins.rendering import Shell, human_duration, moment

STALE_AFTER_MS: Final = 72 * HOUR_MS
"""An overview that is older than this says so in red: the DAG runs each day by default."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure with its name, and the page that says more of it."""

    name: str
    figure: str
    href: str
    under: str = ""
    mood: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its name and its last figure."""

    name: str
    now: str
    drawing: Markup


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that needs a person, with a way to it."""

    what: str
    why: str
    what_to_do: str
    href: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """
    A cluster as the overview shows it.

    :param cluster_id: its id.
    :param connection: by which it was reached, empty where that was not told.
    :param surveyed_at_ms: when it was looked at, ms since the epoch; ``None`` if it never was.
    :param age_ms: how long ago that was, ms.
    :param tiles: its figures.
    :param price: by which costs are reckoned, ``None`` where none is set.
    :param folded: the generation of the Spark job that the survey began with; ``None`` where there was none.
    """

    cluster_id: str
    connection: str
    surveyed_at_ms: int | None
    age_ms: int
    tiles: Sequence[Tile]
    price: StoragePrice | None = None
    folded: Folded | None = None


def view_of(
    cluster: Cluster, *, shell: Shell, times: DeletionTimes, otherwise: int | None, refused_topics: int | None = None
) -> ClusterView:
    """
    Return a cluster at a glance.

    :param cluster: what runs have written of it.
    :param shell: leads to other pages.
    :param times: when something of it is deleted.
    :param otherwise: what storing 2^30 bytes costs in a month where its survey has not told of a price, in millionths;
        ``None`` if it was not told.
    :param refused_topics: topics of which something stands against the deletion, ``None`` where that is not shown.
    """
    inventory, runs, now_ms = cluster.inventory, cluster.runs, times.now_ms
    price, pages = price_of(inventory, otherwise), _Pages(shell, cluster.cluster_id)
    surveyed = inventory.created_at_ms if inventory else None
    tiles = [_last_run(runs, now_ms, pages)]
    tiles += _stock(inventory, times, price, pages, refused_topics) if inventory else ()
    tiles += [*_reclaimed(cluster, price, now_ms, pages), *_health(inventory, runs, pages), _leaders(cluster, pages)]
    age = max(0, now_ms - surveyed) if surveyed is not None else 0
    return ClusterView(
        cluster.cluster_id, cluster.connection, surveyed, age, tiles, price, inventory.folded if inventory else None
    )


@dataclass(frozen=True, slots=True)
class _Pages:
    """Where the pages of a cluster are."""

    shell: Shell
    cluster_id: str

    def topics(self, state: str = "") -> str:
        return self._list("topics", state)

    def runs(self, kind: str = "") -> str:
        return self._list("runs", kind)

    def leaders(self) -> str:
        return self.shell.to("clusters", self.cluster_id, "leaders")

    def _list(self, name: str, state: str) -> str:
        address = self.shell.to("clusters", self.cluster_id, name)
        return f"{address}?state={state}" if state else address


def price_of(inventory: Inventory | None, otherwise: int | None) -> StoragePrice | None:
    """
    Return by which price what was surveyed is reckoned, ``None`` where none is set.

    :param inventory: what was surveyed last, ``None`` if nothing ever was.
    :param otherwise: what storing 2^30 bytes costs in a month where the survey has not told of a price, in millionths.
    """
    if inventory is not None and inventory.price is not None:
        return inventory.price
    return None if otherwise is None else StoragePrice(otherwise)


def _last_run(runs: Sequence[RunSummary], now_ms: int, pages: _Pages) -> Tile:
    """Say how the last run of the cleaner ended: whether last night's run worked."""
    last = next((run for run in reversed(runs) if run.kind is RunKind.CLEANER), None)
    if last is None:
        return Tile("Last run", "none", pages.runs(), "no run of the cleaner has ended")
    ago = human_duration(max(0, now_ms - last.ended_at_ms))
    bad = last.outcome is RunOutcome.FAILED
    told = f"{moment(last.ended_at_ms, now_ms)}, {ago} ago{', dry run' if last.dry_run else ''}"
    figure = "needs a person" if bad else "done"
    return Tile("Last run", figure, pages.shell.to("runs", last.artifact), told, "bad" if bad else "ok")


def _stock(
    inventory: Inventory, times: DeletionTimes, price: StoragePrice | None, pages: _Pages, refused_topics: int | None
) -> Iterable[Tile]:
    totals, topics = inventory.totals, pages.topics
    unsized = totals.unsized or Unsized()
    stored = f"{human_bytes(totals.stored.bytes)}{_unsized(unsized.segments)}"
    yield Tile("Stored", stored, topics(), _of(totals.stored, totals.topics))
    orphaned = _of(totals.orphaned, totals.orphaned_topics)
    if totals.why_not_all_seen:
        # A zero alone would say that all was seen.
        figure = f"{human_bytes(totals.orphaned.bytes)} + {human_bytes(totals.unseen.bytes)} cannot tell"
        figure += _unsized(unsized.orphaned + unsized.unseen)
        unseen = f"{orphaned}; cannot tell of {_of(totals.unseen, totals.unseen_topics)}"
        yield Tile("Orphaned", figure, topics(GONE), unseen, "bad")
        of_unseen = _of(totals.unseen, totals.unseen_topics)
        yield Tile(
            "Unseen", human_bytes(totals.unseen.bytes), topics("UNSEEN"), f"{of_unseen}: the list says why", "bad"
        )
    else:
        lacking = unsized.orphaned + unsized.unseen
        figure = f"{human_bytes(totals.orphaned.bytes)}{_unsized(lacking)}"
        yield Tile("Orphaned", figure, topics(GONE), orphaned, "bad" if lacking else "")
    waiting = _segments(totals.waiting)
    if totals.next_eligible_ms is not None:
        waiting += f", the first {times.short(totals.next_eligible_ms)}"
    yield Tile("Waiting", human_bytes(totals.waiting.bytes), topics("WAITING"), waiting)
    eligible = _segments(totals.eligible)
    if totals.eligible.segments:
        eligible += f", {times.short(times.now_ms)}"
    yield Tile("Eligible", human_bytes(totals.eligible.bytes), topics("ELIGIBLE"), eligible)
    deleting = human_bytes(totals.deleting.bytes)
    yield Tile("Being deleted", deleting, topics("DELETING"), _segments(totals.deleting))
    if refused_topics is not None:
        mood = "bad" if refused_topics else "ok"
        under = "the list says why, and what to do" if refused_topics else "nothing stands against a deletion"
        yield Tile("Refused", number_of(refused_topics, "topic"), topics("REFUSED"), under, mood)
    if price is not None:
        for_orphans = f"{_cost(totals.orphaned, price)} of it for orphans"
        if totals.unseen.segments:
            for_orphans += f", {_cost(totals.unseen, price)} for what cannot be told"
        yield Tile("Cost a month", _cost(totals.stored, price), topics(), for_orphans)


def _unsized(segments: int) -> str:
    """Say beside a sum of bytes how many segments it lacks."""
    return f" + {number_of(segments, 'segment')} of unknown size" if segments else ""


def _reclaimed(cluster: Cluster, price: StoragePrice | None, now_ms: int, pages: _Pages) -> Iterable[Tile]:
    """Say what runs have deleted, and what of it in this month."""
    if not cluster.runs:
        return
    real, href = deletions(cluster.runs), pages.runs(RunKind.CLEANER.value)
    size, first = sum(run.deleted.bytes for run in real), since(cluster.runs[0].ended_at_ms)[:10]
    yield Tile("Reclaimed", human_bytes(size), href, f"by {number_of(len(real), 'run')} since {first}")
    month = reclaimed_this_month(cluster.told_runs, now_ms)
    cost = "" if price is None else f"{money(price.month(month.bytes, month.objects))} a month; "
    yield Tile("Reclaimed this month", human_bytes(month.bytes), href, f"{cost}{month.in_words}")


def _health(inventory: Inventory | None, runs: Sequence[RunSummary], pages: _Pages) -> Iterable[Tile]:
    doctor = next((run for run in reversed(runs) if run.critical is not None), None)
    told = None if doctor is None else doctor.documents.get("doctor")
    asked = pages.runs(RunKind.DOCTOR.value) if told is None else pages.shell.to("doctor", told)
    if inventory is not None:
        out = inventory.totals.metadata_partitions_out_of_service
        numbers = ", ".join(map(str, out[:10])) + (", …" if len(out) > 10 else "")
        under = f"metadata partition {numbers}" if out else "all metadata partitions serve"
        yield Tile("Out of service", f"{len(out):,}", asked, under, "bad" if out else "ok")
        bad = inventory.totals.quarantined_records
        yield Tile("Quarantined", f"{bad:,}", asked, "records that cannot be applied", "bad" if bad else "ok")
    if doctor is None:
        yield Tile("Doctor", "not asked", asked, "no run has examined the metadata topic")
    else:
        figure = f"{doctor.critical:,} critical" if doctor.critical else "nothing critical"
        yield Tile("Doctor", figure, asked, since(doctor.ended_at_ms), "bad" if doctor.critical else "ok")


def _leaders(cluster: Cluster, pages: _Pages) -> Tile:
    """Say whether leaders delete what they should, and how old that answer is."""
    found, href = cluster.leaders, pages.leaders()
    if found is None:
        return Tile(
            "Leaders", "not asked", href, cluster.leaders_unreadable or "not known whether one of them is stuck"
        )
    asked = since(found.asked_at_ms)
    if not found.judged:
        return Tile("Leaders", "cannot tell", href, f"whether anything is overdue, {asked}", "bad")
    if found.overdue.segments:
        overdue = f"{_segments(found.overdue)} of {number_of(found.overdue_partitions, 'user partition')}, {asked}"
        return Tile("Leaders", f"{human_bytes(found.overdue.bytes)} overdue", href, overdue, "bad")
    goes = f"{human_bytes(found.goes.bytes)} go next, {asked}"
    if found.unresolved or found.not_judged or found.not_told:
        untold = f"{number_of(found.unresolved, 'user partition')} unresolved, {goes}"
        return Tile("Leaders", "nothing seen overdue", href, untold, "bad")
    return Tile("Leaders", "nothing overdue", href, goes, "ok")


def _of_leaders(cluster: Cluster, shell: Shell, now_ms: int) -> Iterable[Problem]:
    """Yield what the leaders of living topics do not delete."""
    found = cluster.leaders
    if cluster.leaders_unreadable:
        yield Problem(
            "What leaders delete next cannot be read",
            cluster.leaders_unreadable,
            "run remote_log_doctor: it asks them anew",
        )
    if found is None:
        return
    href = shell.to("clusters", cluster.cluster_id, "leaders")
    if found.overdue.segments:
        worst = found.listed_overdue[0]
        yield Problem(
            f"Leaders are stuck: {_segments(found.overdue)}, {human_bytes(found.overdue.bytes)} of "
            f"{number_of(found.overdue_partitions, 'user partition')} should have been deleted hours ago",
            f"the largest is partition {worst.partition} of {name_in_text(worst.topic)}, seen due since "
            f"{since(worst.since_ms)}: it grows for good",
            worst.what_to_do, href, "all of them",
        )  # fmt: skip
    if found.hanging_partitions:
        worst_copies = found.listed_hanging[0]
        yield Problem(
            f"The leaders of {number_of(found.hanging_partitions, 'user partition')} have stopped copying: local "
            "segments are not purged",
            f"the furthest behind is partition {worst_copies.partition} of {name_in_text(worst_copies.topic)}: "
            f"{worst_copies.in_words(found.asked_at_ms)}",
            worst_copies.what_to_do, href, "all of them",
        )  # fmt: skip
    if found.leaked.segments:
        yield Problem(
            f"Kafka has leaked {_segments(found.leaked)}, {human_bytes(found.leaked.bytes)}",
            "they are listed for none of their leader epochs, so no leader ever deletes them",
            "they go with their topics; make a topic anew where they cost too much:", href, "where they are",
        )  # fmt: skip
    if now_ms - found.asked_at_ms > STALE_AFTER_MS:
        yield Problem(
            f"What leaders delete next was told {human_duration(now_ms - found.asked_at_ms)} ago",
            "they were not asked since: a leader that is stuck would not be seen",
            "see that remote_log_doctor is not paused, and look at its task leaders",
        )


def problems_of(cluster: Cluster, shell: Shell, now_ms: int) -> list[Problem]:
    """
    Return what needs a person, by what was surveyed last and by the newest run of each kind.

    :param cluster: what runs have written of it.
    :param shell: leads to other pages.
    :param now_ms: ms since the epoch.
    """
    inventory, runs = cluster.inventory, cluster.runs
    found = []
    if cluster.unreadable:
        found.append(
            Problem(
                "What was surveyed last cannot be read", cluster.unreadable, "run the cleaner's DAG: it surveys anew"
            )
        )
    newest = {run.kind: run for run in runs}
    for kind in RunKind:
        run = newest.get(kind)
        if run is not None and run.outcome is RunOutcome.FAILED:
            found.append(
                Problem(
                    f"The last run of the {kind.value} needs a person", run.headline, "look at it:",
                    shell.to("runs", run.artifact), since(run.ended_at_ms),
                )
            )  # fmt: skip
    if inventory is not None and inventory.totals.unseen_topics:
        unseen = _of(inventory.totals.unseen, inventory.totals.unseen_topics)
        found.append(
            Problem(
                f"It cannot be told whether these are orphaned: {unseen}",
                "their topics may not be described, answers contradict each other, or their metadata partition is out of "
                "service: a count of orphans says nothing of them",
                "give the principal DESCRIBE on every topic, or do what each of them says:",
                f"{shell.to('clusters', inventory.cluster_id, 'topics')}?state={SurveyedState.UNSEEN.value}",
                "the topics",
            )
        )
    if inventory is not None and (out := inventory.totals.metadata_partitions_out_of_service):
        found.append(
            Problem(
                f"Metadata partitions out of service: {', '.join(map(str, out[:20]))}",
                "a record there ends the consumers of brokers, or too many records lie where they do not belong",
                "ask the doctor (rlmm doctor, or its DAG): it names each record and what its removal costs",
            )
        )
    if inventory is not None and now_ms - inventory.created_at_ms > STALE_AFTER_MS:
        found.append(
            Problem(
                f"These figures are {human_duration(now_ms - inventory.created_at_ms)} old",
                "no run of the cleaner has surveyed the cluster since",
                "see that its DAG is not paused, and look at its last run in Airflow",
            )
        )
    found += _of_leaders(cluster, shell, now_ms)
    return found


def charts_of(runs: Sequence[RunSummary]) -> list[Chart]:
    """
    Return charts over runs.

    :param runs: past ones, the oldest first.
    """
    if not runs:
        return []

    def of(name: str, field: str) -> Chart:
        points = [Point(run.ended_at_ms, count.bytes) for run in runs if (count := getattr(run, field)) is not None]
        return Chart(name, _bytes(points[-1].value) if points else "", trend(points, _bytes))

    cleanups = last_tries(run for run in runs if run.kind is RunKind.CLEANER and not run.dry_run)
    real = [Point(run.ended_at_ms, run.deleted.bytes) for run in cleanups]
    ages = [
        Point(run.ended_at_ms, run.ended_at_ms - run.oldest_orphan_ms)
        for run in runs
        if run.oldest_orphan_ms is not None
    ]
    out = [Point(run.ended_at_ms, run.out_of_service) for run in runs if run.out_of_service is not None]
    reclaimed = sum(point.value for point in real)
    return [
        of("Stored", "stored"),
        of("Orphaned", "orphaned"),
        of("Waiting", "waiting"),
        Chart("Reclaimed, run by run", f"{_bytes(reclaimed)} in all", bars(real, _bytes)),
        Chart("Age of the oldest orphan", _age(ages[-1].value) if ages else "", trend(ages, _age)),
        Chart("Metadata partitions out of service", _whole(out[-1].value) if out else "", trend(out, _whole)),
    ]


def _cost(count: Count, price: StoragePrice) -> str:
    return money(price.month(count.bytes, count.segments))


def _bytes(value: float) -> str:
    return human_bytes(round(value))


def _age(value: float) -> str:
    return human_duration(max(0, round(value)))


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _of(count: Count, topics: int) -> str:
    return f"{_segments(count)} of {number_of(topics, 'topic')}"


def _segments(count: Count) -> str:
    return number_of(count.segments, "segment")
