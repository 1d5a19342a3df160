// SPDX-License-Identifier: Apache-2.0

package rlmm.dev.s3;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Base64;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;

import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

import rlmm.dev.s3.AivenManifest.Place;

/**
 * A plugin for tests that leaves in S3 what Aiven's leaves there: its keys, its custom metadata, its order of puts and its
 * way to delete. It was written from what was seen of that one.
 *
 * <p>Three objects per segment, {@code .log}, {@code .indexes}, {@code .rsm-manifest}, are put in this order. Copying, deleting
 * and reading the manifest go by the configured prefix; reading log and indexes by that of the custom metadata, where it is there.
 * Manifests are {@link AivenManifest}s: chunks as they are, or with {@code compression.enabled} as zstd frames. With
 * {@code encryption.enabled} log and indexes are encrypted as {@link AivenEncryption} says, under {@code encryption.key}, 32
 * bytes in base64: a property that only this plugin has.
 *
 * <p>The file {@code <suffix>.linger.ms} in the folder of the property {@code faults.dir} holds a number of milliseconds to wait
 * after the put of an object with that suffix: {@code log.linger.ms}.
 */
public final class AivenKeysRemoteStorageManager implements RemoteStorageManager {
    private static final List<String> SUFFIXES = List.of("log", "indexes", "rsm-manifest");

    private S3Bucket bucket;
    private String prefix;
    private Set<Integer> fields;
    private Path faults;
    private int chunkSize;
    private boolean compressed;
    private Optional<SecretKey> key;
    private boolean encrypts;

    @Override
    public void configure(Map<String, ?> configs) {
        bucket = new S3Bucket(URI.create(text(configs, "s3.endpoint", "")), text(configs, "s3.bucket", ""),
            text(configs, "s3.region", ""), text(configs, "s3.access.key", ""), text(configs, "s3.secret.key", ""));
        prefix = text(configs, "key.prefix", "");
        faults = Path.of(text(configs, "faults.dir", ""));
        chunkSize = Integer.parseInt(text(configs, "chunk.size", "4194304"));
        compressed = Boolean.parseBoolean(text(configs, "compression.enabled", "false"));
        String given = text(configs, "encryption.key", "");
        key = given.isEmpty() ? Optional.empty() : Optional.of(new SecretKeySpec(Base64.getDecoder().decode(given), "AES"));
        encrypts = Boolean.parseBoolean(text(configs, "encryption.enabled", "false"));
        if (encrypts && key.isEmpty()) {
            throw new IllegalArgumentException("encryption.enabled without encryption.key");
        }
        Map<String, Integer> known = Map.of("REMOTE_SIZE", AivenCustomMetadata.REMOTE_SIZE,
            "OBJECT_PREFIX", AivenCustomMetadata.OBJECT_PREFIX, "OBJECT_KEY", AivenCustomMetadata.OBJECT_KEY);
        fields = Pattern.compile(",").splitAsStream(text(configs, "custom.metadata.fields.include", ""))
            .filter(name -> !name.isBlank()).map(name -> known.get(name.strip())).collect(Collectors.toSet());
    }

    private static String text(Map<String, ?> configs, String name, String otherwise) {
        Object value = configs.get(name);
        return value == null ? otherwise : value.toString();
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data)
            throws RemoteStorageException {
        try {
            var indexes = new ByteArrayOutputStream();
            var parts = new EnumMap<IndexType, Place>(IndexType.class);
            Optional<AivenEncryption> encryption = key.filter(it -> encrypts).map(AivenEncryption::fresh);
            for (var index : indexes(data).entrySet()) {
                byte[] stored = encryption.map(how -> how.encrypted(index.getValue())).orElse(index.getValue());
                parts.put(index.getKey(), new Place(indexes.size(), stored.length));
                indexes.writeBytes(stored);
            }
            var packed = AivenManifest.pack(
                metadata, Files.readAllBytes(data.logSegment()), parts, chunkSize, compressed, encryption);
            List<byte[]> objects = List.of(packed.log(), indexes.toByteArray(), packed.manifest());
            for (int i = 0; i < objects.size(); i++) {
                bucket.put(prefix + mainPath(metadata) + "." + SUFFIXES.get(i), objects.get(i));
                pause(SUFFIXES.get(i) + ".linger.ms");
            }
            return customMetadata(metadata, objects.stream().mapToLong(bytes -> bytes.length).sum());
        } catch (IOException e) {
            cleanUp(metadata, e);
            throw new RemoteStorageException("segment " + metadata.remoteLogSegmentId() + " is not copied", e);
        }
    }

