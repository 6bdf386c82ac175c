package kavka.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Throttle: what clients use and how long they have to wait for it, by Kafka's own managers of quotas. Fields are
 * separated by tabs. "new windows seconds"; "limit kind user client value", where kind is rate or tokens, a name of "*"
 * is the default, "-" none, and a value of "-" removes; "use kind user client value now" prints the delay; "back user
 * client value now" gives something back; "most user client" prints what may be had at once.
 */
public final class Throttle {
    private static final class Told implements Time {
        private long now = 0;

        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) {
            throw new IllegalStateException("nobody sleeps here");
        }

        public void waitObject(Object obj, Supplier<Boolean> condition, long deadlineMs) {
            throw new IllegalStateException("nobody waits here");
        }
    }

    private static ClientQuotaEntity.ConfigEntity user(String name) {
        return name.equals("*") ? ClientQuotaManager.DEFAULT_USER_ENTITY : new ClientQuotaManager.UserEntity(name);
    }

    private static ClientQuotaEntity.ConfigEntity client(String name) {
        return name.equals("*") ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID : new ClientQuotaManager.ClientIdEntity(name);
    }

    private static Session session(String name) throws Exception {
        return new Session(new KafkaPrincipal(KafkaPrincipal.USER_TYPE, name), InetAddress.getByName("127.0.0.1"));
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Told time = new Told();
        ClientQuotaManager rates = null;
        ControllerMutationQuotaManager tokens = null;
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] word = line.split("\t", -1);
            switch (word[0]) {
                case "new" -> {
                    if (rates != null) {
                        rates.initiateShutdown();
                        tokens.initiateShutdown();
                    }
                    ClientQuotaManagerConfig config =
                        new ClientQuotaManagerConfig(Integer.parseInt(word[1]), Integer.parseInt(word[2]));
                    rates = new ClientQuotaManager(config, new Metrics(time), QuotaType.PRODUCE, time, "");
                    tokens = new ControllerMutationQuotaManager(config, new Metrics(time), time, "", Optional.empty());
                }
                case "limit" -> {
                    ClientQuotaManager manager = word[1].equals("rate") ? rates : tokens;
                    manager.updateQuota(
                        word[2].equals("-") ? Optional.empty() : Optional.of(user(word[2])),
                        word[3].equals("-") ? Optional.empty() : Optional.of(client(word[3])),
                        word[4].equals("-") ? Optional.empty()
                            : Optional.of(new Quota(Double.parseDouble(word[4]), true)));
                }
                case "use" -> {
                    ClientQuotaManager manager = word[1].equals("rate") ? rates : tokens;
                    long now = Long.parseLong(word[5]);
                    time.now = now;
                    double value = Double.parseDouble(word[4]);
                    out.append(manager.maybeRecordAndGetThrottleTimeMs(session(word[2]), word[3], value, now)).append('\n');
                }
                case "back" -> rates.unrecordQuotaSensor(
                    session(word[1]), word[2], Double.parseDouble(word[3]), Long.parseLong(word[4]));
                case "most" -> out.append(rates.maxValueInQuotaWindow(session(word[1]), word[2])).append('\n');
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.out.print(out);
        if (rates != null) {
            rates.initiateShutdown();
            tokens.initiateShutdown();
        }
    }
}
