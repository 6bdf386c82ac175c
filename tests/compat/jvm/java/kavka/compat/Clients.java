package kavka.compat;

import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What the drivers share: clients from key=value arguments, and the records they write and print. */
final class Clients {
    static final long FIRST_TIMESTAMP = 1_700_000_000_000L;

    private Clients() {}

    static Properties properties(String bootstrap, String[] args, int from) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("default.api.timeout.ms", "20000");
        properties.put("request.timeout.ms", "15000");
        for (int i = from; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            properties.put(args[i].substring(0, equals), args[i].substring(equals + 1));
        }
        return properties;
    }

    static KafkaProducer<String, String> producer(Properties properties) {
        properties.putIfAbsent("max.block.ms", "20000");
        properties.putIfAbsent("delivery.timeout.ms", "30000");
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Properties properties) {
        properties.putIfAbsent("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    /** Record i: a second later than the one before it; every fourth is a tombstone; every third has headers. */
    static ProducerRecord<String, String> record(String topic, int partition, int i) {
        String value = i % 4 == 3 ? null : "value " + i;
        ProducerRecord<String, String> record =
            new ProducerRecord<>(topic, partition, FIRST_TIMESTAMP + i * 1000L, "key " + i, value);
        if (i % 3 == 2) {
            record.headers().add("number", Integer.toString(i).getBytes(StandardCharsets.UTF_8)).add("empty", null);
        }
        return record;
    }

    static String print(ConsumerRecord<String, String> record) {
        StringBuilder line = new StringBuilder();
        line.append(record.partition()).append('@').append(record.offset()).append(' ');
        line.append(record.timestampType()).append(':').append(record.timestamp()).append(' ');
        line.append(record.key()).append('=').append(record.value());
        for (Header header : record.headers()) {
            byte[] value = header.value();
            line.append(' ').append(header.key()).append(':');
            line.append(value == null ? "null" : new String(value, StandardCharsets.UTF_8));
        }
        return line.toString();
    }
}
