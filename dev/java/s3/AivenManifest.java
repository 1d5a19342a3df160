// SPDX-License-Identifier: Apache-2.0

package rlmm.dev.s3;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import javax.crypto.SecretKey;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.github.luben.zstd.Zstd;

import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

/**
 * The manifest that Aiven's plugin keeps with a segment: how the log is cut into chunks, whether these are zstd frames, whether
 * they and the indexes are encrypted, and where each index lies. It was written from what that one had left in a bucket.
 */
public final class AivenManifest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<IndexType, String> NAMES = new EnumMap<>(Map.of(IndexType.OFFSET, "offset",
        IndexType.TIMESTAMP, "timestamp", IndexType.PRODUCER_SNAPSHOT, "producerSnapshot",
        IndexType.LEADER_EPOCH, "leaderEpoch", IndexType.TRANSACTION, "transaction"));

    /** First byte and size, in the object of the indexes. */
    public record Place(int position, int size) { }

    public final int size;
    final int chunkSize;
    final boolean compressed;
    private final Optional<AivenEncryption> encryption;
    /** First byte of each chunk in the object of the log, and the first one behind the last. */
    final int[] begins;
    public final Map<IndexType, Place> indexes = new EnumMap<>(IndexType.class);

    private AivenManifest(JsonNode document, Optional<SecretKey> key) {
        if (!document.path("version").asText().equals("1")) {
            throw new IllegalArgumentException("no manifest of version 1: " + document);
        }
        encryption = !document.hasNonNull("encryption") ? Optional.empty() : Optional.of(AivenEncryption.of(
            document.get("encryption"), key.orElseThrow(() -> new IllegalArgumentException("encrypted, and there is no key"))));
        JsonNode index = document.get("chunkIndex");
        size = index.get("originalFileSize").intValue();
        chunkSize = index.get("originalChunkSize").intValue();
        compressed = document.get("compression").booleanValue();
        int[] sizes = index.get("type").asText().equals("fixed") ? fixed(index, size, chunkSize)
            : unpacked(Base64.getDecoder().decode(index.get("transformedChunks").asText()));
        begins = new int[sizes.length + 1];
        for (int i = 0; i < sizes.length; i++) {
            begins[i + 1] = Math.addExact(begins[i], sizes[i]);
        }
        NAMES.forEach((type, name) -> {
            JsonNode place = document.get("segmentIndexes").get(name);
            if (place != null && !place.isNull()) {
                indexes.put(type, new Place(place.get("position").intValue(), place.get("size").intValue()));
            }
        });
    }

    public static AivenManifest read(byte[] bytes) throws IOException {
        return read(bytes, Optional.empty());
    }

    /** With the brokers' key, by which the data keys of encrypted segments are wrapped. */
    static AivenManifest read(byte[] bytes, Optional<SecretKey> key) throws IOException {
        return new AivenManifest(JSON.readTree(bytes), key);
    }

    private static int[] fixed(JsonNode index, int size, int chunkSize) {
        var sizes = new int[(size - 1) / chunkSize + 1];
        Arrays.fill(sizes, index.get("transformedChunkSize").intValue());
        sizes[sizes.length - 1] = index.get("finalTransformedChunkSize").intValue();
        return sizes;
    }

    private static int[] unpacked(byte[] frame) {
        ByteBuffer data = ByteBuffer.wrap(Zstd.decompress(frame, (int) Zstd.getFrameContentSize(frame)));
        var sizes = new int[data.getInt()];
        if (sizes.length > 1) {
            int least = data.getInt();
            int width = data.get();
            for (int i = 0; i < sizes.length - 1; i++) {
                for (int at = 0; at < width; at++) {
                    sizes[i] = sizes[i] << 8 | data.get() & 0xff;
                }
                sizes[i] += least;
            }
        }
        sizes[sizes.length - 1] = data.getInt();
        return sizes;
    }

    private static byte[] packed(List<Integer> sizes) {
        var data = ByteBuffer.allocate(13 + 4 * sizes.size()).putInt(sizes.size());
        List<Integer> first = sizes.subList(0, sizes.size() - 1);
        if (!first.isEmpty()) {
            int least = first.stream().mapToInt(Integer::intValue).min().getAsInt();
            int most = first.stream().mapToInt(Integer::intValue).max().getAsInt() - least;
            int width = Math.max(1, (Integer.SIZE - Integer.numberOfLeadingZeros(most) + 7) / 8);
            data.putInt(least).put((byte) width);
            first.forEach(value -> data.put(ByteBuffer.allocate(4).putInt(value - least).array(), 4 - width, width));
        }
        data.putInt(sizes.get(sizes.size() - 1));
        return Zstd.compress(Arrays.copyOf(data.array(), data.position()));
    }

    /** The object of a log, and the manifest beside it. */
    record Packed(byte[] log, byte[] manifest) { }

    static Packed pack(RemoteLogSegmentMetadata metadata, byte[] log, Map<IndexType, Place> indexes, int chunkSize,
            boolean compressed, Optional<AivenEncryption> encryption) throws IOException {
        var sizes = new ArrayList<Integer>();
        var stored = new ByteArrayOutputStream();
        for (int at = 0; at < log.length; at += chunkSize) {
            byte[] chunk = Arrays.copyOfRange(log, at, Math.min(at + chunkSize, log.length));
            byte[] packed = compressed ? Zstd.compress(chunk) : chunk;
            byte[] frame = encryption.map(how -> how.encrypted(packed)).orElse(packed);
            sizes.add(frame.length);
            stored.writeBytes(frame);
        }
        ObjectNode document = JSON.createObjectNode().put("version", "1");
        ObjectNode index = document.putObject("chunkIndex").put("type", compressed ? "variable" : "fixed")
            .put("originalChunkSize", chunkSize).put("originalFileSize", log.length);
        if (compressed) {
            index.put("transformedChunks", Base64.getEncoder().encodeToString(packed(sizes)));
        } else {
            int transformed = chunkSize + (encryption.isPresent() ? AivenEncryption.OVERHEAD : 0);
            index.put("transformedChunkSize", transformed).put("finalTransformedChunkSize", sizes.get(sizes.size() - 1));
        }
        ObjectNode places = document.putObject("segmentIndexes");
        for (IndexType type : List.of(IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.PRODUCER_SNAPSHOT,
                IndexType.LEADER_EPOCH, IndexType.TRANSACTION)) {
            Place place = indexes.get(type);
            if (place == null) {
                places.putNull(NAMES.get(type));
            } else {
                places.putObject(NAMES.get(type)).put("position", place.position()).put("size", place.size());
            }
        }
        document.put("compression", compressed);
        encryption.ifPresent(how -> how.say(document.putObject("encryption")));
        addSegment(document.putObject("remoteLogSegmentMetadata"), metadata);
        return new Packed(stored.toByteArray(), JSON.writeValueAsBytes(document));
    }

    private static void addSegment(ObjectNode said, RemoteLogSegmentMetadata metadata) {
        var id = metadata.remoteLogSegmentId();
        ObjectNode named = said.putObject("remoteLogSegmentId");
        ObjectNode partition = named.putObject("topicIdPartition").put("topicId", id.topicIdPartition().topicId().toString());
        partition.putObject("topicPartition").put("topic", id.topicIdPartition().topic())
            .put("partition", id.topicIdPartition().partition());
        named.put("id", id.id().toString());
        said.put("startOffset", metadata.startOffset()).put("endOffset", metadata.endOffset())
            .put("maxTimestampMs", metadata.maxTimestampMs()).put("brokerId", metadata.brokerId())
            .put("eventTimestampMs", metadata.eventTimestampMs());
        ObjectNode epochs = said.putObject("segmentLeaderEpochs");
        metadata.segmentLeaderEpochs().forEach((epoch, offset) -> epochs.put(epoch.toString(), offset));
        said.put("txnIdxEmpty", metadata.isTxnIdxEmpty());
    }

    /** First byte behind a range of the log, whose end is inclusive and may lie behind the log's. */
    private int stop(int end) {
        return Math.min(end, size - 1) + 1;
    }

    /** First and last byte, both inclusive, of the log's object that a range of the log needs; empty where it needs none. */
    public Optional<int[]> stored(int start, int end) {
        if (start >= stop(end)) {
            return Optional.empty();
        }
        return Optional.of(compressed || encryption.isPresent()
            ? new int[] {begins[start / chunkSize], begins[(stop(end) - 1) / chunkSize + 1] - 1}
            : new int[] {start, stop(end) - 1});
    }

    /** The bytes of the log from one to another, both inclusive, out of those of its object that {@link #stored} names. */
    public byte[] log(byte[] stored, int start, int end) {
        if (!compressed && encryption.isEmpty()) {
            return stored;
        }
        int stop = stop(end);
        var found = ByteBuffer.allocate(stop - start);
        for (int chunk = start / chunkSize; chunk * (long) chunkSize < stop; chunk++) {
            int at = begins[chunk] - begins[start / chunkSize];
            byte[] frame = Arrays.copyOfRange(stored, at, at + begins[chunk + 1] - begins[chunk]);
            int begin = chunk * chunkSize;
            byte[] packed = plain(frame);
            byte[] content = compressed ? Zstd.decompress(packed, Math.min(chunkSize, size - begin)) : packed;
            int from = Math.max(start - begin, 0);
            found.put(content, from, Math.min(stop - begin, content.length) - from);
        }
        return found.array();
    }

    /** A stored chunk, or an index, without its encryption. */
    byte[] plain(byte[] stored) {
        return encryption.map(how -> how.decrypted(stored)).orElse(stored);
    }
}
