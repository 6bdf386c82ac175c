package kavka.streams;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.HostInfo;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Counts words of the topic "lines" into "totals", by way of a repartition topic and a store with a changelog.
 *
 * Settings come as key=value arguments. It is asked on standard input: "get WORD" says who has a word's count, and the
 * count if it is here; "copy WORD" says the count in the copy that stands by here; "hosts" says who is known; "stop" ends
 * it in order.
 */
public final class Words {
    private static final String STORE = "counts";

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        settings.put("auto.offset.reset", "earliest");
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        KafkaStreams streams = new KafkaStreams(counting(), settings);
        streams.setStateListener((now, before) -> say("STATE " + now));
        streams.setUncaughtExceptionHandler(failure -> {
            say("FAILED " + failure);
            failure.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        HostInfo here = HostInfo.buildFromEndpoint(settings.getProperty("application.server"));
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line = asked.readLine(); line != null && !line.equals("stop"); line = asked.readLine()) {
            try {
                answer(streams, here, line);
            } catch (RuntimeException failure) {
                say("NOT-NOW " + failure);
            }
        }
        streams.close(Duration.ofSeconds(60));
        say("STOPPED");
    }

    private static org.apache.kafka.streams.Topology counting() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("by-word", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE)
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(String::valueOf)
            .to("totals", Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static void answer(KafkaStreams streams, HostInfo here, String line) {
        if (line.equals("hosts")) {
            StringBuilder known = new StringBuilder("HOSTS");
            streams.metadataForAllStreamsClients().stream()
                .map(one -> one.host() + ":" + one.port()).sorted().forEach(one -> known.append(' ').append(one));
            say(known.toString());
            return;
        }
        String[] words = line.split(" ");
        String word = words[1];
        KeyQueryMetadata found = streams.queryMetadataForKey(STORE, word, Serdes.String().serializer());
        if (words[0].equals("copy")) {
            boolean standsBy = found.standbyHosts().contains(here);
            say("COPY " + word + (standsBy ? " " + counts(streams, found.partition(), true).get(word) : ""));
            return;
        }
        HostInfo owner = found.activeHost();
        String answer = "GET " + word + " " + owner.host() + ":" + owner.port() + " standby";
        for (HostInfo standby : found.standbyHosts()) {
            answer += " " + standby.host() + ":" + standby.port();
        }
        if (owner.equals(here)) {
            answer += " count " + counts(streams, found.partition(), false).get(word);
        }
        say(answer);
    }

    private static ReadOnlyKeyValueStore<String, Long> counts(KafkaStreams streams, int partition, boolean standby) {
        StoreQueryParameters<ReadOnlyKeyValueStore<String, Long>> asked = StoreQueryParameters
            .fromNameAndType(STORE, QueryableStoreTypes.<String, Long>keyValueStore()).withPartition(partition);
        return streams.store(standby ? asked.enableStaleStores() : asked);
    }

    private static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }
}
