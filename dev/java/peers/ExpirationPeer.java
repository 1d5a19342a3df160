// SPDX-License-Identifier: Apache-2.0

package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import java.util.function.Function;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Says which remote segments Kafka's own {@code RLMExpirationTask} deletes in its first pass over a user partition.
 *
 * <p>Each line of standard input is a partition in JSON: {@code events}, values of {@code __remote_log_metadata} in hex; what its
 * leader knows, {@code leader_epochs} (pairs of epoch and start offset), {@code log_start_offset}, {@code log_end_offset},
 * {@code only_local_bytes}, {@code being_copied} (segment ids), {@code retention_ms}, {@code retention_bytes}, {@code now_ms}. Each
 * line of standard output is a list in JSON: the segment ids whose objects the task deletes, in that order, in hex.
 *
 * <p>The task is Kafka's, so are the cache of metadata and that of leader epochs; log, storage and clock only answer.
 */
public final class ExpirationPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final RemoteLogMetadataSerde SERDE = new RemoteLogMetadataSerde();
    private static final TopicPartition PARTITION = new TopicPartition("orders", 0);
    private static final Metrics METRICS = new Metrics();

    private final RemoteLogManager manager = bare(RemoteLogManager.class);
    private final AnsweringLog log = bare(AnsweringLog.class);
    private final Set<RemoteLogSegmentId> beingCopied = new HashSet<>();
    private final Constructor<?> task;
    private final Method cleanup;
    private RemoteLogMetadataCache cache;
    private Set<Uuid> deleted;
    private long now;

    private ExpirationPeer() throws ReflectiveOperationException {
        Class<?> type = Class.forName(RemoteLogManager.class.getName() + "$RLMExpirationTask");
        task = type.getDeclaredConstructor(RemoteLogManager.class, TopicIdPartition.class);
        task.setAccessible(true);
        cleanup = type.getDeclaredMethod("cleanupExpiredRemoteLogSegments");
        cleanup.setAccessible(true);
        Function<TopicPartition, Optional<UnifiedLog>> fetchLog = partition -> Optional.of(log);
        BiConsumer<TopicPartition, Long> begin = (partition, offset) -> log.begin(offset);
        set("fetchLog", fetchLog);
        set("updateRemoteLogStartOffset", begin);
        set("segmentIdsBeingCopied", beingCopied);
        set("brokerTopicStats", new BrokerTopicStats(true));
        set("time", proxy(Time.class, (self, method, values) -> method.getName().equals("milliseconds") ? (Object) now : now * 1_000_000));
        set("remoteStorageManagerPlugin", plugin(proxy(RemoteStorageManager.class, this::storage)));
        set("remoteLogMetadataManagerPlugin", plugin(proxy(RemoteLogMetadataManager.class, this::metadata)));
    }

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        ExpirationPeer peer = new ExpirationPeer();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(peer.deletedOf(JSON.readTree(line))));
            answers.flush();
        }
    }

    private List<String> deletedOf(JsonNode world) throws ReflectiveOperationException {
        TopicIdPartition partition = replay(world.get("events"));
        log.epochs = epochsOf(world.get("leader_epochs"));
        log.startOffset = -1;
        log.begin(world.get("log_start_offset").asLong());
        log.endOffset = world.get("log_end_offset").asLong();
        log.onlyLocalBytes = world.get("only_local_bytes").asLong();
        log.config = new LogConfig(Map.of(
            "retention.ms", world.get("retention_ms").asText(), "retention.bytes", world.get("retention_bytes").asText(),
            "local.retention.ms", "-2", "local.retention.bytes", "-2"));
        beingCopied.clear();
        world.get("being_copied").forEach(id -> beingCopied.add(new RemoteLogSegmentId(partition, uuid(id.asText()))));
        now = world.get("now_ms").asLong();
        deleted = new LinkedHashSet<>();
        cleanup.invoke(task.newInstance(manager, partition));
        return deleted.stream().map(ExpirationPeer::hex).toList();
    }

    private TopicIdPartition replay(JsonNode events) {
        cache = new RemoteLogMetadataCache();
        cache.markInitialized();
        TopicIdPartition partition = null;
        for (JsonNode event : events) {
            RemoteLogMetadata metadata = SERDE.deserialize(HexFormat.of().parseHex(event.asText()));
            partition = metadata.topicIdPartition();
            if (metadata instanceof RemoteLogSegmentMetadata added) {
                cache.addCopyInProgressSegment(added);
            } else {
                update((RemoteLogSegmentMetadataUpdate) metadata);
            }
        }
        return partition;
    }

    private void update(RemoteLogSegmentMetadataUpdate update) {
        try {
            cache.updateRemoteLogSegmentMetadata(update);
        } catch (RemoteResourceNotFoundException unknown) {
            // A broker's consumer goes on, too.
        }
    }

    private Object metadata(Object self, Method method, Object[] values) throws RemoteResourceNotFoundException {
        return switch (method.getName()) {
            case "listRemoteLogSegments" -> values.length == 1
                ? cache.listAllRemoteLogSegments() : cache.listRemoteLogSegments((Integer) values[1]);
            case "highestOffsetForEpoch" -> cache.highestOffsetForEpoch((Integer) values[1]);
            case "updateRemoteLogSegmentMetadata" -> {
                update((RemoteLogSegmentMetadataUpdate) values[0]);
                yield CompletableFuture.completedFuture(null);
            }
            default -> throw new UnsupportedOperationException(method.getName());
        };
    }

    private Object storage(Object self, Method method, Object[] values) {
        if (!method.getName().equals("deleteLogSegmentData")) {
            throw new UnsupportedOperationException(method.getName());
        }
        deleted.add(((RemoteLogSegmentMetadata) values[0]).remoteLogSegmentId().id());
        return null;
    }

    private static LeaderEpochFileCache epochsOf(JsonNode pairs) throws ReflectiveOperationException {
        List<EpochEntry> entries = new ArrayList<>();
        pairs.forEach(pair -> entries.add(new EpochEntry(pair.get(0).asInt(), pair.get(1).asLong())));
        // The public one writes its file at once.
        Constructor<LeaderEpochFileCache> constructor = LeaderEpochFileCache.class.getDeclaredConstructor(
            List.class, TopicPartition.class, LeaderEpochCheckpointFile.class, Scheduler.class);
        constructor.setAccessible(true);
        return constructor.newInstance(entries, PARTITION, null, proxy(Scheduler.class, (self, method, values) -> null));
    }

    private static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    private static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    private static <T> Plugin<T> plugin(T wrapped) {
        return Plugin.wrapInstance(wrapped, METRICS, "none");
    }

    private static <T> T proxy(Class<T> type, InvocationHandler answers) {
        return type.cast(Proxy.newProxyInstance(ExpirationPeer.class.getClassLoader(), new Class<?>[] {type}, answers));
    }

    private void set(String name, Object value) throws ReflectiveOperationException {
        Field field = RemoteLogManager.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(manager, value);
    }

    /** An object without its constructor's work: only what is asked of it is set. */
    private static <T> T bare(Class<T> type) throws ReflectiveOperationException {
        Class<?> unsafe = Class.forName("sun.misc.Unsafe");
        Field field = unsafe.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return type.cast(unsafe.getMethod("allocateInstance", Class.class).invoke(field.get(null), type));
    }

    /** A log that knows what the task asks of it, and has no disk. */
    private static final class AnsweringLog extends UnifiedLog {
        private LeaderEpochFileCache epochs;
        private LogConfig config;
        private long startOffset;
        private long endOffset;
        private long onlyLocalBytes;

        private AnsweringLog() throws IOException {
            super(0, null, null, 0, null, null, Optional.empty(), true, null);
        }

        /** As the task has a broker's log do it in mid-pass: never backwards, and the leader epochs are cut with it. */
        private void begin(long offset) {
            if (offset > startOffset) {
                startOffset = offset;
                epochs.truncateFromStartAsyncFlush(offset);
            }
        }

        @Override
        public LeaderEpochFileCache leaderEpochCache() {
            return epochs;
        }

        @Override
        public LogConfig config() {
            return config;
        }

        @Override
        public long logStartOffset() {
            return startOffset;
        }

        @Override
        public long logEndOffset() {
            return endOffset;
        }

        @Override
        public long onlyLocalLogSegmentsSize() {
            return onlyLocalBytes;
        }

        @Override
        public long size() {
            return onlyLocalBytes;
        }

        @Override
        public long highestOffsetInRemoteStorage() {
            return startOffset;
        }
    }
}
