// SPDX-License-Identifier: Apache-2.0

package rlmm.dev.s3;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Optional;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** As much of S3 as a plugin needs, over the JDK's own HTTP client, signed as AWS asks for it (Signature Version 4). */
final class S3Bucket {
    /** As Amazon's SDK does by default. */
    private static final int TRIES = 4;
    private static final Duration PAUSE = Duration.ofMillis(100);
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'");
    private static final String SIGNED = "host;x-amz-content-sha256;x-amz-date";

    private final HttpClient http = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(5)).build();
    private final URI endpoint;
    private final String bucket;
    private final String region;
    private final String accessKey;
    private final String secretKey;

    S3Bucket(URI endpoint, String bucket, String region, String accessKey, String secretKey) {
        this.endpoint = endpoint;
        this.bucket = bucket;
        this.region = region;
        this.accessKey = accessKey;
        this.secretKey = secretKey;
    }

    void put(String key, byte[] data) throws IOException {
        checked(call("PUT", key, "", data, ""));
    }

    /** Empty where there is no such object. The range is that of HTTP: {@code 0-99}, {@code 100-}. */
    Optional<byte[]> get(String key, String range) throws IOException {
        HttpResponse<byte[]> answer = call("GET", key, "", new byte[0], range);
        return answer.statusCode() == 404 ? Optional.empty() : Optional.of(checked(answer).body());
    }

    /** One request for all of them; a missing object is no error, what the store refuses is one. */
    void delete(Collection<String> keys) throws IOException {
        var body = new StringBuilder("<Delete>");
        for (String key : keys) {
            String text = key.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
            body.append("<Object><Key>").append(text).append("</Key></Object>");
        }
        byte[] data = body.append("</Delete>").toString().getBytes(StandardCharsets.UTF_8);
        String answer = new String(checked(call("POST", "", "delete", data, "")).body(), StandardCharsets.UTF_8);
        if (answer.contains("<Error>")) {
            throw new IOException("S3 did not delete all of " + keys + ": " + answer);
        }
    }

    private static HttpResponse<byte[]> checked(HttpResponse<byte[]> answer) throws IOException {
        if (answer.statusCode() / 100 != 2) {
            String body = new String(answer.body(), StandardCharsets.UTF_8);
            throw new IOException("S3 answers " + answer.statusCode() + " to " + answer.request() + ": " + body);
        }
        return answer;
    }

    private HttpResponse<byte[]> call(String method, String key, String query, byte[] body, String range)
            throws IOException {
        for (int attempt = 1; ; attempt++) {
            try {
                HttpRequest request = request(method, key, query, body, range);
                HttpResponse<byte[]> answer = http.send(request, HttpResponse.BodyHandlers.ofByteArray());
                if (answer.statusCode() < 500 || attempt == TRIES) {
                    return answer;
                }
            } catch (IOException e) {
                if (attempt == TRIES) {
                    throw new IOException("S3 does not answer, in " + TRIES + " tries", e);
                }
            } catch (InterruptedException e) {
                throw interrupted(e);
            }
            try {
                Thread.sleep(PAUSE.toMillis() << attempt);
            } catch (InterruptedException e) {
                throw interrupted(e);
            }
        }
    }

    private static IOException interrupted(InterruptedException e) {
        Thread.currentThread().interrupt();
        return new IOException("interrupted in a call to S3", e);
    }

    private HttpRequest request(String method, String key, String query, byte[] body, String range) throws IOException {
        String path = "/" + bucket + (key.isEmpty() ? "" : "/" + encoded(key));
        URI uri = URI.create(endpoint + path + (query.isEmpty() ? "" : "?" + query));
        String time = TIME.format(ZonedDateTime.now(ZoneOffset.UTC));
        try {
            String hash = hex(digest("SHA-256", body));
            String headers = "host:" + uri.getAuthority() + "\nx-amz-content-sha256:" + hash + "\nx-amz-date:" + time + "\n";
            String canonicalQuery = query.isEmpty() ? "" : query + "=";
            String canonical = String.join("\n", method, path, canonicalQuery, headers, SIGNED, hash);
            HttpRequest.Builder request = HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(15))
                .method(method, HttpRequest.BodyPublishers.ofByteArray(body))
                .header("x-amz-content-sha256", hash)
                .header("x-amz-date", time)
                .header("Authorization", authorization(time, canonical));
            if (!query.isEmpty()) {
                request.header("Content-MD5", Base64.getEncoder().encodeToString(digest("MD5", body)));
            }
            return (range.isEmpty() ? request : request.header("Range", "bytes=" + range)).build();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every Java has these algorithms", e);
        }
    }

    private String authorization(String time, String canonical) throws GeneralSecurityException {
        String day = time.substring(0, 8);
        String scope = String.join("/", day, region, "s3", "aws4_request");
        byte[] request = digest("SHA-256", canonical.getBytes(StandardCharsets.UTF_8));
        String toSign = String.join("\n", "AWS4-HMAC-SHA256", time, scope, hex(request));
        byte[] key = ("AWS4" + secretKey).getBytes(StandardCharsets.UTF_8);
        for (String part : new String[] {day, region, "s3", "aws4_request"}) {
            key = hmac(key, part);
        }
        return "AWS4-HMAC-SHA256 Credential=" + accessKey + "/" + scope + ", SignedHeaders=" + SIGNED
            + ", Signature=" + hex(hmac(key, toSign));
    }

    /** As the signature wants it: a space is {@code %20}, a slash stays. */
    private static String encoded(String key) {
        String text = URLEncoder.encode(key, StandardCharsets.UTF_8);
        return text.replace("+", "%20").replace("*", "%2A").replace("%7E", "~").replace("%2F", "/");
    }

    private static byte[] digest(String algorithm, byte[] data) throws GeneralSecurityException {
        return MessageDigest.getInstance(algorithm).digest(data);
    }

    private static byte[] hmac(byte[] key, String text) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String hex(byte[] data) {
        return HexFormat.of().formatHex(data);
    }
}
