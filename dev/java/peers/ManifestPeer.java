// SPDX-License-Identifier: Apache-2.0

package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Optional;

import rlmm.dev.s3.AivenManifest;

/**
 * The plugin for tests as a reader, asked line by line: a manifest, the object of its log, both in base64, and the first and the
 * last byte of a range are answered with these bytes of the log in base64, or with {@code !} where they cannot be read.
 */
public final class ManifestPeer {
    private ManifestPeer() {
    }

    public static void main(String[] arguments) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(answer(words));
        }
    }

    private static String answer(String[] words) {
        try {
            var manifest = AivenManifest.read(Base64.getDecoder().decode(words[0]));
            byte[] object = Base64.getDecoder().decode(words[1]);
            int start = Integer.parseInt(words[2]);
            int end = Integer.parseInt(words[3]);
            Optional<int[]> stored = manifest.stored(start, end);
            byte[] found = stored.isEmpty() ? new byte[0]
                : manifest.log(Arrays.copyOfRange(object, stored.get()[0], stored.get()[1] + 1), start, end);
            return Base64.getEncoder().encodeToString(found);
        } catch (IOException | RuntimeException e) {
            return "!";
        }
    }
}
