// SPDX-License-Identifier: Apache-2.0

package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;

/**
 * Says what Kafka's own classes make of values of {@code __remote_log_metadata}; it lies in their package because that is
 * where they can be called from.
 *
 * <p>On standard input, big-endian: the number of values (negative: forget everything, no answer), each as length (-1: null)
 * and bytes; the number of probes, each a leader epoch (int) and an offset (long). The answer is a line of JSON with one
 * character per value, what ended a consumer by row, and all that the caches answer, the probes asked of each user partition:
 *
 * <ul>
 * <li>{@code a} applied, {@code d} dropped, {@code t} thrown out of the cache: the consumer of a broker would end;
 * <li>{@code A}, {@code D}, {@code T}: the partition was DELETE_PARTITION_FINISHED before, so that the consumer of a broker
 *     which serves it ends in any case; what would become of the event on one that begins to serve it anew;
 * <li>{@code r} refused: the value has no user partition, the consumer would end.
 * </ul>
 *
 * <p>Here every user partition is served from its first event on, and a consumer that ended goes on behind the value.
 */
public final class MetadataReplay {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
    private KafkaStore served = new KafkaStore();
    private KafkaStore servedAnew = new KafkaStore();

    private MetadataReplay() {
    }

    public static void main(String[] arguments) throws IOException {
        MetadataReplay replay = new MetadataReplay();
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
             OutputStream out = new BufferedOutputStream(System.out, 1 << 16)) {
            while (true) {
                int count;
                try {
                    count = in.readInt();
                } catch (EOFException end) {
                    return;
                }
                if (count < 0) {
                    replay = new MetadataReplay();
                    continue;
                }
                Map<String, Object> answer = replay.apply(readValues(in, count));
                answer.put("partitions", replay.describe(readProbes(in)));
                out.write(JSON.writeValueAsBytes(answer));
                out.write('\n');
                out.flush();
            }
        }
    }

    private record Probe(int leaderEpoch, long offset) {
    }

    private static List<byte[]> readValues(DataInputStream in, int count) throws IOException {
        List<byte[]> values = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            int length = in.readInt();
            values.add(length < 0 ? null : in.readNBytes(length));
        }
        return values;
    }

    private static List<Probe> readProbes(DataInputStream in) throws IOException {
        int count = in.readInt();
        List<Probe> probes = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            probes.add(new Probe(in.readInt(), in.readLong()));
        }
        return probes;
    }

    private Map<String, Object> apply(List<byte[]> values) {
        StringBuilder outcomes = new StringBuilder(values.size());
        Map<Integer, String> thrown = new TreeMap<>();
        for (byte[] value : values) {
            try {
                RemoteLogMetadata event = serde.deserialize(value);
                outcomes.append(apply(event, event.topicIdPartition(), thrown, outcomes.length()));
            } catch (Exception e) {
                // As ConsumerTask does: whatever is no Error ends it in good order.
                thrown.put(outcomes.length(), e.toString());
                outcomes.append('r');
            }
        }
        Map<String, Object> answer = new TreeMap<>();
        answer.put("outcomes", outcomes.toString());
        answer.put("thrown", thrown);
        return answer;
    }

    private char apply(RemoteLogMetadata event, TopicIdPartition partition, Map<Integer, String> thrown, int row) {
        served.serveOnce(partition);
        servedAnew.serve(partition);
        boolean ended = false;
        try {
            served.handle(event);
        } catch (Exception e) {
            thrown.put(row, e.toString());
            ended = true;
        }
        char outcome;
        try {
            outcome = servedAnew.handle(event) ? 'a' : 'd';
        } catch (Exception e) {
            outcome = 't';
        }
        // Only a cache that is no longer there makes the one throw and not the other, and it does so before anything else.
        return ended && !served.serves(partition) ? Character.toUpperCase(outcome) : outcome;
    }

    private List<Object> describe(List<Probe> probes) {
        List<Object> partitions = new ArrayList<>();
        for (TopicIdPartition partition : served.everServed()) {
            Map<String, Object> answers = new TreeMap<>();
            answers.put("partition", List.of(hex(partition.topicId()), partition.topic(), partition.partition()));
            answers.put("served", served.serves(partition));
            answers.put("deletion", describe(served.deletion(partition)));
            describe(servedAnew.cache(partition), probes, answers);
            partitions.add(answers);
        }
        return partitions;
    }

    private static List<Object> describe(RemotePartitionDeleteMetadata deletion) {
        return deletion == null ? null
            : List.of(deletion.state().id(), deletion.eventTimestampMs(), deletion.brokerId());
    }

    private static void describe(RemoteLogMetadataCache cache, List<Probe> probes, Map<String, Object> answers) {
        answers.put("segments", sorted(cache.listAllRemoteLogSegments(), MetadataReplay::fields));
        Map<Integer, List<Object>> listed = new TreeMap<>();
        Map<Integer, Long> highest = new TreeMap<>();
        for (int epoch : new TreeSet<>(cache.leaderEpochEntries.keySet())) {
            cache.highestOffsetForEpoch(epoch).ifPresent(offset -> highest.put(epoch, offset));
            try {
                List<Object> ids = sorted(cache.listRemoteLogSegments(epoch), MetadataReplay::idOf);
                if (!ids.isEmpty()) {
                    listed.put(epoch, ids);
                }
            } catch (RemoteResourceNotFoundException e) {
                listed.put(epoch, null);
            }
        }
        answers.put("listed", listed);
        answers.put("highest", highest);
        List<String> found = new ArrayList<>();
        for (Probe probe : probes) {
            found.add(cache.remoteLogSegmentMetadata(probe.leaderEpoch(), probe.offset())
                .map(MetadataReplay::idOf).orElse(null));
        }
        answers.put("found", found);
    }

    private static List<Object> sorted(
        Iterator<RemoteLogSegmentMetadata> segments, Function<RemoteLogSegmentMetadata, Object> description) {
        // A list may hold a segment twice; that must be seen.
        Map<String, List<Object>> byId = new TreeMap<>();
        segments.forEachRemaining(segment ->
            byId.computeIfAbsent(idOf(segment), id -> new ArrayList<>()).add(description.apply(segment)));
        List<Object> all = new ArrayList<>();
        byId.values().forEach(all::addAll);
        return all;
    }

    private static List<Object> fields(RemoteLogSegmentMetadata segment) {
        List<Object> epochs = new ArrayList<>();
        segment.segmentLeaderEpochs().forEach((epoch, startOffset) -> epochs.add(List.of(epoch, startOffset)));
        List<Object> fields = new ArrayList<>();
        fields.add(idOf(segment));
        fields.add(segment.startOffset());
        fields.add(segment.endOffset());
        fields.add(segment.maxTimestampMs());
        fields.add(segment.brokerId());
        fields.add(segment.eventTimestampMs());
        fields.add(segment.segmentSizeInBytes());
        fields.add(segment.customMetadata().map(CustomMetadata::value).map(HexFormat.of()::formatHex).orElse(null));
        fields.add(segment.state().id());
        fields.add(epochs);
        fields.add(segment.isTxnIdxEmpty());
        return fields;
    }

    private static String idOf(RemoteLogSegmentMetadata segment) {
        return hex(segment.remoteLogSegmentId().id());
    }

    private static String hex(Uuid id) {
        return HexFormat.of().toHexDigits(id.getMostSignificantBits())
            + HexFormat.of().toHexDigits(id.getLeastSignificantBits());
    }

    /** Kafka's store, and what it keeps to itself. */
    private static final class KafkaStore {
        private final RemotePartitionMetadataStore store = new RemotePartitionMetadataStore();
        private final Map<TopicIdPartition, RemoteLogMetadataCache> caches =
            field(store, "idToRemoteLogMetadataCache");
        private final Map<TopicIdPartition, RemotePartitionDeleteMetadata> deletions =
            field(store, "idToPartitionDeleteMetadata");
        private final Map<String, TopicIdPartition> everServed = new TreeMap<>();

        void serveOnce(TopicIdPartition partition) {
            if (everServed.putIfAbsent(partition.topicId() + "/" + partition, partition) == null) {
                serve(partition);
            }
        }

        void serve(TopicIdPartition partition) {
            store.maybeLoadPartition(partition);
            store.markInitialized(partition);
        }

        Iterable<TopicIdPartition> everServed() {
            return everServed.values();
        }

        boolean serves(TopicIdPartition partition) {
            return caches.containsKey(partition);
        }

        RemoteLogMetadataCache cache(TopicIdPartition partition) {
            return caches.getOrDefault(partition, new RemoteLogMetadataCache());
        }

        RemotePartitionDeleteMetadata deletion(TopicIdPartition partition) {
            return deletions.get(partition);
        }

        /** Returns whether the event changed anything: Kafka drops an event with no more than a line in its log. */
        boolean handle(RemoteLogMetadata event) {
            if (event instanceof RemotePartitionDeleteMetadata) {
                store.handleRemoteLogMetadata(event);
                return true;
            }
            RemoteLogSegmentId id = event instanceof RemoteLogSegmentMetadata segment
                ? segment.remoteLogSegmentId() : ((RemoteLogSegmentMetadataUpdate) event).remoteLogSegmentId();
            // Every event that is applied puts an object of its own into the cache, or takes one out.
            RemoteLogSegmentMetadata before = cache(event.topicIdPartition()).idToSegmentMetadata.get(id);
            store.handleRemoteLogMetadata(event);
            return cache(event.topicIdPartition()).idToSegmentMetadata.get(id) != before;
        }

        @SuppressWarnings("unchecked")
        private static <T> T field(RemotePartitionMetadataStore store, String name) {
            try {
                Field field = RemotePartitionMetadataStore.class.getDeclaredField(name);
                field.setAccessible(true);
                return (T) field.get(store);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException("this is not the Kafka that dev/pom.xml names", e);
            }
        }
    }
}
