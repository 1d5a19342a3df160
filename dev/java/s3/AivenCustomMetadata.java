// SPDX-License-Identifier: Apache-2.0

package rlmm.dev.s3;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/** What Aiven's plugin keeps with a segment, as bytes: Kafka's tagged fields (KIP-482), and nothing before or behind them. */
public final class AivenCustomMetadata {
    public static final int REMOTE_SIZE = 0;
    public static final int OBJECT_PREFIX = 1;
    public static final int OBJECT_KEY = 2;

    private static final TaggedFields FIELDS = TaggedFields.of(
        REMOTE_SIZE, new Field("remote_size", Type.VARLONG),
        OBJECT_PREFIX, new Field("object_prefix", Type.COMPACT_STRING),
        OBJECT_KEY, new Field("object_key", Type.COMPACT_STRING));

    private AivenCustomMetadata() {
    }

    /** No field is no byte at all: then the segment has no custom metadata. */
    public static byte[] write(Map<Integer, Object> values) {
        if (values.isEmpty()) {
            return new byte[0];
        }
        var sorted = new TreeMap<>(values);
        ByteBuffer bytes = ByteBuffer.allocate(FIELDS.sizeOf(sorted));
        FIELDS.write(bytes, sorted);
        return bytes.array();
    }

    /** Fields that nobody knows are among the answer, under their numbers. */
    public static Map<Integer, Object> read(byte[] bytes) {
        return bytes.length == 0 ? Map.of() : FIELDS.read(ByteBuffer.wrap(bytes));
    }
}
