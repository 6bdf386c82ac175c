package kafka.server.share;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.StringJoiner;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.persister.*;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/** Plays lines of standard input on Kafka's SharePartition, and says after each what came of it. */
public final class PlaySharePartition {
    private static final Uuid TOPIC = Uuid.randomUuid();
    private static final TopicIdPartition PARTITION = new TopicIdPartition(TOPIC, new TopicPartition("t", 0));

    static final class Clock implements Time {
        long nowMs = 1000;

        public long milliseconds() { return nowMs; }
        public long nanoseconds() { return nowMs * 1_000_000; }
        public void sleep(long ms) { nowMs += ms; }
        public void waitObject(Object o, Supplier<Boolean> c, long d) { throw new UnsupportedOperationException(); }
    }

    static final class Alarms implements Timer {
        private final Clock clock;
        private final List<TimerTaskEntry> entries = new ArrayList<>();

        Alarms(Clock clock) { this.clock = clock; }
        public void add(TimerTask task) { entries.add(new TimerTaskEntry(task, clock.nowMs + task.delayMs)); }
        public boolean advanceClock(long ms) { return false; }
        public int size() { return entries.size(); }
        public void close() { }

        void advance(long ms) {
            clock.nowMs += ms;
            List<TimerTaskEntry> due = new ArrayList<>(entries);
            due.removeIf(entry -> entry.expirationMs > clock.nowMs);
            due.sort(Comparator.comparingLong(entry -> entry.expirationMs));
            entries.removeAll(due);
            for (TimerTaskEntry entry : due) {
                if (!entry.cancelled()) {
                    try {
                        entry.timerTask.run();
                    } catch (NullPointerException nobodyWaits) {
                        // There is no replica manager whose waiting fetches could be woken.
                    }
                }
            }
        }
    }

    static final class Settings extends GroupConfigManager {
        Settings() { super(Map.of(), null, null); }
        @Override public Optional<GroupConfig> groupConfig(String id) { return Optional.empty(); }
    }

    static final class Pending {
        final CompletableFuture<WriteShareGroupStateResult> future = new CompletableFuture<>();
        List<PersisterStateBatch> batches;