    /** In the order in which they are stored. */
    private static Map<IndexType, byte[]> indexes(LogSegmentData data) throws IOException {
        var found = new LinkedHashMap<IndexType, byte[]>();
        found.put(IndexType.OFFSET, Files.readAllBytes(data.offsetIndex()));
        found.put(IndexType.TIMESTAMP, Files.readAllBytes(data.timeIndex()));
        found.put(IndexType.PRODUCER_SNAPSHOT, Files.readAllBytes(data.producerSnapshotIndex()));
        found.put(IndexType.LEADER_EPOCH, bytes(data.leaderEpochIndex()));
        if (data.transactionIndex().isPresent()) {
            found.put(IndexType.TRANSACTION, Files.readAllBytes(data.transactionIndex().get()));
        }
        return found;
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy;
    }

    private Optional<CustomMetadata> customMetadata(RemoteLogSegmentMetadata metadata, long size) {
        var values = new TreeMap<Integer, Object>(Map.of(AivenCustomMetadata.REMOTE_SIZE, size,
            AivenCustomMetadata.OBJECT_PREFIX, prefix, AivenCustomMetadata.OBJECT_KEY, mainPath(metadata)));
        values.keySet().retainAll(fields);
        return values.isEmpty() ? Optional.empty() : Optional.of(new CustomMetadata(AivenCustomMetadata.write(values)));
    }

    private void cleanUp(RemoteLogSegmentMetadata metadata, IOException cause) {
        try {
            bucket.delete(configuredKeys(metadata));
        } catch (IOException e) {
            cause.addSuppressed(e);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) throws RemoteStorageException {
        return fetchLogSegment(metadata, start, Integer.MAX_VALUE - 1);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        AivenManifest manifest = manifest(metadata);
        Optional<int[]> stored = manifest.stored(start, end);
        if (stored.isEmpty()) {
            return InputStream.nullInputStream();
        }
        String range = stored.get()[0] + "-" + stored.get()[1];
        byte[] chunks = part(metadata, "log", range);
        return read(metadata, () -> manifest.log(chunks, start, end));
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) throws RemoteStorageException {
        AivenManifest manifest = manifest(metadata);
        Place place = manifest.indexes.get(type);
        if (place == null) {
            throw new RemoteResourceNotFoundException("segment " + metadata.remoteLogSegmentId() + " has no index " + type);
        }
        if (place.size() == 0) {
            return InputStream.nullInputStream();
        }
        byte[] stored = part(metadata, "indexes", place.position() + "-" + (place.position() + place.size() - 1));
        return read(metadata, () -> manifest.plain(stored));
    }

    private static InputStream read(RemoteLogSegmentMetadata metadata, Supplier<byte[]> content)
            throws RemoteStorageException {
        try {
            return new ByteArrayInputStream(content.get());
        } catch (RuntimeException e) {
            throw new RemoteStorageException("objects of " + metadata.remoteLogSegmentId() + " are not what was copied", e);
        }
    }

    private AivenManifest manifest(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        try {
            return AivenManifest.read(read(prefix + mainPath(metadata) + ".rsm-manifest", ""), key);
        } catch (IOException | IllegalArgumentException e) {
            throw new RemoteStorageException("the manifest of " + metadata.remoteLogSegmentId() + " is none", e);
        }
    }

    private byte[] part(RemoteLogSegmentMetadata metadata, String suffix, String range) throws RemoteStorageException {
        Map<Integer, Object> custom = metadata.customMetadata()
            .map(bytes -> AivenCustomMetadata.read(bytes.value())).orElse(Map.of());
        String where = (String) custom.getOrDefault(AivenCustomMetadata.OBJECT_PREFIX, prefix)
            + custom.getOrDefault(AivenCustomMetadata.OBJECT_KEY, mainPath(metadata));
        return read(where + "." + suffix, range);
    }

    private byte[] read(String key, String range) throws RemoteStorageException {
        try {
            return bucket.get(key, range)
                .orElseThrow(() -> new RemoteResourceNotFoundException("there is no object " + key));
        } catch (IOException e) {
            throw new RemoteStorageException("object " + key + " cannot be read", e);
        }
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        try {
            bucket.delete(configuredKeys(metadata));
        } catch (IOException e) {
            throw new RemoteStorageException("segment " + metadata.remoteLogSegmentId() + " is not deleted", e);
        }
    }

    @Override
    public void close() {
    }

    private Set<String> configuredKeys(RemoteLogSegmentMetadata metadata) {
        return SUFFIXES.stream().map(suffix -> prefix + mainPath(metadata) + "." + suffix)
            .collect(Collectors.toCollection(HashSet::new));
    }

    private static String mainPath(RemoteLogSegmentMetadata metadata) {
        var partition = metadata.remoteLogSegmentId().topicIdPartition();
        return String.format(Locale.ROOT, "%s-%s/%d/%020d-%s", partition.topic(), partition.topicId(),
            partition.partition(), metadata.startOffset(), metadata.remoteLogSegmentId().id());
    }

    private void pause(String name) throws IOException {
        try {
            Thread.sleep(Long.parseLong(Files.readString(faults.resolve(name)).strip()));
        } catch (NoSuchFileException e) {
            // Nobody asked for it.
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted in an injected pause", e);
        }
    }
}
