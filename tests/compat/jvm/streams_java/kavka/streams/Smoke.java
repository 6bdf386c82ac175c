package kavka.streams;

import java.time.Duration;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.tests.SmokeTestDriver;

/** Kafka's own smoke test driver, in a size and time of our choice: BOOTSTRAP KEYS RECORDS SECONDS. */
public final class Smoke {
    public static void main(String[] arguments) throws Exception {
        int keys = Integer.parseInt(arguments[1]);
        int records = Integer.parseInt(arguments[2]);
        Duration time = Duration.ofSeconds(Integer.parseInt(arguments[3]));
        Map<String, Set<Integer>> sent = SmokeTestDriver.generate(arguments[0], keys, records, time);
        System.out.println("GENERATED");
        SmokeTestDriver.VerificationResult result = SmokeTestDriver.verify(arguments[0], sent, records, true);
        System.out.println(result.passed() ? "PASSED" : "NOT PASSED\n" + result.result());
        System.exit(result.passed() ? 0 : 1);
    }
}
