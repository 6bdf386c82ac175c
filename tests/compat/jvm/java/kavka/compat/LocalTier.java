package kavka.compat;

import java.io.File;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

/**
 * Kafka's LocalTieredStorage, which is in its test jars: copies files into a directory, reads them back, deletes them.
 *
 * Arguments: folder of the test jars, directory of the store, event of the segment in hex, copy | read | delete, folder of files.
 */
public final class LocalTier {
    public static void main(String[] args) throws Exception {
        List<URL> jars = new ArrayList<>();
        for (File jar : new File(args[0]).listFiles((dir, name) -> name.endsWith(".jar"))) {
            jars.add(jar.toURI().toURL());
        }
        try (URLClassLoader loader = new URLClassLoader(jars.toArray(new URL[0]), LocalTier.class.getClassLoader())) {
            RemoteStorageManager tier = (RemoteStorageManager) loader
                .loadClass("org.apache.kafka.server.log.remote.storage.LocalTieredStorage").getDeclaredConstructor().newInstance();
            tier.configure(Map.of("dir", args[1], "broker.id", 1));
            RemoteLogSegmentMetadata segment =
                (RemoteLogSegmentMetadata) new RemoteLogMetadataSerde().deserialize(HexFormat.of().parseHex(args[2]));
            Path files = Path.of(args[4]);
            switch (args[3]) {
                case "copy" -> tier.copyLogSegmentData(segment, data(files));
                case "read" -> read(tier, segment, files);
                case "delete" -> tier.deleteLogSegmentData(segment);
                default -> throw new IllegalArgumentException(args[3]);
            }
        }
    }

    private static LogSegmentData data(Path files) throws Exception {
        Path aborted = files.resolve("txnindex");
        return new LogSegmentData(
            files.resolve("log"), files.resolve("index"), files.resolve("timeindex"),
            Files.exists(aborted) ? Optional.of(aborted) : Optional.empty(),
            files.resolve("snapshot"), ByteBuffer.wrap(Files.readAllBytes(files.resolve("leader_epoch_checkpoint"))));
    }

    private static void read(RemoteStorageManager tier, RemoteLogSegmentMetadata segment, Path files) throws Exception {
        save(tier.fetchLogSegment(segment, 0), files.resolve("log"));
        Map<IndexType, String> parts = Map.of(
            IndexType.OFFSET, "index", IndexType.TIMESTAMP, "timeindex", IndexType.TRANSACTION, "txnindex",
            IndexType.PRODUCER_SNAPSHOT, "snapshot", IndexType.LEADER_EPOCH, "leader_epoch_checkpoint");
        for (Map.Entry<IndexType, String> part : parts.entrySet()) {
            try {
                save(tier.fetchIndex(segment, part.getKey()), files.resolve(part.getValue()));
            } catch (RemoteResourceNotFoundException e) {
                System.out.println("no " + part.getValue());
            }
        }
    }

    private static void save(InputStream from, Path to) throws Exception {
        try (from) {
            Files.copy(from, to);
        }
    }
}
