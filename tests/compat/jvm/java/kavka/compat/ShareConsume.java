package kavka.compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * ShareConsume bootstrap topic group count how [config=value ...]: reads until it has count deliveries or none came for
 * a while, and prints each with its delivery count.
 *
 * how: implicit, or the acknowledgements of records by their delivery in turn, for example ACCEPT,RELEASE,REJECT,RENEW.
 */
public final class ShareConsume {
    public static void main(String[] args) {
        int count = Integer.parseInt(args[3]);
        Properties properties = Clients.properties(args[0], args, 5);
        properties.put("group.id", args[2]);
        boolean explicit = !args[4].equals("implicit");
        properties.put("share.acknowledgement.mode", explicit ? "explicit" : "implicit");
        String[] how = args[4].split(",");
        List<String> lines = new ArrayList<>();
        Set<Long> renewed = new HashSet<>();
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Set.of(args[1]));
            consumer.setAcknowledgementCommitCallback((offsets, exception) -> {
                if (exception != null) {
                    System.out.println("callback " + exception.getClass().getSimpleName());
                }
            });
            long giveUp = System.nanoTime() + Duration.ofSeconds(count == 0 ? 8 : 40).toNanos();
            while ((lines.size() < count || count == 0 || !renewed.isEmpty()) && System.nanoTime() < giveUp) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    if (renewed.remove(record.offset())) {  // polled once more after its lock was renewed
                        consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                        continue;
                    }
                    if (explicit) {
                        AcknowledgeType type = AcknowledgeType.valueOf(how[lines.size() % how.length]);
                        consumer.acknowledge(record, type);
                        if (type == AcknowledgeType.RENEW) {
                            renewed.add(record.offset());
                        }
                    }
                    lines.add(Clients.print(record) + " #" + record.deliveryCount().map(Object::toString).orElse("?"));
                }
                commit(consumer);
            }
        }
        lines.forEach(System.out::println);
    }

    private static void commit(KafkaShareConsumer<String, String> consumer) {
        Map<TopicIdPartition, Optional<KafkaException>> outcomes = consumer.commitSync();
        outcomes.forEach((partition, error) ->
            error.ifPresent(found -> System.out.println(partition.partition() + " " + found.getClass().getSimpleName())));
    }
}
