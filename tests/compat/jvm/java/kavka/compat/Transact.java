package kavka.compat;

import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Transact bootstrap topic commit|abort|offsets|fence [config=value ...]: one transaction of four records over two partitions. */
public final class Transact {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        Properties properties = Clients.properties(args[0], args, 3);
        properties.putIfAbsent("transactional.id", topic);
        try (KafkaProducer<String, String> producer = Clients.producer(properties)) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int i = 0; i < 4; i++) {
                producer.send(Clients.record(topic, i % 2, i)).get();
            }
            switch (args[2]) {
                case "commit":
                    producer.commitTransaction();
                    break;
                case "abort":
                    producer.abortTransaction();
                    break;
                case "offsets":
                    producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)), new ConsumerGroupMetadata(topic));
                    producer.commitTransaction();
                    break;
                case "fence":
                    fence(producer, properties);
                    break;
                default:
                    throw new IllegalArgumentException(args[2]);
            }
            System.out.println("done");
        }
    }

    private static void fence(KafkaProducer<String, String> producer, Properties properties) {
        try (KafkaProducer<String, String> successor = Clients.producer(properties)) {
            successor.initTransactions();
        }
        try {
            producer.commitTransaction();
            System.out.println("not fenced");
        } catch (ProducerFencedException fenced) {
            System.out.println("fenced");
        }
    }
}
