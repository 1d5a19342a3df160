# SPDX-License-Identifier: Apache-2.0
"""Commands that judge what the metadata topic names: orphans, survey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.listing import Listing, with_listing
from airflow_provider_rlmm.cli.options import Invocation, only_option, with_cluster, with_limits
from airflow_provider_rlmm.cli.reading import opened_session, opened_topic, with_cost
from airflow_provider_rlmm.cli.runs import PROGRAM, begin, month_column, price_of, say_price
from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.counts import Count, Unsized
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.prices import money
from airflow_provider_rlmm.core.world.only import Only

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.plans.prices import StoragePrice
    from airflow_provider_rlmm.features.survey.inventory import Totals
    from airflow_provider_rlmm.features.survey.orphans import OrphanedPartition

_MOST_TOPICS = 20
_COUNTED = ("stored", "orphaned", "waiting", "eligible", "deleting", "unseen")


@command()
@only_option
@with_listing("topic", "segments", "bytes", "status")
@with_limits
@with_cluster
def orphans(invocation: Invocation, limits: CleanerLimits, only: tuple[str, ...], listing: Listing) -> int:
    """
    List the user partitions of deleted topics that still have remote segments, and what stands against their cleaning.

    Those that may be such are listed as UNSEEN, and end the command with exit code 4. Whether
    their objects are still there only the storage knows: see 'rlmm plan' and 'rlmm scrub'.
    """
    from airflow_provider_rlmm.core.runs.holding import require_known_only
    from airflow_provider_rlmm.features.survey.inventory import SurveyedState
    from airflow_provider_rlmm.features.survey.orphans import orphaned_partitions

    with opened_topic(invocation, limits, Only.of(*only)) as (session, topic):
        require_known_only(session, topic)
        found = orphaned_partitions(topic, limits, session.clock(), session.hold(), session.only)
    price = price_of(invocation)
    columns = {
        "topic": "topic", "topic_id": "topic id", "partition": "partition", "segments": "segments", "bytes": "size",
        **month_column(price), "deletion": "deletion", "status": "status", "why": "why",
    }  # fmt: skip
    rows = found.partitions
    # "None" is said only where all was seen.
    unsized = found.totals.unsized or Unsized()
    if rows or not (found.totals.why_not_all_seen or unsized.orphaned or unsized.unseen):
        shown = listing.of(with_cost(asdict(row), price) for row in rows)
        invocation.output.rows(shown, columns, "orphaned user partitions")
    if left_out := listing.left_out(rows):
        invocation.output.note(left_out)
    gone = [row for row in rows if row.status != SurveyedState.UNSEEN.value]
    if gone:
        _say_topics(invocation, gone, price)
    if rows:
        say_price(invocation, price)
    return _all_seen(invocation, found.totals)


def _say_topics(invocation: Invocation, gone: Sequence[OrphanedPartition], price: StoragePrice | None) -> None:
    """Print to people what orphaned user partitions add up to, by topic where several are of one, and in all."""
    topics = Counter((row.topic, row.topic_id) for row in gone)
    if len(topics) < len(gone) and not invocation.output.as_json:
        sums = {key: {"segments": 0, "bytes": 0} for key in topics}
        for row in gone:
            sums[row.topic, row.topic_id]["segments"] += row.segments
            sums[row.topic, row.topic_id]["bytes"] += row.bytes
        largest = sorted(sums, key=lambda key: -sums[key]["bytes"])
        rows = (
            with_cost({"topic": key[0], "topic_id": key[1], "partitions": topics[key], **sums[key]}, price)
            for key in largest[:_MOST_TOPICS]
        )
        columns = {"topic": "topic", "topic_id": "topic id", "partitions": "partitions", "segments": "segments"}
        invocation.output.rows(rows, {**columns, "bytes": "size", **month_column(price)}, "by topic, the largest first")
    total = Count.sum(Count(o.segments, o.bytes) for o in gone)
    of = number_of(len(topics), "topic")
    invocation.output.line(f"{_words(total, price)} in {number_of(len(gone), 'user partition')} of {of}")


def _words(count: Count, price: StoragePrice | None) -> str:
    cost = "" if price is None else f", {money(price.month(count.bytes, count.segments))} a month"
    return f"{number_of(count.segments, 'segment')}, {human_bytes(count.bytes)}{cost}"


@command()
@only_option
@with_limits
@with_cluster
def survey(invocation: Invocation, limits: CleanerLimits, only: tuple[str, ...]) -> int:
    """
    Judge every topic with remote segments, and leave the inventory that Airflow's pages show in the work folder.

    With --only the inventory is of these topics, and stays in the folder of the run: pages do not show it.
    """
    from airflow_provider_rlmm.core.base.work_folder import cluster_folder
    from airflow_provider_rlmm.features.survey.inventory_files import largest_topics
    from airflow_provider_rlmm.features.survey.steps import survey as leave_inventory
    from airflow_provider_rlmm.features.survey.steps import survey_folder
    from airflow_provider_rlmm.overview.reclaimed import reclaimed_this_month
    from airflow_provider_rlmm.overview.runs import SEARCHED_RUNS, runs

    run, price = begin(invocation, "survey", execute=False, only=Only.of(*only)), price_of(invocation)
    with opened_session(invocation, limits, run.only) as session:
        inventory = leave_inventory(session, run.uri, run.name, PROGRAM, limits=limits, price=price)
        folder = survey_folder(session, run.uri)
        where = f"{folder}/{inventory.generation}"
    totals = inventory.totals
    counts: dict[str, Count] = {what: getattr(totals, what) for what in _COUNTED}
    if invocation.output.as_json:
        months = {w: None if price is None else price.month(c.bytes, c.segments) for w, c in counts.items()}
        invocation.output.document({"inventory": where, **asdict(totals), "month_micros": months})
        return _all_seen(invocation, totals)
    if not run.only.is_all:
        invocation.output.line(f"Of {', '.join(only)} only:")
    _say_largest(invocation, largest_topics(folder, inventory, _MOST_TOPICS), totals, price)
    for what, count in counts.items():
        invocation.output.line(f"{what}: {_words(count, price)}")
    past = runs(run.work_uri, cluster_folder(inventory.cluster_id), rows=SEARCHED_RUNS).rows[::-1]
    month = reclaimed_this_month(past, system_clock())
    cost = "" if price is None else f", {money(price.month(month.bytes, month.objects))} a month"
    invocation.output.line(f"reclaimed this month: {human_bytes(month.bytes)}{cost}, {month.in_words}")
    say_price(invocation, price)
    invocation.output.line(
        f"{totals.orphaned_topics:,} of {number_of(totals.topics, 'topic')} "
        f"{agreeing(totals.orphaned_topics, 'is', 'are')} gone. The inventory is {where}"
    )
    return _all_seen(invocation, totals)


COMMANDS = (orphans, survey)


def _say_largest(
    invocation: Invocation, largest: Sequence[dict[str, Any]], totals: Totals, price: StoragePrice | None
) -> None:
    """Print the topics that a survey has found, the largest first."""
    columns = {
        "topic": "topic", "topic_id": "topic id", "state": "where it stands", "segments": "segments", "bytes": "size",
        **month_column(price),
    }  # fmt: skip
    invocation.output.rows((with_cost(row, price) for row in largest), columns, "topics, the largest first")
    if more := totals.topics - len(largest):
        invocation.output.line(f"and {number_of(more, 'more topic')}")


def _all_seen(invocation: Invocation, totals: Totals) -> int:
    """Say what could not be seen or summed up, to the reader of a pipe too; return the exit code."""
    from airflow_provider_rlmm.core.world.visibility import UNSEEN_ADVICE, UNSIZED_ADVICE

    unsized = totals.unsized or Unsized()
    found = (
        (totals.why_not_all_seen, UNSEEN_ADVICE, True),
        # Of a living topic its brokers take care.
        (totals.why_not_all_sized, UNSIZED_ADVICE, unsized.orphaned + unsized.unseen > 0),
    )
    code = ExitCode.DONE
    for why, advice, needs_person in found:
        if not why:
            continue
        invocation.output.problem(f"{'needs a person: ' if needs_person else ''}{why}. {advice}")
        code = ExitCode.NEEDS_A_PERSON if needs_person else code
    return code
