// SPDX-License-Identifier: Apache-2.0

package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

/**
 * Kafka's classes for record batches on one thread, measured.
 *
 * <p>One command per line on standard input, one line of numbers as its answer; the process stays warm in between:
 *
 * <ul>
 * <li>{@code write <file> <bytes> <bytes of a value> <records of a batch> <codec>}: write a log of about that size; number of records;
 * <li>{@code read}: compare the checksums of that log, then take offset, timestamp, key and value of every record, as a consumer
 *     does; nanoseconds, number of records.
 * </ul>
 */
public final class RecordsBenchmark {
    private static final String WORDS = "segment offset epoch leader topic broker replica record batch index ";

    private byte[] log = {};
    /** The compiler must not find out that nobody needs the records, or it would never make them. */
    private final byte[][] latest = new byte[1 << 10][];
    private long sum;

    private RecordsBenchmark() {
    }

    public static void main(String[] arguments) throws IOException {
        RecordsBenchmark benchmark = new RecordsBenchmark();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            System.out.println(words[0].equals("read") ? benchmark.read() : benchmark.write(words));
        }
    }

    private String write(String[] words) throws IOException {
        Path file = Path.of(words[1]);
        long bytes = Long.parseLong(words[2]);
        int perBatch = Integer.parseInt(words[4]);
        Compression compression = Compression.of(CompressionType.forName(words[5])).build();
        Random random = new Random(405);
        long offset = 0;
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            while (channel.position() < bytes) {
                try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                    new ByteBufferOutputStream(1 << 16), RecordBatch.MAGIC_VALUE_V2, compression, TimestampType.CREATE_TIME, offset,
                    RecordBatch.NO_TIMESTAMP, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE,
                    false, false, 0, Integer.MAX_VALUE)) {
                    for (int i = 0; i < perBatch; i++) {
                        byte[] value = value(random, Integer.parseInt(words[3]));
                        builder.appendWithOffset(offset++, 1_700_000_000_000L + offset / 10, null, value);
                    }
                    channel.write(builder.build().buffer());
                }
            }
        }
        log = Files.readAllBytes(file);
        return Long.toString(offset);
    }

    /** Words and numbers: of what can be compressed by about a half. */
    private static byte[] value(Random random, int size) {
        byte[] value = new byte[size];
        for (int at = 0; at < size; at += 16) {
            byte[] word = (WORDS.substring(random.nextInt(40)) + "........").substring(0, 8).getBytes();
            System.arraycopy(word, 0, value, at, Math.min(8, size - at));
            for (int i = at + 8; i < Math.min(at + 16, size); i++) {
                value[i] = (byte) random.nextInt(256);
            }
        }
        return value;
    }

    private String read() {
        long started = System.nanoTime();
        int records = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(log)).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                sum += record.offset() + record.timestamp() + (record.hasKey() ? Utils.toArray(record.key()).length : 0);
                latest[records++ % latest.length] = Utils.toArray(record.value());
            }
        }
        return System.nanoTime() - started + " " + records;
    }
}
