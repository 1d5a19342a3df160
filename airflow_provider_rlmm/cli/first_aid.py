# SPDX-License-Identifier: Apache-2.0
"""The command for the first minutes after a metadata topic or a cluster was lost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, with_cluster
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError, EventLogUnavailableError
from airflow_provider_rlmm.core.base.quoting import human_bytes, in_quotes, name_in_text

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.first_aid.commands import Tools
    from airflow_provider_rlmm.features.first_aid.log_directories import LogDirectories
    from airflow_provider_rlmm.features.first_aid.rules import Disk
    from airflow_provider_rlmm.features.first_aid.steps import FirstAid, TopicAid

_NO_ANSWER: Final = (
    "no broker has told which topics are tiered, and without brokers no setting can be changed. Set the kill switch, pause "
    "every DAG of this package, lock the bucket or switch its versioning on, and start no broker before that: one that "
    "starts without its metadata topic moves the log start of each tiered topic. docs/lost.md goes on from there"
)
_NOW: Final = (
    "Copying off: to be typed now. Before it the kill switch, every DAG of this package paused, and a lock or versioning on "
    "the bucket (docs/lost.md). Restart no broker."
)
_LATER: Final = (
    "As today: not before the loss is settled. A leader that copies again may move its log start behind all that its "
    "metadata do not name. Keep these lines: nothing else tells the settings of today once they are changed."
)


@command("first-aid")
@click.option(
    "--log-dirs",
    metavar="FILE",
    help="What 'kafka-log-dirs.sh --bootstrap-server … --describe' has printed: tells how much disk the topics will take, "
    "and whether topics were left out of the listing.",
)
@with_cluster
def first_aid(invocation: Invocation, log_dirs: str | None) -> int:
    """
    Print what to type first where the metadata topic is lost: for each tiered topic the alter that stops copying, the disk
    that this takes, and the alter that gives its settings of today back. Nothing is changed, and no metadata topic is needed.

    Keep the output: once the settings are changed, nothing else tells what they were.
    """
    from airflow_provider_rlmm.features.first_aid.commands import Tools
    from airflow_provider_rlmm.features.first_aid.steps import first_aid as aid_of

    configuration, directories = invocation.configuration(), None if log_dirs is None else _read(log_dirs)
    tools = Tools(configuration.client_properties["bootstrap.servers"], configuration.command_config)
    try:
        with working(), closing(invocation.access().get_tiered_topics()) as topics:
            found = aid_of(topics, configuration.settings.metadata_topic, tools, directories)
    except EventLogUnavailableError:
        invocation.output.problem(f"needs a person: {_NO_ANSWER}.")
        raise
    problems = _problems(found, tools)
    if invocation.output.as_json:
        invocation.output.document(_document(found, problems, tools))
    for problem in problems:
        invocation.output.problem(f"needs a person: {problem}")
    if not invocation.output.as_json:
        _print(invocation.output, found, tools)
    return ExitCode.NEEDS_A_PERSON if found.needs_a_person else ExitCode.DONE


def _read(log_dirs: str) -> LogDirectories:
    from airflow_provider_rlmm.features.first_aid.log_directories import read_log_directories

    try:
        text = Path(log_dirs).expanduser().read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"--log-dirs {in_quotes(log_dirs)} is no text in UTF-8") from None
    return read_log_directories(text, f"--log-dirs {in_quotes(log_dirs)}")


def _problems(found: FirstAid, tools: Tools) -> list[str]:
    from airflow_provider_rlmm.features.first_aid.commands import line_of

    problems: list[str] = []
    if found.not_told:
        count = len(found.not_told)
        problems.append(f"nothing is told of {number_of(count, 'topic')}, which may be tiered:")
        problems += [f"topic {name_in_text(topic)}: {why}." for topic, why in sorted(found.not_told.items())]
    if not found.topics and not found.proved_whole:
        problems.append(
            f"no tiered topic is among the {found.listed:,} that were listed, and topics that this login may not describe "
            f"are in no listing. Give it DESCRIBE and DESCRIBE_CONFIGS on every topic, or show by --log-dirs that none is "
            f"left out: {line_of(tools.log_directories())}"
        )
    return problems


def _print(output: Output, found: FirstAid, tools: Tools) -> None:
    from airflow_provider_rlmm.features.first_aid.commands import line_of

    there = "is there: it may have lost records" if found.has_metadata_topic else "is not there"
    tiered = f"{number_of(found.listed, 'topic')}, {len(found.topics):,} of them tiered"
    output.line(f"Cluster {found.cluster_id}: {tiered}. The metadata topic {there}.")
    if found.topics and not found.proved_whole:
        output.line(
            "Topics that this login may not describe are in no listing. Save what this prints, and give the file by "
            "--log-dirs: it shows whether there are any, and how much disk the others take."
        )
        output.command(line_of(tools.log_directories()))
    if off := [{"topic": aid.topic} for aid in found.topics if aid.copying_off is None]:
        output.rows(off, {"topic": "topic"}, "need no alter, as copying is off already")
    _print_disk(output, found.topics)
    _print_lines(output, _NOW, [line_of(aid.copying_off) for aid in found.topics if aid.copying_off])
    _print_lines(output, _LATER, [line_of(aid.as_today) for aid in found.topics if aid.as_today])


def _print_lines(output: Output, what: str, lines: list[str]) -> None:
    if lines:
        output.line(what)
    for line in lines:
        output.command(line)


def _print_disk(output: Output, topics: Sequence[TopicAid]) -> None:
    disks = [(aid, aid.disk) for aid in topics if aid.disk is not None]
    if not disks:
        return
    columns = {
        "topic": "topic", "partitions": "partitions", "replicas": "replicas", "now_bytes": "on disks now", "about_bytes":
        "by retention.ms, about", "at_most_bytes": "by retention.bytes, at most", "bytes_per_day": "comes a day",
    }  # fmt: skip
    output.rows(
        [
            {"topic": aid.topic, "partitions": aid.partitions, "replicas": aid.replicas, **_disk(disk)}
            for aid, disk in disks
        ],
        columns,
        "disk that they take on all brokers together while copying is off",
    )
    more = [disk.more_bytes for _, disk in disks if disk.more_bytes is not None]
    if more:
        output.line(
            f"{len(more):,} of them {agreeing(len(more), 'takes', 'take')} {human_bytes(sum(more))} more than now, "
            "if records come as they did."
        )
    for aid, disk in disks:
        if disk.endless:
            output.problem(
                f"{name_in_text(aid.topic)} grows without end: neither retention.ms nor retention.bytes limits it."
            )
        if disk.cannot_tell:
            output.line(f"{name_in_text(aid.topic)}: it cannot be told how much it takes: {disk.cannot_tell}.")


def _document(found: FirstAid, problems: list[str], tools: Tools) -> dict[str, Any]:
    from airflow_provider_rlmm.features.first_aid.commands import line_of

    return {
        "cluster_id": found.cluster_id,
        "listed_topics": found.listed,
        "metadata_topic_listed": found.has_metadata_topic,
        "listing_proved_whole": found.proved_whole,
        "log_directories": line_of(tools.log_directories()),
        "needs_a_person": problems,
        "not_told": [{"topic": topic, "why": why} for topic, why in sorted(found.not_told.items())],
        "topics": [
            {
                "topic": aid.topic,
                "topic_id": str(aid.topic_id),
                "partitions": aid.partitions,
                "replicas": aid.replicas,
                "settings_of_topic_today": dict(aid.today),
                "copying_off": line_of(aid.copying_off) if aid.copying_off else None,
                "as_today": line_of(aid.as_today) if aid.as_today else None,
                "disk": None if aid.disk is None else _disk(aid.disk),
            }
            for aid in found.topics
        ],
    }


def _disk(disk: Disk) -> dict[str, Any]:
    return {
        "now_bytes": disk.now_bytes,
        "about_bytes": disk.about_bytes,
        "at_most_bytes": disk.at_most_bytes,
        "bytes_per_day": disk.bytes_per_day,
        "endless": disk.endless,
        "cannot_tell": disk.cannot_tell or None,
    }


COMMANDS = (first_aid,)
