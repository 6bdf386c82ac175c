package kavka.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Produce bootstrap topic partition count [config=value ...]: writes records and prints what was acknowledged. */
public final class Produce {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int partition = Integer.parseInt(args[2]);
        int count = Integer.parseInt(args[3]);
        long first = Long.MAX_VALUE;
        long last = -1;
        int acknowledged = 0;
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = Clients.producer(Clients.properties(args[0], args, 4))) {
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(Clients.record(topic, partition, i)));
            }
            producer.flush();
        }
        for (Future<RecordMetadata> future : sent) {
            try {
                long offset = future.get().offset();
                acknowledged++;
                first = Math.min(first, offset);
                last = Math.max(last, offset);
            } catch (ExecutionException refused) {
                System.out.println(refused.getCause().getClass().getSimpleName());
            }
        }
        System.out.println(acknowledged + " acknowledged, offsets " + (acknowledged == 0 ? -1 : first) + " to " + last);
    }
}
