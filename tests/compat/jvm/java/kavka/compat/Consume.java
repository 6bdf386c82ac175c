package kavka.compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;

/**
 * Consume bootstrap topic how where count [config=value ...]: reads until it has count records or none came for a while, and prints them.
 *
 * how: assign, or subscribe (give group.id and group.protocol); where: beginning, end, offset:N, time:T, committed.
 */
public final class Consume {
    private static final Duration POLL = Duration.ofMillis(500);

    public static void main(String[] args) {
        String topic = args[1];
        int count = Integer.parseInt(args[4]);
        Properties properties = Clients.properties(args[0], args, 5);
        List<String> lines = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = Clients.consumer(properties)) {
            if (args[2].equals("assign")) {
                List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(info -> new TopicPartition(topic, info.partition())).collect(Collectors.toList());
                consumer.assign(partitions);
                seek(consumer, partitions, args[3]);
                Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
                for (TopicPartition partition : partitions) {
                    System.out.println("from " + partition + " " + consumer.position(partition) + " to " + ends.get(partition));
                }
            } else {
                consumer.subscribe(List.of(topic));
            }
            long giveUp = System.nanoTime() + Duration.ofSeconds(count == 0 ? 1 : 20).toNanos();
            while ((lines.size() < count || count == 0) && System.nanoTime() < giveUp) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    lines.add(Clients.print(record));
                }
            }
            if (properties.containsKey("group.id")) {
                consumer.commitSync();
            }
        }
        lines.forEach(System.out::println);
    }

    private static void seek(KafkaConsumer<String, String> consumer, List<TopicPartition> partitions, String where) {
        if (where.equals("beginning")) {
            consumer.seekToBeginning(partitions);
        } else if (where.equals("end")) {
            consumer.seekToEnd(partitions);
        } else if (where.startsWith("offset:")) {
            long offset = Long.parseLong(where.substring(7));
            partitions.forEach(partition -> consumer.seek(partition, offset));
        } else if (where.startsWith("time:")) {
            long time = Long.parseLong(where.substring(5));
            Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(
                partitions.stream().collect(Collectors.toMap(partition -> partition, partition -> time)));
            found.forEach((partition, at) -> {
                if (at == null) {
                    consumer.seekToEnd(List.of(partition));
                } else {
                    consumer.seek(partition, at.offset());
                }
            });
        }
    }
}
