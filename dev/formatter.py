# SPDX-License-Identifier: Apache-2.0
"""Reads ``__remote_log_metadata`` through Kafka's own console consumer and ``RemoteLogMetadataFormatter``."""

from __future__ import annotations

import re
import subprocess

from dev.broker import METADATA_TOPIC, LocalKafka

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SERDE = "org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde"
FORMATTER = f"{SERDE}$RemoteLogMetadataFormatter"
POSITION = re.compile(r"partition: (\d+), offset: (\d+), value: ")


class FormatterError(RuntimeError):
    """Kafka could not print every record; the message names the first ones missing and Kafka's complaint."""


def formatter_lines(kafka: LocalKafka, timeout: float = 60.0) -> list[str]:
    """
    Everything in ``__remote_log_metadata`` as Kafka's formatter prints it.

    :param kafka: running broker that nobody writes metadata to meanwhile (no segment is being copied or deleted).
    :param timeout: seconds.
    :return: one line per record, by metadata partition and offset.
    :raises FormatterError: if one of the records up to the current end offsets could not be formatted.
    """
    wanted = _positions(kafka)
    if not wanted:
        return []
    output, log = _print_records(kafka, len(wanted), timeout)
    lines = {
        (int(position[1]), int(position[2])): line
        for line in output.splitlines()
        if (position := POSITION.match(line)) is not None
    }
    missing = sorted(wanted - lines.keys())
    if missing:
        positions = ", ".join(f"partition {partition} offset {offset}" for partition, offset in missing[:5])
        raise FormatterError(
            f"Kafka's formatter did not print {len(missing)} of {len(wanted)} records of {METADATA_TOPIC}: {positions}\n"
            + "\n".join(log[log.find(" ERROR ") + 1 :].splitlines()[:5])
        )
    return [lines[position] for position in sorted(wanted)]


def _positions(kafka: LocalKafka) -> set[tuple[int, int]]:
    """Metadata partition and offset of every record that the topic holds now."""
    from confluent_kafka import Consumer, TopicPartition

    with Consumer(kafka.client_config(group_id="unused")) as consumer:
        positions = set()
        for partition in range(kafka.metadata_partitions):
            low, high = consumer.get_watermark_offsets(TopicPartition(METADATA_TOPIC, partition), timeout=30)
            positions |= {(partition, offset) for offset in range(low, high)}
        return positions


def _print_records(kafka: LocalKafka, count: int, timeout: float) -> tuple[str, str]:
    """The console consumer's standard output, which holds the records, and its log."""
    try:
        done = kafka.run_tool(
            CONSOLE_CONSUMER,
            *("--bootstrap-server", kafka.bootstrap_servers, "--topic", METADATA_TOPIC, "--from-beginning"),
            *("--formatter", FORMATTER, "--max-messages", str(count), "--timeout-ms", str(int(timeout * 500))),
            # Otherwise the first record that it cannot format ends it, and the rest is missing too.
            "--skip-message-on-error",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        raise FormatterError(f"Kafka's console consumer did not end within {timeout:.0f} s") from error
    return done.stdout, done.stderr
