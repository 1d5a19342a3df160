// SPDX-License-Identifier: Apache-2.0

package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;

import rlmm.dev.s3.AivenCustomMetadata;

/**
 * The custom metadata of the plugin for tests, asked line by line: {@code w} and hex of remote size, prefix and key, {@code -}
 * for none, is answered with the bytes; {@code r} and bytes are answered with the three, or with {@code !} where they cannot be read.
 */
public final class CustomMetadataPeer {
    private static final String NONE = "-";

    private CustomMetadataPeer() {
    }

    public static void main(String[] arguments) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(words[0].equals("w") ? written(words) : read(words[1]));
        }
    }

    private static String written(String[] words) {
        var values = new TreeMap<Integer, Object>();
        for (int tag = 0; tag < words.length - 1; tag++) {
            if (!words[tag + 1].equals(NONE)) {
                String text = new String(HexFormat.of().parseHex(words[tag + 1]), StandardCharsets.UTF_8);
                values.put(tag, tag == AivenCustomMetadata.REMOTE_SIZE ? (Object) Long.valueOf(text) : text);
            }
        }
        return HexFormat.of().formatHex(AivenCustomMetadata.write(values));
    }

    private static String read(String hex) {
        try {
            Map<Integer, Object> values = AivenCustomMetadata.read(HexFormat.of().parseHex(hex));
            return String.join(" ", word(values, AivenCustomMetadata.REMOTE_SIZE),
                word(values, AivenCustomMetadata.OBJECT_PREFIX), word(values, AivenCustomMetadata.OBJECT_KEY));
        } catch (RuntimeException | OutOfMemoryError e) {
            // Bytes that claim a length of their own are believed before they are read.
            return "!";
        }
    }

    private static String word(Map<Integer, Object> values, int tag) {
        Object value = values.get(tag);
        return value == null ? NONE : HexFormat.of().formatHex(value.toString().getBytes(StandardCharsets.UTF_8));
    }
}
