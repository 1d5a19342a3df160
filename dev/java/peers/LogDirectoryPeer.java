// SPDX-License-Identifier: Apache-2.0

package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Lets Kafka's own {@code UnifiedLog} live through a random history in a directory, and says what its copier would say of each segment.
 *
 * <p>Each line of standard input is a request in JSON, {@code {"seed": n, "directory": path}}, each line of standard output its answer.
 * The log is left closed, or as a broker leaves it that is killed.
 */
public final class LogDirectoryPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Uuid TOPIC_ID = new Uuid(0L, 0x5EEDL);
    private static final short EPOCH = 0;

    private final Random random;
    private final File directory;
    private final LogConfig config;
    private final long now = System.currentTimeMillis();
    private final Map<Long, Integer> sequences = new HashMap<>();
    private final List<Long> open = new ArrayList<>();
    private UnifiedLog log;
    private int leaderEpoch;
    private long nextProducerId;
    private long logStartOffset;

    private LogDirectoryPeer(long seed, File directory) {
        random = new Random(seed);
        this.directory = directory;
        Map<String, Object> properties = new HashMap<>();
        properties.put("internal.segment.bytes", String.valueOf(4_000 + random.nextInt(5_000)));
        properties.put("segment.index.bytes", String.valueOf(random.nextBoolean() ? 2400 : 4096));
        properties.put("index.interval.bytes", String.valueOf(random.nextInt(800)));
        properties.put("message.timestamp.type", random.nextInt(4) == 0 ? "LogAppendTime" : "CreateTime");
        properties.put("file.delete.delay.ms", "0");
        config = new LogConfig(properties);
    }

    public static void main(String[] arguments) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = JSON.readTree(line);
            File directory = new File(request.get("directory").asText());
            out.println(JSON.writeValueAsString(new LogDirectoryPeer(request.get("seed").asLong(), directory).live()));
        }
    }

    private Map<String, Object> live() throws IOException {
        load(0, true);
        for (int steps = 30 + random.nextInt(150); steps > 0; steps--) {
            step();
        }
        log.updateHighWatermark(log.logEndOffset());
        Map<String, Object> answer = answer();
        if (random.nextBoolean()) {
            log.close();
        } else {
            log.closeHandlers();
        }
        return answer;
    }

    private void step() throws IOException {
        switch (random.nextInt(24)) {
            case 0 -> newEpoch();
            case 1 -> log.roll();
            case 2 -> {
                if (random.nextInt(3) == 0) {
                    truncate();
                }
            }
            case 3 -> {
                if (random.nextInt(3) == 0) {
                    deleteRecords();
                }
            }
            case 4 -> {
                if (random.nextInt(3) == 0) {
                    restart();
                }
            }
            case 5, 6, 7, 8 -> end(random.nextBoolean());
            case 9, 10, 11, 12, 13 -> append(producer(), true);
            case 14, 15 -> append(producer(), false);
            default -> append(RecordBatch.NO_PRODUCER_ID, false);
        }
        if (random.nextInt(4) == 0) {
            log.updateHighWatermark(log.logEndOffset());
        }
    }

    /** A producer that is known, or a new one. */
    private long producer() {
        if (!sequences.isEmpty() && random.nextInt(4) > 0) {
            return new ArrayList<>(sequences.keySet()).get(random.nextInt(sequences.size()));
        }
        sequences.put(nextProducerId, 0);
        return nextProducerId++;
    }

    private void append(long producerId, boolean transactional) throws IOException {
        boolean known = producerId != RecordBatch.NO_PRODUCER_ID;
        if (known && open.contains(producerId) != transactional && open.contains(producerId)) {
            return; // within its transaction a producer writes nothing else
        }
        int[] counts = {1, 1, 2, 5, 30};
        int count = counts[random.nextInt(counts.length)];
        int sequence = known ? sequences.get(producerId) : RecordBatch.NO_SEQUENCE;
        CompressionType codec = CompressionType.forId(random.nextInt(CompressionType.values().length));
        var buffer = ByteBuffer.allocate(16_384);
        try (MemoryRecordsBuilder builder = MemoryRecords.builder(
            buffer, RecordBatch.MAGIC_VALUE_V2, Compression.of(codec).build(), TimestampType.CREATE_TIME, 0L, now, producerId,
            known ? EPOCH : RecordBatch.NO_PRODUCER_EPOCH, sequence, transactional, RecordBatch.NO_PARTITION_LEADER_EPOCH)) {
            for (int i = 0; i < count; i++) {
                byte[] value = new byte[random.nextInt(100)];
                random.nextBytes(value);
                builder.append(random.nextInt(12) == 0 ? RecordBatch.NO_TIMESTAMP : now - random.nextInt(1000), null, value);
            }
            log.appendAsLeader(builder.build(), leaderEpoch);
        }
        if (known) {
            sequences.put(producerId, sequence + count);
        }
        if (transactional && !open.contains(producerId)) {
            open.add(producerId);
        }
    }

    /** Ends a transaction, or one that has no records. */
    private void end(boolean commit) throws IOException {
        if (sequences.isEmpty()) {
            return;
        }
        long producerId = open.isEmpty() || random.nextInt(6) == 0 ? producer() : open.get(random.nextInt(open.size()));
        open.remove(producerId);
        var marker = new EndTransactionMarker(commit ? ControlRecordType.COMMIT : ControlRecordType.ABORT, 0);
        log.appendAsLeader(
            MemoryRecords.withEndTransactionMarker(now - random.nextInt(1000), producerId, EPOCH, marker), leaderEpoch,
            AppendOrigin.COORDINATOR, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 1);
    }

    private void newEpoch() {
        leaderEpoch += 1 + random.nextInt(3);
        log.assignEpochStartOffset(leaderEpoch, log.logEndOffset());
    }

    /** As a follower that a new leader makes throw away what it has too much: always whole batches. */
    private void truncate() {
        List<Long> boundaries = new ArrayList<>();
        for (LogSegment segment : log.logSegments()) {
            for (RecordBatch batch : segment.log().batches()) {
                if (batch.baseOffset() >= Math.max(logStartOffset, log.logEndOffset() - 60)) {
                    boundaries.add(batch.baseOffset());
                }
            }
        }
        if (!boundaries.isEmpty()) {
            log.truncateTo(boundaries.get(random.nextInt(boundaries.size())));
            forgetProducers();
            newEpoch();
        }
    }

    private void deleteRecords() throws IOException {
        log.updateHighWatermark(log.logEndOffset());
        long length = log.logEndOffset() - logStartOffset;
        if (length > 0) {
            logStartOffset += random.nextInt((int) Math.min(length, 80));
            log.maybeIncrementLogStartOffset(logStartOffset, LogStartOffsetIncrementReason.ClientRecordDeletion);
            log.deleteOldSegments();
        }
    }

    private void restart() throws IOException {
        boolean clean = random.nextBoolean();
        if (clean) {
            log.close();
        } else {
            log.closeHandlers();
        }
        long end = log.logEndOffset();
        load(clean ? end : Math.max(0, end - random.nextInt(200)), clean);
        newEpoch();
    }

    private void load(long recoveryPoint, boolean clean) throws IOException {
        log = UnifiedLog.create(
            directory, config, logStartOffset, recoveryPoint, new Now(), new BrokerTopicStats(), Time.SYSTEM, Integer.MAX_VALUE,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE, new LogDirFailureChannel(1), clean,
            Optional.of(TOPIC_ID));
        forgetProducers();
    }

    /** What a producer has written may be gone: whoever goes on is a new one. */
    private void forgetProducers() {
        sequences.clear();
        open.clear();
    }

    private Map<String, Object> answer() throws IOException {
        List<Map<String, Object>> segments = new ArrayList<>();
        List<LogSegment> all = log.logSegments();
        for (int i = 0; i + 1 < all.size(); i++) {
            LogSegment segment = all.get(i);
            long next = all.get(i + 1).baseOffset();
            Map<String, Object> told = new TreeMap<>();
            told.put("base_offset", segment.baseOffset());
            told.put("end_offset", next - 1);
            told.put("size_in_bytes", segment.log().sizeInBytes());
            told.put("max_timestamp_ms", segment.largestTimestamp());
            told.put("leader_epochs", epochs(segment.baseOffset(), next));
            told.put("epochs_to_copy", epochs(-1, next));
            told.put("txn_index_empty", segment.txnIndex().isEmpty());
            told.put("has_snapshot", log.producerStateManager().fetchSnapshot(next).isPresent());
            segments.add(told);
        }
        Map<String, Object> answer = new TreeMap<>();
        answer.put("segments", segments);
        answer.put("log_start_offset", log.logStartOffset());
        answer.put("high_watermark", log.highWatermark());
        answer.put("last_stable_offset", log.lastStableOffset());
        return answer;
    }

    private List<List<Long>> epochs(long start, long end) {
        List<List<Long>> entries = new ArrayList<>();
        for (EpochEntry entry : log.leaderEpochCache().epochEntriesInRange(start, end)) {
            entries.add(List.of((long) entry.epoch(), entry.startOffset()));
        }
        return entries;
    }

    /** Does at once what a broker does soon, and nothing of what it does again and again. */
    private static final class Now implements Scheduler {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (periodMs < 0) {
                task.run();
            }
            return new Done();
        }

        @Override
        public void resizeThreadPool(int newSize) {
        }
    }

    private static final class Done extends CompletableFuture<Void> implements ScheduledFuture<Void> {
        Done() {
            complete(null);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }
}
