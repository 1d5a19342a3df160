// SPDX-License-Identifier: Apache-2.0

package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.StringReader;
import java.io.StringWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.StringTokenizer;
import java.util.TreeMap;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.server.common.CheckpointFile.CheckpointReadBuffer;
import org.apache.kafka.server.common.CheckpointFile.CheckpointWriteBuffer;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LocalLog;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * Says what Kafka's own classes make of leader epochs, line by line; words are numbers, a lineage is its length and then pairs of
 * leader epoch and start offset.
 *
 * <ul>
 * <li>{@code w lineage lineage end logEnd}: does a segment of the first, which ends there, lie within the second? {@code true},
 *     {@code false}, or {@code !} where that throws;
 * <li>{@code c lineage start end offset epoch logEnd}: the lineage truncated from its start, from its end, from both, each as the
 *     file's text in hex; the epoch of the offset; the end of the epoch;
 * <li>{@code h lineage highest logEnd}: the highest remote offset and its epoch, where {@code highest} has that of each epoch;
 * <li>{@code r hex}: the entries of a checkpoint file, {@code !} where it is refused.
 * </ul>
 */
public final class LineagePeer {
    private static final TopicPartition PARTITION = new TopicPartition("orders", 0);
    private static final TopicIdPartition ID_PARTITION = new TopicIdPartition(new Uuid(1, 2), PARTITION);

    private final Method within = accessible(RemoteLogManager.class.getDeclaredMethod(
        "isRemoteSegmentWithinLeaderEpochs", RemoteLogSegmentMetadata.class, long.class, NavigableMap.class));
    private final Method filtered = accessible(RemoteLogManager.class.getDeclaredMethod(
        "buildFilteredLeaderEpochMap", NavigableMap.class));
    private final Method highest = accessible(RemoteLogManager.class.getDeclaredMethod(
        "findHighestRemoteOffset", TopicIdPartition.class, UnifiedLog.class));
    private final RemoteLogManager manager = bare(RemoteLogManager.class);
    private final UnifiedLog log = bare(UnifiedLog.class);
    private final LocalLog localLog = bare(LocalLog.class);
    private TreeMap<Integer, Long> highestOffsets = new TreeMap<>();

    private LineagePeer() throws ReflectiveOperationException {
        RemoteLogMetadataManager answers = (RemoteLogMetadataManager) Proxy.newProxyInstance(
            LineagePeer.class.getClassLoader(), new Class<?>[] {RemoteLogMetadataManager.class},
            (proxy, method, values) -> Optional.ofNullable(highestOffsets.get((Integer) values[1])));
        set(manager, "remoteLogMetadataManagerPlugin", Plugin.wrapInstance(answers, new Metrics(), "none"));
        set(log, "localLog", localLog);
    }

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        LineagePeer peer = new LineagePeer();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        var answers = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            var words = new StringTokenizer(line);
            answers.println(switch (words.nextToken()) {
                case "w" -> peer.isWithin(words);
                case "c" -> cache(words);
                case "h" -> peer.highestRemoteOffset(words);
                default -> read(words.nextToken());
            });
        }
        answers.flush();
    }

    private String isWithin(StringTokenizer words) throws ReflectiveOperationException {
        TreeMap<Integer, Long> ofSegment = epochs(words);
        Object lineage = filtered.invoke(null, epochs(words));
        long end = number(words);
        var metadata = new RemoteLogSegmentMetadata(
            new RemoteLogSegmentId(ID_PARTITION, new Uuid(3, 4)), 0, end, 0, 0, 0, 1, ofSegment);
        try {
            return String.valueOf(within.invoke(null, metadata, number(words), lineage));
        } catch (InvocationTargetException e) {
            return "!";
        }
    }

    private static String cache(StringTokenizer words) throws ReflectiveOperationException, IOException {
        List<EpochEntry> entries = entries(epochs(words));
        long start = number(words);
        long end = number(words);
        LeaderEpochFileCache fromStart = cacheOf(entries);
        fromStart.truncateFromStartAsyncFlush(start);
        LeaderEpochFileCache fromEnd = cacheOf(entries);
        fromEnd.truncateFromEndAsyncFlush(end);
        LeaderEpochFileCache whole = cacheOf(entries);
        OptionalInt epoch = whole.epochForOffset(number(words));
        var endOffset = whole.endOffsetFor((int) number(words), number(words));
        return String.join(" ", hex(fromStart.epochEntries()), hex(fromEnd.epochEntries()),
            hex(whole.epochEntriesInRange(start, end)), epoch.isPresent() ? String.valueOf(epoch.getAsInt()) : "-",
            endOffset.getKey().toString(), endOffset.getValue().toString());
    }

    private String highestRemoteOffset(StringTokenizer words) throws ReflectiveOperationException {
        set(log, "leaderEpochCache", cacheOf(entries(epochs(words))));
        highestOffsets = epochs(words);
        set(localLog, "nextOffsetMetadata", new LogOffsetMetadata(number(words)));
        OffsetAndEpoch found = (OffsetAndEpoch) highest.invoke(manager, ID_PARTITION, log);
        return found.offset() + " " + found.epoch();
    }

    private static String read(String hex) {
        String text = new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
        try {
            return hex(new CheckpointReadBuffer<>("file", new BufferedReader(new StringReader(text)), 0,
                LeaderEpochCheckpointFile.FORMATTER).read());
        } catch (IOException | RuntimeException e) {
            return "!";
        }
    }

    private static String hex(List<EpochEntry> entries) throws IOException {
        var text = new StringWriter();
        try (var writer = new BufferedWriter(text)) {
            new CheckpointWriteBuffer<>(writer, 0, LeaderEpochCheckpointFile.FORMATTER).write(entries);
        }
        return HexFormat.of().formatHex(text.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static LeaderEpochFileCache cacheOf(List<EpochEntry> entries) throws ReflectiveOperationException {
        // The public one writes its file at once, a hundred thousand times.
        Constructor<LeaderEpochFileCache> constructor = LeaderEpochFileCache.class.getDeclaredConstructor(
            List.class, TopicPartition.class, LeaderEpochCheckpointFile.class, Scheduler.class);
        constructor.setAccessible(true);
        Object never = Proxy.newProxyInstance(LineagePeer.class.getClassLoader(), new Class<?>[] {Scheduler.class},
            (proxy, method, values) -> null);
        return constructor.newInstance(entries, PARTITION, null, never);
    }

    private static TreeMap<Integer, Long> epochs(StringTokenizer words) {
        var epochs = new TreeMap<Integer, Long>();
        for (long count = number(words); count > 0; count--) {
            epochs.put((int) number(words), number(words));
        }
        return epochs;
    }

    private static List<EpochEntry> entries(TreeMap<Integer, Long> epochs) {
        List<EpochEntry> entries = new ArrayList<>();
        epochs.forEach((epoch, offset) -> entries.add(new EpochEntry(epoch, offset)));
        return entries;
    }

    private static long number(StringTokenizer words) {
        return Long.parseLong(words.nextToken());
    }

    private static Method accessible(Method method) {
        method.setAccessible(true);
        return method;
    }

    /** An object without its constructor's work: only what is asked of it is set. */
    private static <T> T bare(Class<T> type) throws ReflectiveOperationException {
        Class<?> unsafe = Class.forName("sun.misc.Unsafe");
        Field field = unsafe.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return type.cast(unsafe.getMethod("allocateInstance", Class.class).invoke(field.get(null), type));
    }

    private static void set(Object owner, String name, Object value) throws ReflectiveOperationException {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(owner, value);
    }
}
