// SPDX-License-Identifier: Apache-2.0

package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.ByteUtils;
import org.apache.kafka.common.utils.Crc32C;
import org.apache.kafka.server.log.remote.metadata.storage.generated.ProducerSnapshot;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.TimeIndex;
import org.apache.kafka.storage.internals.log.TimestampOffset;
import org.apache.kafka.storage.internals.log.TransactionIndex;
import org.apache.kafka.storage.internals.log.TxnIndexSearchResult;

/**
 * Writes random record batches, indexes and producer snapshots with Kafka's own classes, and says what these read from bytes.
 *
 * <p>Each line of standard input is a request in JSON, each line of standard output its answer. Bytes are in hex.
 *
 * <ul>
 * <li>{@code {"do": "write", "seed": n}}: a random log; the answer is that of reading it, with the bytes as {@code log}.
 * <li>{@code {"do": "read", "log": hex}}: {@code batches} and {@code records}, those of control batches included, or {@code error}.
 * <li>{@code {"do": "indexes", "seed": n}}: each index with its bytes and what looking up some random words in it gives.
 * </ul>
 */
public final class LogSegmentPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final int[] SIZES = {-1, -1, 0, 1, 4, 11, 12, 13, 62, 63, 64, 100, 1000, 8191, 8192, 20_000};
    private static final int LOOKUPS = 40;

    private LogSegmentPeer() {
    }

    public static void main(String[] arguments) throws IOException {
        Path folder = Files.createTempDirectory("log-segment-peer");
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = JSON.readTree(line);
            out.println(JSON.writeValueAsString(switch (request.get("do").asText()) {
                case "write" -> write(new Random(request.get("seed").asLong()));
                case "read" -> read(HEX.parseHex(request.get("log").asText()));
                default -> indexes(new Random(request.get("seed").asLong()), folder);
            }));
        }
        Files.delete(folder);
    }

    private static Map<String, Object> write(Random random) {
        var log = new ByteBufferOutputStream(1 << 16);
        long[] bases = {0, 0, 1000, (1L << 31) - 20, 1L << 62};
        long offset = bases[random.nextInt(bases.length)];
        int leaderEpoch = random.nextInt(3);
        int oneCodec = random.nextInt(10);
        for (int batch = 1 + random.nextInt(30); batch > 0; batch--) {
            int codec = oneCodec < CompressionType.values().length ? oneCodec : random.nextInt(CompressionType.values().length);
            MemoryRecords records = batch(random, offset, leaderEpoch, CompressionType.forId(codec));
            offset = records.lastBatch().orElseThrow().nextOffset() + (random.nextInt(8) == 0 ? random.nextInt(1000) : 0);
            leaderEpoch += random.nextInt(10) == 0 ? 1 + random.nextInt(4) : 0;
            log.write(random.nextInt(4) == 0 ? compacted(random, records) : records.buffer());
        }
        byte[] bytes = Arrays.copyOf(log.buffer().array(), log.buffer().position());
        Map<String, Object> answer = read(bytes);
        answer.put("log", HEX.formatHex(bytes));
        return answer;
    }

    private static MemoryRecords batch(Random random, long baseOffset, int leaderEpoch, CompressionType codec) {
        boolean isControl = random.nextInt(8) == 0;
        boolean isTransactional = isControl || random.nextInt(4) == 0;
        boolean isIdempotent = isTransactional || random.nextInt(3) == 0;
        boolean appended = !isControl && random.nextInt(4) == 0;
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(512), RecordBatch.MAGIC_VALUE_V2,
            isControl ? Compression.NONE : Compression.of(codec).build(),
            appended ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME, baseOffset,
            appended ? timestamp(random, 1_700_000_000_000L) : RecordBatch.NO_TIMESTAMP,
            isIdempotent ? random.nextInt(5) : RecordBatch.NO_PRODUCER_ID,
            isIdempotent ? (short) random.nextInt(4) : RecordBatch.NO_PRODUCER_EPOCH,
            isIdempotent && !isControl ? random.nextInt(Integer.MAX_VALUE) : RecordBatch.NO_SEQUENCE,
            isTransactional, isControl, leaderEpoch, Integer.MAX_VALUE)) {
            if (isControl) {
                ControlRecordType type = random.nextBoolean() ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
                builder.appendEndTxnMarker(1_700_000_000_000L, new EndTransactionMarker(type, random.nextInt(9)));
            } else {
                append(random, builder, baseOffset);
            }
            return builder.build();
        }
    }

    private static void append(Random random, MemoryRecordsBuilder builder, long baseOffset) {
        int[] counts = {1, 1, 2, 3, 20, 200};
        long offset = baseOffset;
        int largest = 1 + random.nextInt(SIZES.length);
        for (int left = counts[random.nextInt(counts.length)]; left > 0; left--) {
            Header[] headers = new Header[random.nextInt(3) > 0 ? 0 : random.nextInt(5)];
            for (int i = 0; i < headers.length; i++) {
                String[] keys = {"", "a", "\u00fc", "k".repeat(12), "key".repeat(20)};
                headers[i] = new RecordHeader(keys[random.nextInt(keys.length)], bytes(random, largest));
            }
            builder.appendWithOffset(offset, timestamp(random, 1_700_000_000_000L), bytes(random, largest), bytes(random, largest), headers);
            offset += random.nextInt(10) == 0 ? 1 + random.nextInt(100) : 1;
        }
        if (random.nextInt(10) == 0) {
            builder.overrideLastOffset(offset + random.nextInt(100));
        }
    }

    private static long timestamp(Random random, long usual) {
        return switch (random.nextInt(40)) {
            case 0 -> RecordBatch.NO_TIMESTAMP;
            case 1 -> 0;
            case 2 -> Long.MAX_VALUE;
            default -> usual + random.nextInt(100_000);
        };
    }

    private static byte[] bytes(Random random, int largest) {
        int size = SIZES[random.nextInt(largest)];
        if (size < 0) {
            return null;
        }
        byte[] bytes = new byte[size];
        random.nextBytes(bytes);
        if (random.nextBoolean()) {
            // Something to be compressed.
            Arrays.fill(bytes, (byte) 'x');
        }
        return bytes;
    }

    /** What is left of batches when the log cleaner has been there: gaps, empty batches, delete horizons. */
    private static ByteBuffer compacted(Random random, MemoryRecords records) {
        var kept = new RecordFilter(1_700_000_500_000L, 86_400_000L) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(RecordFilter.BatchRetention.RETAIN_EMPTY, random.nextBoolean());
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return random.nextInt(3) > 0;
            }
        };
        MemoryRecords.FilterResult result = records.filterTo(kept, ByteBuffer.allocate(512), BufferSupplier.NO_CACHING);
        ByteBuffer output = result.outputBuffer();
        output.flip();
        return output;
    }

    private static Map<String, Object> read(byte[] log) {
        Map<String, Object> answer = new TreeMap<>();
        List<List<Object>> batches = new ArrayList<>();
        List<List<Object>> records = new ArrayList<>();
        try {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(log)).batches()) {
                batch.ensureValid();
                batches.add(described(batch));
                for (Record record : batch) {
                    records.add(described(record));
                }
            }
        } catch (RuntimeException | Error e) {
            // Damaged snappy ends in an error of its own; bytes that claim a length are believed before they are read.
            answer.put("error", e.toString());
        }
        answer.put("batches", batches);
        answer.put("records", records);
        return answer;
    }

    private static List<Object> described(MutableRecordBatch batch) {
        return Arrays.asList(
            batch.sizeInBytes(), batch.baseOffset(), batch.lastOffset(), batch.partitionLeaderEpoch(), batch.checksum(),
            ((DefaultRecordBatch) batch).baseTimestamp(), batch.maxTimestamp(), batch.producerId(), batch.producerEpoch(),
            batch.baseSequence(), batch.countOrNull(), batch.compressionType().id,
            batch.timestampType() == TimestampType.LOG_APPEND_TIME, batch.isTransactional(), batch.isControlBatch());
    }

    private static List<Object> described(Record record) {
        List<List<Object>> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(Arrays.asList(header.key(), header.value() == null ? null : HEX.formatHex(header.value())));
        }
        return Arrays.asList(record.offset(), record.timestamp(), hex(record.key()), hex(record.value()), headers);
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }

    private static Map<String, Object> indexes(Random random, Path folder) throws IOException {
        long[] bases = {0, 1000, (1L << 31) + 5, Long.MAX_VALUE - Integer.MAX_VALUE};
        long base = bases[random.nextInt(bases.length)];
        int entries = random.nextInt(5) == 0 ? 0 : random.nextInt(400);
        Map<String, Object> answer = new TreeMap<>();
        answer.put("base_offset", base);
        answer.put("offset_index", offsetIndex(random, base, entries, folder.resolve("offset").toFile()));
        answer.put("time_index", timeIndex(random, base, entries, folder.resolve("time").toFile()));
        answer.put("transaction_index", transactionIndex(random, base, entries, folder.resolve("txn").toFile()));
        answer.put("producer_snapshot", producerSnapshot(random, entries, folder.resolve("snapshot")));
        return answer;
    }

    private static Map<String, Object> offsetIndex(Random random, long base, int entries, File file) throws IOException {
        List<List<Object>> found = new ArrayList<>();
        try (OffsetIndex index = new OffsetIndex(file, base, 1 << 13)) {
            int step = 1 + random.nextInt(1_000_000);
            long offset = base + random.nextInt(step);
            int position = random.nextInt(5000);
            for (int i = 0; i < entries; i++) {
                index.append(offset, position);
                offset += 1 + random.nextInt(step);
                position += 1 + random.nextInt(1_000_000);
            }
            index.trimToValidSize();
            for (int i = 0; i < LOOKUPS; i++) {
                long target = base - 2 + (long) (random.nextDouble() * (offset - base + 4));
                OffsetPosition position1 = index.lookup(target);
                found.add(Arrays.asList(target, position1.position()));
            }
        }
        return taken(file.toPath(), found);
    }

    private static Map<String, Object> timeIndex(Random random, long base, int entries, File file) throws IOException {
        List<List<Object>> found = new ArrayList<>();
        try (TimeIndex index = new TimeIndex(file, base, 1 << 13)) {
            long timestamp = random.nextInt(1000);
            long offset = base;
            for (int i = 0; i < entries; i++) {
                index.maybeAppend(timestamp, offset, true);
                timestamp += random.nextInt(50);
                offset += random.nextInt(1000);
            }
            index.trimToValidSize();
            for (int i = 0; i < LOOKUPS; i++) {
                long target = (long) (random.nextDouble() * (timestamp + 4)) - 2;
                TimestampOffset entry = index.lookup(target);
                found.add(Arrays.asList(target, entry.timestamp(), entry.offset()));
            }
            found.add(Arrays.asList(Long.MAX_VALUE, index.lastEntry().timestamp(), index.lastEntry().offset()));
        }
        return taken(file.toPath(), found);
    }

    private static Map<String, Object> transactionIndex(Random random, long base, int entries, File file) throws IOException {
        List<List<Object>> found = new ArrayList<>();
        TransactionIndex index = new TransactionIndex(base, file);
        long last = base;
        for (int i = 0; i < entries; i++) {
            last += 1 + random.nextInt(50);
            long first = Math.max(0, last - 1 - random.nextInt(100));
            index.append(new AbortedTxn(random.nextInt(20), first, last, random.nextBoolean() ? last + 1 : Math.max(0, first - random.nextInt(100))));
        }
        for (int i = 0; i < LOOKUPS; i++) {
            long from = base + (long) (random.nextDouble() * (last - base + 2));
            long to = from + 1 + random.nextInt(200);
            TxnIndexSearchResult result = index.collectAbortedTxns(from, to);
            List<List<Long>> aborted = new ArrayList<>();
            for (AbortedTxn entry : result.abortedTransactions()) {
                aborted.add(List.of(entry.producerId(), entry.firstOffset(), entry.lastOffset(), entry.lastStableOffset()));
            }
            found.add(Arrays.asList(from, to, aborted, result.isComplete()));
        }
        index.flush();
        index.close();
        if (!file.exists()) {
            Files.createFile(file.toPath());
        }
        return taken(file.toPath(), found);
    }

    private static Map<String, Object> producerSnapshot(Random random, int entries, Path file) throws IOException {
        var snapshot = new ProducerSnapshot();
        for (int i = 0; i < entries; i++) {
            boolean hasWritten = random.nextInt(4) > 0;
            snapshot.producerEntries().add(new ProducerSnapshot.ProducerEntry()
                .setProducerId(random.nextInt(4) == 0 ? random.nextLong() & Long.MAX_VALUE : i)
                .setEpoch((short) random.nextInt(Short.MAX_VALUE))
                .setLastSequence(hasWritten ? random.nextInt(Integer.MAX_VALUE) : -1)
                .setLastOffset(hasWritten ? random.nextLong() & Long.MAX_VALUE : -1)
                .setOffsetDelta(hasWritten ? random.nextInt(1000) : 0)
                .setTimestamp(random.nextLong())
                .setCoordinatorEpoch(random.nextInt(10) - 1)
                .setCurrentTxnFirstOffset(random.nextInt(3) == 0 ? random.nextLong() & Long.MAX_VALUE : -1));
        }
        ByteBuffer buffer = MessageUtil.toVersionPrefixedByteBuffer((short) 1, snapshot);
        ByteUtils.writeUnsignedInt(buffer, 2, Crc32C.compute(buffer, 6, buffer.limit() - 6));
        try (RandomAccessFile written = new RandomAccessFile(file.toFile(), "rw")) {
            written.getChannel().write(buffer);
        }
        List<List<Object>> found = new ArrayList<>();
        for (ProducerStateEntry entry : ProducerStateManager.readSnapshot(file.toFile())) {
            var open = entry.currentTxnFirstOffset();
            found.add(Arrays.asList(
                entry.producerId(), entry.producerEpoch(), entry.lastDataOffset(), entry.lastTimestamp(),
                entry.coordinatorEpoch(), open.isPresent() ? (Object) open.getAsLong() : null));
        }
        return taken(file, found);
    }

    private static Map<String, Object> taken(Path file, List<List<Object>> found) throws IOException {
        Map<String, Object> answer = new TreeMap<>();
        answer.put("bytes", HEX.formatHex(Files.readAllBytes(file)));
        answer.put("found", found);
        Files.delete(file);
        return answer;
    }
}