        void finish(Errors error) {
            future.complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(TOPIC,
                List.of(PartitionFactory.newPartitionErrorData(0, error.code(), error.message()))))).build());
        }
    }

    static final class Log implements Persister {
        final List<Pending> pending = new ArrayList<>();
        PartitionAllData state;

        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters p) {
            return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(
                List.of(new TopicData<>(TOPIC, List.of(state)))).build());
        }
        public CompletableFuture<WriteShareGroupStateResult> writeState(WriteShareGroupStateParameters p) {
            Pending write = new Pending();
            write.batches = p.groupTopicPartitionData().topicsData().get(0).partitions().get(0).stateBatches();
            pending.add(write);
            return write.future;
        }
        public CompletableFuture<InitializeShareGroupStateResult> initializeState(InitializeShareGroupStateParameters p) { return null; }
        public CompletableFuture<DeleteShareGroupStateResult> deleteState(DeleteShareGroupStateParameters p) { return null; }
        public CompletableFuture<ReadShareGroupStateSummaryResult> readSummary(ReadShareGroupStateSummaryParameters p) { return null; }
        public void stop() { }
    }

    private final Clock clock = new Clock();
    private final Alarms alarms = new Alarms(clock);
    private final Log log = new Log();
    private final SharePartition partition;

    private PlaySharePartition(String[] words) throws Exception {
        List<PersisterStateBatch> states = new ArrayList<>();
        for (int at = 5; at < words.length; at++) {
            String[] one = words[at].split(":");
            states.add(new PersisterStateBatch(Long.parseLong(one[0]), Long.parseLong(one[1]), Byte.parseByte(one[2]), Short.parseShort(one[3])));
        }
        log.state = PartitionFactory.newPartitionAllData(0, 1, Long.parseLong(words[1]), (short) 0, null, states);
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        GroupConfigManager settings = (GroupConfigManager) ((sun.misc.Unsafe) field.get(null)).allocateInstance(Settings.class);
        partition = new SharePartition("g", PARTITION, 1, Integer.parseInt(words[2]), Integer.parseInt(words[3]),
            Integer.parseInt(words[4]), alarms, clock, log, null, settings, null);
        partition.maybeInitialize().get();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PlaySharePartition play = null;
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String said = "";
            if (words[0].equals("new")) {
                play = new PlaySharePartition(words);
            } else {
                said = play.step(words);
            }
            out.append(said).append(" | ").append(play.state()).append('\n');
        }
        System.out.print(out);
        System.out.flush();
    }

    private String step(String[] words) throws Exception {
        switch (words[0]) {
            case "acquire":
                return acquire(words);
            case "acknowledge":
                List<ShareAcknowledgementBatch> said = new ArrayList<>();
                for (int at = 2; at < words.length; at++) {
                    String[] one = words[at].split(":");
                    List<Byte> types = new ArrayList<>();
                    for (String type : one[2].split(",")) {
                        types.add(Byte.parseByte(type));
                    }
                    said.add(new ShareAcknowledgementBatch(Long.parseLong(one[0]), Long.parseLong(one[1]), types));
                }
                return written(log.pending.size(), partition.acknowledge(words[1], said));
            case "release":
                return written(log.pending.size(), partition.releaseAcquiredRecords(words[1]));
            case "finish":
                log.pending.remove(Integer.parseInt(words[1])).finish(words[2].equals("well") ? Errors.NONE : Errors.COORDINATOR_NOT_AVAILABLE);
                return "";
            case "wait":
                int before = log.pending.size();
                alarms.advance(Long.parseLong(words[1]));
                List<Pending> expired = new ArrayList<>(log.pending.subList(before, log.pending.size()));
                log.pending.subList(before, log.pending.size()).clear();
                expired.forEach(write -> write.finish(Errors.NONE));
                return "";
            case "start":
                partition.updateCacheAndOffsets(Long.parseLong(words[1]));
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private String acquire(String[] words) {
        List<MemoryRecords> batches = new ArrayList<>();
        int size = 0;
        for (String each : words[6].split(",")) {
            String[] range = each.split("-");
            long first = Long.parseLong(range[0]);
            SimpleRecord[] records = new SimpleRecord[(int) (Long.parseLong(range[1]) - first + 1)];
            Arrays.fill(records, new SimpleRecord("x".getBytes()));
            MemoryRecords batch = MemoryRecords.withRecords(first, Compression.NONE, records);
            batches.add(batch);
            size += batch.sizeInBytes();
        }
        ByteBuffer buffer = ByteBuffer.allocate(size);
        batches.forEach(batch -> buffer.put(batch.buffer().duplicate()));
        buffer.flip();
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 1L << 40, 0, MemoryRecords.readableRecords(buffer),
            Optional.empty(), OptionalLong.empty(), Optional.empty(), OptionalInt.empty(), false);
        StringJoiner got = new StringJoiner(",");
        ShareAcquireMode mode = words[2].equals("1") ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED;
        for (AcquiredRecords each : partition.acquire(words[1], mode, Integer.parseInt(words[3]), Integer.parseInt(words[4]),
            Long.parseLong(words[5]), data, FetchIsolation.HIGH_WATERMARK).acquiredRecords()) {
            got.add(each.firstOffset() + "-" + each.lastOffset() + ":" + each.deliveryCount());
        }
        return got.toString();
    }

    private String written(int before, CompletableFuture<Void> future) throws Exception {
        if (future.isCompletedExceptionally()) {
            try {
                future.get();
            } catch (java.util.concurrent.ExecutionException refused) {
                return "refused " + Errors.forException(refused.getCause()).code();
            }
        }
        StringJoiner said = new StringJoiner(",");
        for (Pending write : log.pending.subList(before, log.pending.size())) {
            for (PersisterStateBatch each : write.batches) {
                for (long offset = each.firstOffset(); offset <= each.lastOffset(); offset++) {
                    said.add(offset + ":" + each.deliveryState() + ":" + each.deliveryCount());
                }
            }
        }
        return said.toString();
    }

    private String state() {
        StringJoiner said = new StringJoiner(" ");
        said.add(partition.nextFetchOffset() + " " + partition.startOffset() + " " + partition.endOffset() + " " + partition.deliveryCompleteCount());
        for (InFlightBatch batch : partition.cachedState().values()) {
            for (long offset = Math.max(batch.firstOffset(), partition.startOffset()); offset <= batch.lastOffset(); offset++) {
                if (batch.offsetState() == null) {
                    said.add(offset + ":" + batch.batchState().id() + ":" + batch.batchDeliveryCount() + ":" + batch.batchMemberId());
                } else {
                    InFlightState held = batch.offsetState().get(offset);
                    said.add(offset + ":" + held.state().id() + ":" + held.deliveryCount() + ":" + held.memberId());
                }
            }
        }
        return said.toString();
    }
}
