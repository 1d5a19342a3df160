# SPDX-License-Identifier: Apache-2.0
"""How a restore goes on that was interrupted: only behind exactly the first records of its source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import RestoreError
from airflow_provider_rlmm.core.base.file_systems import create_file, read_file
from airflow_provider_rlmm.features.archiving.restore_document import MAX_RESTORE_BYTES, RestoreDocument, uri_of

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.log.answers import TargetTopic
    from airflow_provider_rlmm.core.log.kafka.restore_target import RestoreTarget
    from airflow_provider_rlmm.features.archiving.restore_rules import RecordsToRestore

LOOK_EVERY_S: Final = 2.0
MOST_WAITS: Final = 3
"""So many delivery time-outs are waited for a topic to rest; longer, and another producer writes into it."""


def read_begun(uri: str) -> RestoreDocument | None:
    """
    Return what a restore into a topic has promised, ``None`` where none was begun.

    :param uri: of its document.
    :raises RestoreError: if it cannot be read.
    """
    try:
        text = bytes(read_file(uri, MAX_RESTORE_BYTES)).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise RestoreError(
            f"the document of an earlier restore, {uri}, cannot be read ({e}): nothing is written"
        ) from e
    return RestoreDocument.from_json(text)


def write_begun(work_uri: str, document: RestoreDocument) -> None:
    """
    Write down what is promised, before the first record is written.

    :param work_uri: the work folder.
    :param document: what is promised.
    :raises RestoreError: if it cannot be written, or another restore into the topic has begun meanwhile.
    """
    uri = uri_of(work_uri, document.cluster_id, document.topic_id)
    try:
        create_file(uri, [document.to_json().encode()])
    except OSError as e:
        raise RestoreError(
            f"nothing was written: the document of the restore cannot be ({uri}: {e}), and without it no restore can go on"
        ) from e


def at_rest(
    target: RestoreTarget,
    look: TargetTopic,
    rest_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> TargetTopic:
    """
    Wait until a topic has not grown for some time: what an interrupted producer had sent may still arrive.

    :param target: the topic.
    :param look: what it was when it was looked at first.
    :param rest_s: for how long its end offsets must not move, s: the delivery time-out of the producer.
    :param clock: seconds, monotonic.
    :param sleep: waits for seconds.
    :return: what the topic is then.
    :raises RestoreError: if it was replaced, or goes on to grow.
    """
    began = since = clock()
    while clock() - since < rest_s:
        sleep(min(LOOK_EVERY_S, rest_s))
        now = target.look()
        if now.topic_id != look.topic_id:
            raise RestoreError(f"topic {look.topic} was replaced: restore into the new one")
        if (now.begins, now.ends) != (look.begins, look.ends):
            since = clock()
        if clock() - began > MOST_WAITS * rest_s:
            raise RestoreError(
                f"topic {look.topic} goes on to grow: another restore is at work, or another producer writes into it. Stop "
                "that, then run the same restore again"
            )
        look = now
    return look


def require_first_records(
    where: str,
    source: Iterable[pa.RecordBatch],
    there: Iterable[pa.RecordBatch],
    count: int,
    columns: tuple[str, ...],
) -> None:
    """
    Refuse to go on behind anything but the first records of the source.

    :param where: the user partition, in words.
    :param source: the records of the source, from the first on.
    :param there: what the topic holds.
    :param count: how many it holds.
    :param columns: those that count.
    :raises RestoreError: if these are not the first records of the source.
    """
    from airflow_provider_rlmm.features.archiving.archive.content import ContentDigest

    expected, found = ContentDigest(columns), ContentDigest(columns)
    for batch in first_records(source, count):
        expected.update(batch)
    for batch in there:
        found.update(batch)
    if (found.count, found.hexdigest()) != (expected.count, expected.hexdigest()):
        raise RestoreError(
            f"{where} holds {number_of(found.count, 'record')} that are not the first ones of the source: another "
            "producer has written into the topic, or it lost some. Delete it, and restore into a new one"
        )


def columns_of(expected: RecordsToRestore) -> tuple[str, ...]:
    """
    Return the columns that are compared: the offsets are among them where a header says them.

    :param expected: what is to be written.
    """
    from airflow_provider_rlmm.features.archiving.archive.content import WITH_OFFSETS, WITHOUT_OFFSETS

    return WITHOUT_OFFSETS if expected.offsets_sha256 is None else WITH_OFFSETS


def first_records(batches: Iterable[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """
    Yield the first records.

    :param batches: of all records.
    :param count: how many of them.
    """
    left = count
    for batch in batches:
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def behind(batches: Iterable[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """
    Yield all but the first records.

    :param batches: of all records.
    :param count: how many are left out.
    """
    left = count
    for batch in batches:
        if left < batch.num_rows:
            yield batch.slice(left)
        left = max(left - batch.num_rows, 0)
