# SPDX-License-Identifier: Apache-2.0
"""The command why: what one thing in storage is, whose turn it is, and when it goes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, with_limits, with_storage
from airflow_provider_rlmm.cli.output import working
from airflow_provider_rlmm.cli.runs import open_session, price_of, say_price
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.prices import money
from airflow_provider_rlmm.core.records.records import kafka_uuid_str

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.features.survey.why_steps import Told


@command()
@click.argument("asked", metavar="KEY|SEGMENT|TOPIC")
@with_limits
@with_storage
def why(invocation: Invocation, limits: CleanerLimits, asked: str) -> int:
    """
    Say what an object, a segment or a topic is, whose turn it is to delete it, when it goes and what it costs.

    KEY is the key of an object below the storage root, or its URI; SEGMENT is the id of a segment; TOPIC is a name or an id.
    Storage is not asked: the answer is that of the metadata topic and the cluster. The exit code is 4 where nothing happens
    before a person acts.
    """
    from airflow_provider_rlmm.features.survey.why_steps import tell

    with working() as shown, open_session(invocation, limits, shown) as session:
        told = tell(session, limits, asked)
        happened = _happened(session, told)
    answer, price = told.answer, price_of(invocation)
    month = price.month(answer.stored.bytes, answer.stored.segments) if price and answer.stored else None
    if invocation.output.as_json:
        invocation.output.document(asdict(answer) | {"month_micros": month, "trail": happened})
    else:
        stored = answer.stored and f"{number_of(answer.stored.segments, 'segment')}, {human_bytes(answer.stored.bytes)}"
        cost = "" if month is None else f", {money(month)} a month"
        facts = {
            "what": answer.what, "class": answer.kind, "why": answer.why, "stored": f"{stored or 'not known'}{cost}",
            "whose turn": answer.turn, "goes": answer.goes,
        }  # fmt: skip
        rows = ({"name": name, "value": value} for name, value in facts.items())
        invocation.output.rows(rows, {"name": "", "value": ""})
        if happened:
            invocation.output.rows(happened, {"when": "when", "what": "what", "more": ""}, "what happened to it")
    if answer.stored and answer.stored.segments:
        say_price(invocation, price)
    return ExitCode.NEEDS_A_PERSON if answer.needs_person else ExitCode.DONE


def _happened(session: CleanerSession, told: Told) -> list[dict[str, Any]]:
    """Return what happened to a segment: its records, then what the audit log has of its deletion."""
    from airflow_provider_rlmm.overview.trails import deletions_of, record_in_words

    steps = [record_in_words(r.time, r.state, r.broker_id, r.offset, r.metadata_partition) for r in told.records]
    if told.of is not None:
        topic_id, partition = kafka_uuid_str(told.of.topic_id), told.of.partition
        deletions = deletions_of(session.cluster_uri, session.cluster_id, topic_id, partition, session.clock())
        steps += [d.step for d in reversed(deletions.rows) if d.segment_id == told.segment_id]
    return [asdict(step) for step in steps]


COMMANDS = (why,)
