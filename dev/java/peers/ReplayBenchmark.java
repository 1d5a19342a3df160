// SPDX-License-Identifier: Apache-2.0

package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;

/**
 * Kafka's serde and caches on one thread, measured.
 *
 * <p>One command per line on standard input, one line of numbers as its answer; the process stays warm in between:
 *
 * <ul>
 * <li>{@code load <file>}: read values as {@code benchmarks/workload.py} writes them; their number;
 * <li>{@code decode}: deserialize all; nanoseconds, number of values;
 * <li>{@code replay}: deserialize all into a cache per user partition; nanoseconds, number of live segments;
 * <li>{@code memory}: the same; bytes on the heap that the caches hold, number of live segments;
 * <li>{@code topic <bootstrap servers> <topic>}: consume all of a topic into caches; nanoseconds, number of records, number of
 *     live segments.
 * </ul>
 */
public final class ReplayBenchmark {
    private final RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
    private byte[][] values = {};
    /** The compiler must not find out that nobody needs the records, or it would never make them. */
    private final RemoteLogMetadata[] latest = new RemoteLogMetadata[1 << 10];
    private long unknownSegments;

    private ReplayBenchmark() {
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        ReplayBenchmark benchmark = new ReplayBenchmark();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(benchmark.run(line.split(" ")));
        }
    }

    private String run(String[] command) throws IOException, InterruptedException {
        return switch (command[0]) {
            case "load" -> load(Path.of(command[1]));
            case "decode" -> decode();
            case "replay" -> replay();
            case "memory" -> memory();
            case "topic" -> topic(command[1], command[2]);
            default -> throw new IllegalArgumentException("no command " + command[0]);
        };
    }

    private String load(Path file) throws IOException {
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file), 1 << 20))) {
            byte[][] loaded = new byte[in.readInt()][];
            ByteBuffer lengths = ByteBuffer.wrap(in.readNBytes(4 * loaded.length));
            for (int i = 0; i < loaded.length; i++) {
                loaded[i] = in.readNBytes(lengths.getInt());
            }
            values = loaded;
        }
        return Integer.toString(values.length);
    }

    private String decode() {
        long started = System.nanoTime();
        for (int i = 0; i < values.length; i++) {
            latest[i % latest.length] = serde.deserialize(values[i]);
        }
        return System.nanoTime() - started + " " + values.length;
    }

    private String replay() {
        long started = System.nanoTime();
        Map<TopicIdPartition, RemoteLogMetadataCache> caches = replayed();
        return System.nanoTime() - started + " " + live(caches);
    }

    private String memory() throws InterruptedException {
        // Whatever is created once only.
        replayed();
        long before = used();
        Map<TopicIdPartition, RemoteLogMetadataCache> caches = replayed();
        long after = used();
        return after - before + " " + live(caches);
    }

    private static long used() throws InterruptedException {
        Runtime runtime = Runtime.getRuntime();
        long used = Long.MAX_VALUE;
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(50);
            used = Math.min(used, runtime.totalMemory() - runtime.freeMemory());
        }
        return used;
    }

    private String topic(String bootstrapServers, String topic) {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", bootstrapServers, "enable.auto.commit", false, "auto.offset.reset", "earliest",
            "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class);
        long started = System.nanoTime();
        Map<TopicIdPartition, RemoteLogMetadataCache> caches = new HashMap<>();
        long records = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(info -> new TopicPartition(topic, info.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long left = consumer.endOffsets(partitions).values().stream().mapToLong(Long::longValue).sum()
                - consumer.beginningOffsets(partitions).values().stream().mapToLong(Long::longValue).sum();
            while (records < left) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    apply(record.value(), caches);
                    records++;
                }
            }
        }
        return System.nanoTime() - started + " " + records + " " + live(caches);
    }

    private Map<TopicIdPartition, RemoteLogMetadataCache> replayed() {
        Map<TopicIdPartition, RemoteLogMetadataCache> caches = new HashMap<>();
        for (byte[] value : values) {
            apply(value, caches);
        }
        return caches;
    }

    private void apply(byte[] value, Map<TopicIdPartition, RemoteLogMetadataCache> caches) {
        RemoteLogMetadata event = serde.deserialize(value);
        RemoteLogMetadataCache cache = caches.computeIfAbsent(event.topicIdPartition(), p -> new RemoteLogMetadataCache());
        if (event instanceof RemoteLogSegmentMetadata segment) {
            cache.addCopyInProgressSegment(segment);
        } else if (event instanceof RemoteLogSegmentMetadataUpdate update) {
            try {
                cache.updateRemoteLogSegmentMetadata(update);
            } catch (RemoteResourceNotFoundException e) {
                unknownSegments++;
            }
        } else if (((RemotePartitionDeleteMetadata) event).state() == RemotePartitionDeleteState.DELETE_PARTITION_FINISHED) {
            caches.remove(event.topicIdPartition());
        }
    }

    private static long live(Map<TopicIdPartition, RemoteLogMetadataCache> caches) {
        return caches.values().stream().mapToLong(cache -> cache.idToSegmentMetadata.size()).sum();
    }
}
