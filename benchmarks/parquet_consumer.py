# SPDX-License-Identifier: Apache-2.0
"""The peer of ``rlmm read --output``: what somebody writes who has the records served by a broker, in a dozen lines."""

import sys
from importlib.abc import MetaPathFinder


class WithoutPandas(MetaPathFinder):
    """Hides pandas from pyarrow, as the command does."""

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        """See :class:`importlib.abc.MetaPathFinder`."""
        if fullname.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(fullname)


sys.meta_path.insert(0, WithoutPandas())

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from confluent_kafka import Consumer, TopicPartition  # noqa: E402

servers, topic, end, file = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
header = pa.struct({"key": pa.string(), "value": pa.binary()})
columns = {
    "offset": pa.int64(),
    "timestamp": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(header),
}
schema = pa.schema(columns)
# Checksums as the reader compares them; small answers, and pauses where the queue is full, slow it down.
tuned = {"check.crcs": True, "fetch.message.max.bytes": 8 * 2**20, "fetch.queue.backoff.ms": 10}
consumer = Consumer({"bootstrap.servers": servers, "group.id": "peer", "enable.auto.commit": False, **tuned})
consumer.assign([TopicPartition(topic, 0, 0)])
with pq.ParquetWriter(file, schema, compression="zstd") as writer:
    read = 0
    while read < end:
        messages = consumer.consume(min(10_000, end - read), 60.0)
        fields = (lambda m: m.offset(), lambda m: m.timestamp()[1], lambda m: m.key(), lambda m: m.value())
        headers = [[{"key": key, "value": value} for key, value in m.headers() or ()] for m in messages]
        writer.write_batch(pa.record_batch([*([of(m) for m in messages] for of in fields), headers], schema=schema))
        read += len(messages)
consumer.close()
