# SPDX-License-Identifier: Apache-2.0
"""The command that tries retention settings over what the Spark job has read: no cluster is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.cli.configuration import read_prices
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.runs import HOW_TO_SET_PRICES
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import duration_in_words, system_clock
from airflow_provider_rlmm.core.base.file_systems import read_file
from airflow_provider_rlmm.core.plans.prices import StoragePrice, no_price, price_micros

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.generations.manifest import Generation
    from airflow_provider_rlmm.features.retention.spark.what_if import WhatWouldGo

_MAX_LISTING_BYTES = 256 * 2**20


@command("what-if")
@click.argument("data_set")
@click.argument("settings", nargs=-1, required=True, metavar="[TOPICS:]retention.ms=N[,retention.bytes=N]...")
@click.option(
    "--cluster-state",
    "listing",
    required=True,
    metavar="FILE",
    help="What 'rlmm cluster-state' has written: the topics and the settings that they have.",
)
@click.option("--generation", "number", type=click.IntRange(1), help="Number of the generation.  [default: the newest]")
@click.option(
    "--price-per-gb-month",
    "of_run",
    metavar="PRICE",
    help="What storing 2^30 bytes costs in a month, in a currency of your own, instead of what the configuration says.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def what_if(
    data_set: str, settings: Sequence[str], listing: str, number: int | None, of_run: str | None, as_json: bool
) -> int:
    """
    Say what leaders would delete under other retention settings, beside what they delete under those that topics have.

    DATA_SET is the folder in which the Spark job keeps what it has read: nothing else is read, and no cluster is asked.
    TOPICS is a name, or a pattern in which an asterisk stands for anything; without it all topics are meant. -1 means no
    limit.

    All counts are estimates: leaders know their lineage and what is only on their disks. The command ends with exit code 4
    where the log that was read may lack records, or holds segments whose fate cannot be told.
    """
    from functools import partial

    from airflow_provider_rlmm.core.generations.store import GenerationStore
    from airflow_provider_rlmm.core.world.cluster_state import ClusterState
    from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
    from airflow_provider_rlmm.features.retention.spark import what_if as spark_what_if
    from airflow_provider_rlmm.features.retention.spark.log_refusals import refusals_of_log

    told = read_prices()
    price = told.storage_price(of_run=None if of_run is None else price_micros("--price-per-gb-month", of_run))
    scenarios = [spark_what_if.AS_LISTED, *map(spark_what_if.Scenario.parse, settings)]
    state = ClusterState.from_json(read_file(listing, _MAX_LISTING_BYTES).to_pybytes().decode())
    store, now_ms, output = GenerationStore(data_set), system_clock(), Output(as_json=as_json)
    generation = spark_what_if.choose_generation(store, number)
    with working():
        try_settings = partial(spark_what_if.what_if, spark_what_if.in_process)
        found = try_settings(store, generation, state, EvaluationLimits(now_ms), scenarios)
    uncertain = sum(part.unresolved for part in generation.parts.values())
    if as_json:
        output.document(_document(generation, now_ms, uncertain, found, price))
    else:
        _print(output, generation, now_ms, found, price)
        costs = f"Costs are {price.in_words}." if price else no_price(HOW_TO_SET_PRICES, told.storage_class)
        output.line(costs)
    refusals = refusals_of_log(generation, state.explained_gaps)
    for refusal in refusals:
        output.problem(f"cannot tell: {refusal.what}: {refusal.why}; {refusal.what_to_do}")
    if uncertain:
        output.problem(
            f"cannot tell: {number_of(uncertain, 'segment is', 'segments are')} in no count, as their fate is not "
            "known; let the doctor look"
        )
    return ExitCode.NEEDS_A_PERSON if refusals or uncertain else ExitCode.DONE


def _print(
    output: Output, generation: Generation, now_ms: int, found: Sequence[WhatWouldGo], price: StoragePrice | None
) -> None:
    age = duration_in_words(max(0, now_ms - generation.created_at_ms))
    output.line(
        f"generation {generation.number} of cluster {generation.cluster_id}, read {age} ago; all counts are estimates"
    )
    cost = {} if price is None else {"saved_micros": "saved a month"}
    columns = {"settings": "settings", "segments": "would go", "bytes": "bytes", "by_reason": "for"}
    output.rows(_totals(found, price), {**columns, **cost}, "settings")
    columns = {"settings": "settings", "topic": "topic", "more_segments": "more go than now", "more_bytes": "bytes"}
    output.rows(_topics(found, price), {**columns, **cost}, "topics that differ")


def _totals(found: Sequence[WhatWouldGo], price: StoragePrice | None) -> Iterator[dict[str, Any]]:
    """Yield what goes by each setting; the first one is what topics have, which the others are compared with."""
    for result in found:
        goes = result.goes
        yield {
            "settings": result.scenario.text,
            "segments": goes.segments,
            "bytes": goes.bytes,
            "by_reason": {reason: one.segments for reason, one in sorted(result.by_reason.items())},
            **_saved(goes.bytes - found[0].goes.bytes, price),
        }


def _topics(found: Sequence[WhatWouldGo], price: StoragePrice | None) -> Iterator[dict[str, Any]]:
    """Yield the topics of which more or less goes than now, the largest differences first."""
    for result in found[1:]:
        for one in result.differences(found[0]):
            row = {"more_segments": one.more_segments, "more_bytes": one.more_bytes}
            yield {"settings": result.scenario.text, "topic": one.topic, **row, **_saved(one.more_bytes, price)}


def _saved(more_bytes: int, price: StoragePrice | None) -> Mapping[str, Any]:
    return {"saved_micros": None if price is None else price.month(more_bytes)}


def _document(
    generation: Generation, now_ms: int, uncertain: int, found: Sequence[WhatWouldGo], price: StoragePrice | None
) -> dict[str, Any]:
    named = ("segments", "bytes", "saved_micros")
    totals = ({name: row[name] for name in named if name in row} for row in _totals(found, price))
    return {
        "cluster_id": generation.cluster_id,
        "generation": generation.number,
        "created_at_ms": generation.created_at_ms,
        "evaluated_at_ms": now_ms,
        "uncertain_segments": uncertain,
        "scenarios": [{**result.document(), **total} for result, total in zip(found, totals, strict=True)],
    }


COMMANDS = (what_if,)
