// SPDX-License-Identifier: Apache-2.0

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.EnumMap;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * A plugin as companies have one of their own: each file of a segment is an object of its own, in a folder of the segment, below
 * a salt, with ids as UUIDs. It keeps them in the folder of the property {@code dir}:
 * {@code warm/<salt>/<topic>/<topic id>/<partition>/<end offset>_<segment id>/log} and so on.
 */
public final class TemplateKeysRemoteStorageManager implements RemoteStorageManager {
    private static final Map<IndexType, String> NAMES = Map.of(IndexType.OFFSET, "index", IndexType.TIMESTAMP, "timeindex",
        IndexType.PRODUCER_SNAPSHOT, "snapshot", IndexType.LEADER_EPOCH, "epochs", IndexType.TRANSACTION, "txnindex");

    private Path root;

    @Override
    public void configure(Map<String, ?> configs) {
        root = Path.of((String) configs.get("dir"));
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data)
            throws RemoteStorageException {
        Path folder = folder(metadata);
        var files = new EnumMap<IndexType, Path>(Map.of(IndexType.OFFSET, data.offsetIndex(), IndexType.TIMESTAMP,
            data.timeIndex(), IndexType.PRODUCER_SNAPSHOT, data.producerSnapshotIndex()));
        data.transactionIndex().ifPresent(path -> files.put(IndexType.TRANSACTION, path));
        try {
            Files.createDirectories(folder);
            for (var file : files.entrySet()) {
                Files.copy(file.getValue(), folder.resolve(NAMES.get(file.getKey())), StandardCopyOption.REPLACE_EXISTING);
            }
            Files.write(folder.resolve(NAMES.get(IndexType.LEADER_EPOCH)), bytes(data.leaderEpochIndex()));
            Files.copy(data.logSegment(), folder.resolve("log"), StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException e) {
            throw new RemoteStorageException("segment " + metadata.remoteLogSegmentId() + " is not copied", e);
        }
        return Optional.empty();
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy;
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) throws RemoteStorageException {
        return fetchLogSegment(metadata, start, Integer.MAX_VALUE - 1);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        byte[] log = read(metadata, "log");
        int from = Math.min(start, log.length);
        return new ByteArrayInputStream(log, from, Math.min(end + 1, log.length) - from);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) throws RemoteStorageException {
        return new ByteArrayInputStream(read(metadata, NAMES.get(type)));
    }

    private byte[] read(RemoteLogSegmentMetadata metadata, String name) throws RemoteStorageException {
        Path file = folder(metadata).resolve(name);
        if (!Files.exists(file)) {
            throw new RemoteResourceNotFoundException("there is no " + file);
        }
        try {
            return Files.readAllBytes(file);
        } catch (IOException e) {
            throw new RemoteStorageException(file + " cannot be read", e);
        }
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        Path folder = folder(metadata);
        try {
            Files.deleteIfExists(folder.resolve("log"));
            for (String name : NAMES.values()) {
                Files.deleteIfExists(folder.resolve(name));
            }
            Files.deleteIfExists(folder);
        } catch (IOException e) {
            throw new RemoteStorageException("segment " + metadata.remoteLogSegmentId() + " is not deleted", e);
        }
    }

    @Override
    public void close() {
    }

    private Path folder(RemoteLogSegmentMetadata metadata) {
        var partition = metadata.remoteLogSegmentId().topicIdPartition();
        String name = String.format(Locale.ROOT, "%020d_%s", metadata.endOffset(), spelled(metadata.remoteLogSegmentId().id()));
        String number = String.format(Locale.ROOT, "%05d", partition.partition());
        return root.resolve("warm").resolve(salt(partition.topic() + "-" + number)).resolve(partition.topic())
            .resolve(spelled(partition.topicId())).resolve(number).resolve(name);
    }

    private static String spelled(Uuid id) {
        return new UUID(id.getMostSignificantBits(), id.getLeastSignificantBits()).toString();
    }

    private static String salt(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("MD5").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(digest).substring(0, 4);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
