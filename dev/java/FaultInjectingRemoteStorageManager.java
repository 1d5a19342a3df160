// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * Kafka's LocalTieredStorage, made slow or made to fail while the broker runs.
 *
 * <p>The folder of the property {@code faults.dir} is looked at in each call. Of the operations {@code copy},
 * {@code fetch} and {@code delete}, {@code <operation>.fail} lets every call fail before anything is done,
 * {@code <operation>.delay.ms} holds a number of milliseconds to wait before the call, {@code <operation>.linger.ms} after it.
 */
public final class FaultInjectingRemoteStorageManager implements RemoteStorageManager {
    public static final String FAULTS_DIR_CONFIG = "faults.dir";

    private final RemoteStorageManager storage = new LocalTieredStorage();
    private Path faults;

    private interface Call<T> {
        T run() throws RemoteStorageException;
    }

    @Override
    public void configure(Map<String, ?> configs) {
        faults = Path.of((String) configs.get(FAULTS_DIR_CONFIG));
        storage.configure(configs);
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data)
            throws RemoteStorageException {
        return faulty("copy", () -> storage.copyLogSegmentData(metadata, data));
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) throws RemoteStorageException {
        return faulty("fetch", () -> storage.fetchLogSegment(metadata, start));
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        return faulty("fetch", () -> storage.fetchLogSegment(metadata, start, end));
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType indexType) throws RemoteStorageException {
        return faulty("fetch", () -> storage.fetchIndex(metadata, indexType));
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        faulty("delete", () -> {
            storage.deleteLogSegmentData(metadata);
            return null;
        });
    }

    @Override
    public void close() throws IOException {
        storage.close();
    }

    private <T> T faulty(String operation, Call<T> call) throws RemoteStorageException {
        if (Files.exists(faults.resolve(operation + ".fail"))) {
            throw new RemoteStorageException("injected fault: " + operation + " fails");
        }
        pause(operation + ".delay.ms");
        T result = call.run();
        pause(operation + ".linger.ms");
        return result;
    }

    private void pause(String name) throws RemoteStorageException {
        try {
            Thread.sleep(Long.parseLong(Files.readString(faults.resolve(name)).strip()));
        } catch (NoSuchFileException e) {
            // This fault is off.
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new RemoteStorageException("interrupted in an injected pause", e);
        } catch (IOException e) {
            throw new RemoteStorageException("the fault " + name + " cannot be read", e);
        }
    }
}
