import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a share group that take a topic's records; what was polled is accepted by the next poll.
 * Says "warm" when the first so many are taken, and "done" when all are; fails if none come for a while.
 */
public final class ShareDrain {
    private static final long STALL_NS = TimeUnit.SECONDS.toNanos(60);

    private final AtomicInteger taken = new AtomicInteger();
    private final AtomicLong last = new AtomicLong(System.nanoTime());
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private final Properties config = new Properties();
    private final String topic;
    private final int warm;
    private final int total;

    private ShareDrain(String bootstrap, String topic, int warm, int total) {
        this.topic = topic;
        this.warm = warm;
        this.total = total;
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", topic);
        config.put("key.deserializer", ByteArrayDeserializer.class.getName());
        config.put("value.deserializer", ByteArrayDeserializer.class.getName());
    }

    private void take() {
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(config)) {
            consumer.subscribe(List.of(topic));
            while (taken.get() < total && failure.get() == null) {
                int count = consumer.poll(Duration.ofMillis(200)).count();
                if (count > 0) {
                    last.set(System.nanoTime());
                } else if (System.nanoTime() - last.get() > STALL_NS) {
                    throw new TimeoutException("only " + taken.get() + " of " + total + " records came");
                }
                int after = taken.addAndGet(count);
                if (after >= warm && after - count < warm) {
                    System.out.println("warm");
                }
                if (after >= total && after - count < total) {
                    System.out.println("done");
                }
            }
        } catch (Exception error) {
            failure.set(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        ShareDrain drain =
            new ShareDrain(arguments[0], arguments[1], Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
        List<Thread> members = new ArrayList<>();
        for (int member = 0; member < Integer.parseInt(arguments[2]); member++) {
            members.add(new Thread(drain::take));
        }
        for (Thread member : members) {
            member.start();
        }
        for (Thread member : members) {
            member.join();
        }
        if (drain.failure.get() != null) {
            throw drain.failure.get();
        }
    }
}
