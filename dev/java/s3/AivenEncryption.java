// SPDX-License-Identifier: Apache-2.0

package rlmm.dev.s3;

import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import javax.crypto.Cipher;
import javax.crypto.SecretKey;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * How Aiven's plugin encrypts the objects of one segment: with a data key and additional data of its own, which its manifest
 * names. Each chunk of the log, behind its compression, and each index is AES-256 in GCM, 12 bytes of IV before it and 16 of
 * tag behind it. It was written from manifests and sizes that that one had left in a bucket.
 *
 * <p>Simplified is the envelope: the real one wraps data keys by RSA, for a pair of keys in files. Here one AES key of the
 * brokers' configuration wraps them all (RFC 3394). Neither can be unwrapped without the brokers' key.
 */
final class AivenEncryption {
    private static final String KEY_ID = "k1";
    private static final int KEY_BYTES = 32;
    private static final int IV_BYTES = 12;
    private static final int TAG_BYTES = 16;
    private static final SecureRandom RANDOM = new SecureRandom();

    /** Bytes that an encrypted piece has more than the plain one. */
    static final int OVERHEAD = IV_BYTES + TAG_BYTES;

    private final SecretKey dataKey;
    private final String wrapped;
    private final byte[] aad;

    private AivenEncryption(SecretKey dataKey, String wrapped, byte[] aad) {
        this.dataKey = dataKey;
        this.wrapped = wrapped;
        this.aad = aad;
    }

    /** That of a new segment. */
    static AivenEncryption fresh(SecretKey brokers) {
        var dataKey = new SecretKeySpec(random(KEY_BYTES), "AES");
        try {
            Cipher wrap = Cipher.getInstance("AESWrap");
            wrap.init(Cipher.WRAP_MODE, brokers);
            return new AivenEncryption(dataKey, text(wrap.wrap(dataKey)), random(KEY_BYTES));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every Java wraps an AES key", e);
        }
    }

    /** That of a segment whose manifest says so. */
    static AivenEncryption of(JsonNode said, SecretKey brokers) {
        String[] named = said.get("dataKey").asText().split(":", 2);
        if (named.length != 2 || !named[0].equals(KEY_ID)) {
            throw new IllegalArgumentException("the data key is wrapped by another key than " + KEY_ID);
        }
        try {
            Cipher wrap = Cipher.getInstance("AESWrap");
            wrap.init(Cipher.UNWRAP_MODE, brokers);
            var dataKey = (SecretKey) wrap.unwrap(Base64.getDecoder().decode(named[1]), "AES", Cipher.SECRET_KEY);
            return new AivenEncryption(dataKey, named[1], Base64.getDecoder().decode(said.get("aad").asText()));
        } catch (GeneralSecurityException e) {
            throw new IllegalArgumentException("the data key cannot be unwrapped: it is another key's, or damaged", e);
        }
    }

    void say(ObjectNode said) {
        said.put("dataKey", KEY_ID + ":" + wrapped).put("aad", text(aad));
    }

    byte[] encrypted(byte[] plain) {
        byte[] iv = random(IV_BYTES);
        try {
            byte[] sealed = cipher(Cipher.ENCRYPT_MODE, iv).doFinal(plain);
            return ByteBuffer.allocate(IV_BYTES + sealed.length).put(iv).put(sealed).array();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every Java has AES-GCM", e);
        }
    }

    byte[] decrypted(byte[] piece) {
        try {
            Cipher cipher = cipher(Cipher.DECRYPT_MODE, Arrays.copyOf(piece, IV_BYTES));
            return cipher.doFinal(piece, IV_BYTES, piece.length - IV_BYTES);
        } catch (GeneralSecurityException e) {
            throw new IllegalArgumentException("what was encrypted is not what lies there", e);
        }
    }

    private Cipher cipher(int mode, byte[] iv) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(mode, dataKey, new GCMParameterSpec(TAG_BYTES * Byte.SIZE, iv));
        cipher.updateAAD(aad);
        return cipher;
    }

    private static byte[] random(int size) {
        byte[] bytes = new byte[size];
        RANDOM.nextBytes(bytes);
        return bytes;
    }

    private static String text(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
