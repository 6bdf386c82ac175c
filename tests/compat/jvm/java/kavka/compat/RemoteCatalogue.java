package kavka.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;

/** Kafka's own catalogue of remote segments, driven line by line: one command in, one line of answer out. */
public final class RemoteCatalogue {
    private static final HexFormat HEX = HexFormat.of();

    private final RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
    private RemoteLogMetadataCache cache = new RemoteLogMetadataCache();

    public static void main(String[] args) throws Exception {
        RemoteCatalogue catalogue = new RemoteCatalogue();
        StringBuilder out = new StringBuilder();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.append(catalogue.answer(line.split(" "))).append('\n');
        }
        System.out.print(out);
        System.out.flush();
    }

    private String answer(String[] words) throws Exception {
        try {
            return switch (words[0]) {
                case "new" -> fresh();
                case "event" -> event(words[1]);
                case "lookup" -> id(call("remoteLogSegmentMetadata", Integer.parseInt(words[1]), Long.parseLong(words[2])));
                case "next" -> id(call("nextSegmentWithTxnIndex", Integer.parseInt(words[1]), Long.parseLong(words[2])));
                case "highest" -> String.valueOf(((Optional<?>) call("highestOffsetForEpoch", Integer.parseInt(words[1])))
                    .map(Object::toString).orElse("-"));
                case "list" -> ids(call("listRemoteLogSegments", Integer.parseInt(words[1])));
                case "all" -> ids(call("listAllRemoteLogSegments"));
                case "within" -> within(words);
                case "partition" -> String.valueOf(new RemoteLogMetadataTopicPartitioner(Integer.parseInt(words[3])).metadataPartition(
                    new TopicIdPartition(Uuid.fromString(words[1]), new TopicPartition("t", Integer.parseInt(words[2])))));
                default -> throw new IllegalStateException(words[0]);
            };
        } catch (InvocationTargetException e) {
            return "!" + e.getCause().getClass().getSimpleName();
        }
    }

    private String fresh() throws Exception {
        cache = new RemoteLogMetadataCache();
        call("markInitialized");
        return "ok";
    }

    /** Takes in an event, and answers with the bytes that Kafka would write for it. */
    private String event(String hex) throws Exception {
        RemoteLogMetadata event = serde.deserialize(HEX.parseHex(hex));
        String written = HEX.formatHex(serde.serialize(event));
        try {
            if (event instanceof RemoteLogSegmentMetadata segment) {
                call("addCopyInProgressSegment", segment);
            } else if (event instanceof RemoteLogSegmentMetadataUpdate update) {
                call("updateRemoteLogSegmentMetadata", update);
            }
        } catch (InvocationTargetException e) {
            return written + " !" + e.getCause().getClass().getSimpleName();
        }
        return written;
    }

    private String within(String[] words) throws Exception {
        NavigableMap<Integer, Long> epochs = new TreeMap<>();
        for (String entry : words[2].split(",")) {
            String[] pair = entry.split(":");
            epochs.put(Integer.parseInt(pair[0]), Long.parseLong(pair[1]));
        }
        Method method = RemoteLogManager.class.getDeclaredMethod(
            "isRemoteSegmentWithinLeaderEpochs", RemoteLogSegmentMetadata.class, long.class, NavigableMap.class);
        method.setAccessible(true);
        return String.valueOf(method.invoke(null, serde.deserialize(HEX.parseHex(words[3])), Long.parseLong(words[1]), epochs));
    }

    /** Calls a method of the cache that only its own package sees. */
    private Object call(String name, Object... arguments) throws Exception {
        for (Method method : RemoteLogMetadataCache.class.getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                return method.invoke(cache, arguments);
            }
        }
        throw new IllegalStateException(name);
    }

    private static String id(Object found) {
        return ((Optional<?>) found).map(segment -> ((RemoteLogSegmentMetadata) segment).remoteLogSegmentId().id().toString()).orElse("-");
    }

    private static String ids(Object found) {
        List<RemoteLogSegmentMetadata> segments = new ArrayList<>();
        Iterator<?> each = (Iterator<?>) found;
        while (each.hasNext()) {
            segments.add((RemoteLogSegmentMetadata) each.next());
        }
        return segments.stream().map(s -> s.remoteLogSegmentId().id() + "=" + s.state().id()).sorted().collect(Collectors.joining(","));
    }
}
