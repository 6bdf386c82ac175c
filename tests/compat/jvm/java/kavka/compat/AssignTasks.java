package kavka.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/**
 * Kafka's sticky assignor of streams groups, asked on standard input.
 *
 * Lines, by tabs: "topology ID TASKS STATEFUL", "member ID PROCESS ACTIVE STANDBY" with tasks as "0:1,0:2", and
 * "assign REPLICAS", which is answered by a line "ID ACTIVE STANDBY;..." and forgets all before it.
 */
public final class AssignTasks {
    private static final Map<String, Integer> TASKS = new TreeMap<>();
    private static final Set<String> STATEFUL = new HashSet<>();
    private static final Map<String, AssignmentMemberSpec> MEMBERS = new TreeMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "topology" -> {
                    TASKS.put(words[1], Integer.parseInt(words[2]));
                    if (words[3].equals("true")) {
                        STATEFUL.add(words[1]);
                    }
                }
                case "member" -> MEMBERS.put(words[1], new AssignmentMemberSpec(Optional.empty(), Optional.empty(),
                    tasks(words[3]), tasks(words[4]), Map.of(), words[2], Map.of(), Map.of(), Map.of()));
                default -> assign(words[1]);
            }
        }
    }

    private static void assign(String replicas) {
        GroupAssignment found = new StickyTaskAssignor().assign(
            new GroupSpecImpl(MEMBERS, Map.of("num.standby.replicas", replicas)), new Described());
        List<String> rows = new ArrayList<>();
        for (Map.Entry<String, MemberAssignment> one : new TreeMap<>(found.members()).entrySet()) {
            rows.add(one.getKey() + " " + text(one.getValue().activeTasks()) + " " + text(one.getValue().standbyTasks()));
        }
        System.out.println(String.join(";", rows));
        TASKS.clear();
        STATEFUL.clear();
        MEMBERS.clear();
    }

    private static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> found = new LinkedHashMap<>();
        for (String task : text.isEmpty() ? new String[0] : text.split(",")) {
            String[] parts = task.split(":");
            found.computeIfAbsent(parts[0], any -> new HashSet<>()).add(Integer.parseInt(parts[1]));
        }
        return found;
    }

    private static String text(Map<String, Set<Integer>> tasks) {
        List<String> found = new ArrayList<>();
        new TreeMap<>(tasks).forEach((id, partitions) -> new TreeSet<>(partitions).forEach(one -> found.add(id + ":" + one)));
        return String.join(",", found);
    }

    private static final class Described implements TopologyDescriber {
        @Override
        public List<String> subtopologies() {
            return List.copyOf(TASKS.keySet());
        }

        @Override
        public int maxNumInputPartitions(String id) {
            return TASKS.get(id);
        }

        @Override
        public boolean isStateful(String id) {
            return STATEFUL.contains(id);
        }
    }
}
