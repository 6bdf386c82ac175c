package kavka.compat;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** AdminCalls bootstrap topic call: one group of calls of the Java admin client; prints what each answered. */
public final class AdminCalls {
    private final Admin admin;
    private final String topic;

    private AdminCalls(Admin admin, String topic) {
        this.admin = admin;
        this.topic = topic;
    }

    public static void main(String[] args) throws Exception {
        Properties properties = Clients.properties(args[0], args, 3);
        try (Admin admin = Admin.create(properties)) {
            AdminCalls calls = new AdminCalls(admin, args[1]);
            AdminCalls.class.getDeclaredMethod(args[2]).invoke(calls);
        }
    }

    private static void say(String line) {
        System.out.println(line);
    }

    private static String outcome(KafkaFuture<?> future) throws InterruptedException {
        try {
            future.get();
            return "ok";
        } catch (ExecutionException failed) {
            return failed.getCause().getClass().getSimpleName();
        }
    }

    private static String nameOrDefault(ConfigResource resource) {
        return resource.type() + ":" + resource.name();
    }

    void createTopics() throws Exception {
        NewTopic wanted = new NewTopic(topic, Optional.of(3), Optional.empty()).configs(Map.of("retention.ms", "5000"));
        CreateTopicsOptions validate = new CreateTopicsOptions().validateOnly(true);
        CreateTopicsResult dry = admin.createTopics(List.of(wanted), validate);
        say("validated " + outcome(dry.all()) + " partitions " + dry.numPartitions(topic).get());
        say("listed " + admin.listTopics().names().get().contains(topic));
        CreateTopicsResult created = admin.createTopics(List.of(wanted, new NewTopic("a/b", 1, (short) 1)));
        say("created " + outcome(created.values().get(topic)) + " other " + outcome(created.values().get("a/b")));
        say("partitions " + created.numPartitions(topic).get() + " replicas " + created.replicationFactor(topic).get());
        say("retention " + created.config(topic).get().get("retention.ms").value());
        say("configs " + created.config(topic).get().entries().size());
        say("id " + (created.topicId(topic).get().equals(Uuid.ZERO_UUID) ? "zero" : "set"));
        say("again " + outcome(admin.createTopics(List.of(wanted)).all()));
        say("again validated " + outcome(admin.createTopics(List.of(wanted), validate).all()));
    }

    void topicIds() throws Exception {
        CreateTopicsResult created = admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1)));
        Uuid id = created.topicId(topic).get();
        awaitTopic();
        TopicDescription byId = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).topicIdValues().get(id).get();
        say("by id " + byId.name() + " " + byId.partitions().size() + " internal " + byId.isInternal());
        TopicDescription byName = admin.describeTopics(List.of(topic)).topicNameValues().get(topic).get();
        say("same id " + byName.topicId().equals(id));
        Uuid nobody = new Uuid(1, 2);
        say("unknown id " + outcome(admin.describeTopics(TopicCollection.ofTopicIds(List.of(nobody))).allTopicIds()));
        say("deleted " + outcome(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all()));
        say("deleted again " + outcome(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all()));
        say("by name " + outcome(admin.deleteTopics(List.of(topic)).all()));
    }

    void createPartitions() throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        CreatePartitionsOptions validate = new CreatePartitionsOptions().validateOnly(true);
        say("validated " + outcome(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4)), validate).all()));
        say("count " + count());
        say("increased " + outcome(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all()));
        say("count " + count());
        say("fewer " + outcome(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all()));
        NewPartitions misplaced = NewPartitions.increaseTo(5, List.of(List.of(42)));
        say("misplaced " + outcome(admin.createPartitions(Map.of(topic, misplaced)).all()));
        say("unknown " + outcome(admin.createPartitions(Map.of("nowhere", NewPartitions.increaseTo(2))).all()));
    }

    /** A broker learns of a new topic after the controller has made it. */
    private void awaitTopic() throws Exception {
        while (!outcome(admin.describeTopics(List.of(topic)).allTopicNames()).equals("ok")) {
            Thread.sleep(20);
        }
    }

    private int count() throws Exception {
        awaitTopic();
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    void configs() throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        awaitTopic();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        say("set " + alter(resource, new ConfigEntry("cleanup.policy", "compact"), OpType.SET, false));
        say("append " + alter(resource, new ConfigEntry("cleanup.policy", "delete"), OpType.APPEND, false));
        say("policy " + value(resource, "cleanup.policy"));
        say("subtract " + alter(resource, new ConfigEntry("cleanup.policy", "compact"), OpType.SUBTRACT, false));
        say("policy " + value(resource, "cleanup.policy"));
        say("append to a number " + alter(resource, new ConfigEntry("retention.ms", "1"), OpType.APPEND, false));
        say("validated " + alter(resource, new ConfigEntry("retention.ms", "77"), OpType.SET, true));
        say("retention " + value(resource, "retention.ms"));
        say("wrong " + alter(resource, new ConfigEntry("retention.ms", "x"), OpType.SET, false));
        say("unknown name " + alter(resource, new ConfigEntry("no.such", "x"), OpType.SET, false));
        say("deleted " + alter(resource, new ConfigEntry("cleanup.policy", ""), OpType.DELETE, false));
        say("policy " + value(resource, "cleanup.policy"));
        ConfigResource unknown = new ConfigResource(ConfigResource.Type.TOPIC, "nowhere");
        say("unknown topic " + alter(unknown, new ConfigEntry("retention.ms", "1"), OpType.SET, false));
        say("describe unknown " + outcome(admin.describeConfigs(List.of(unknown)).all()));
    }

    private String alter(ConfigResource resource, ConfigEntry entry, OpType how, boolean validateOnly) throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> ops = Map.of(resource, List.of(new AlterConfigOp(entry, how)));
        return outcome(admin.incrementalAlterConfigs(ops, new AlterConfigsOptions().validateOnly(validateOnly)).all());
    }

    private String value(ConfigResource resource, String name) throws Exception {
        ConfigEntry entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        return entry.value() + " " + entry.source();
    }

    void configDetails() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, "1");
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Config config = admin.describeConfigs(List.of(resource), options).all().get().get(resource);
        for (String name : List.of("message.max.bytes", "log.retention.ms", "broker.id", "ssl.key.password", "log.cleaner.threads")) {
            ConfigEntry entry = config.get(name);
            say(name + "=" + entry.value() + " " + entry.type() + " " + entry.source() + " sensitive " + entry.isSensitive()
                + " read-only " + entry.isReadOnly() + " synonyms " + entry.synonyms().size()
                + " documented " + (entry.documentation() != null && !entry.documentation().isEmpty()));
        }
        Set<String> types = config.entries().stream().map(entry -> entry.type().name()).collect(Collectors.toCollection(TreeSet::new));
        say("types " + types);
    }

    void configResources() throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(Map.of("retention.ms", "1")))).all().get();
        awaitTopic();
        Collection<ConfigResource> topics =
            admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC), new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get();
        say("this topic " + topics.stream().anyMatch(resource -> resource.name().equals(topic)));
        Collection<ConfigResource> brokers =
            admin.listConfigResources(Set.of(ConfigResource.Type.BROKER), new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get();
        say("brokers " + brokers.stream().map(AdminCalls::nameOrDefault).sorted().collect(Collectors.toList()));
    }

    void offsets() throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        Map<String, OffsetSpec> specs = new TreeMap<>(Map.of(
            "earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(), "max timestamp", OffsetSpec.maxTimestamp(),
            "earliest local", OffsetSpec.earliestLocal(), "latest tiered", OffsetSpec.latestTiered(),
            "time 1700000003500", OffsetSpec.forTimestamp(1700000003500L), "time 0", OffsetSpec.forTimestamp(0),
            "time too late", OffsetSpec.forTimestamp(1900000000000L)));
        for (Map.Entry<String, OffsetSpec> spec : specs.entrySet()) {
            say(spec.getKey() + " " + found(partition, spec.getValue(), IsolationLevel.READ_UNCOMMITTED));
        }
        say("committed " + found(partition, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED));
        say("deleted " + outcome(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).all()));
        say("earliest " + found(partition, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED));
        say("time 0 " + found(partition, OffsetSpec.forTimestamp(0), IsolationLevel.READ_UNCOMMITTED));
    }

    private String found(TopicPartition partition, OffsetSpec spec, IsolationLevel isolation) throws Exception {
        ListOffsetsResultInfo info =
            admin.listOffsets(Map.of(partition, spec), new ListOffsetsOptions(isolation)).partitionResult(partition).get();
        return info.offset() + " " + info.timestamp() + " " + info.leaderEpoch();
    }

    void cluster() throws Exception {
        DescribeClusterResult cluster =
            admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        say("nodes " + cluster.nodes().get().stream().map(node -> node.id() + " " + node.host() + " " + node.rack()).collect(Collectors.toList()));
        say("controller " + cluster.controller().get().id());
        say("operations " + new TreeSet<>(cluster.authorizedOperations().get()));
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        say("leader " + quorum.leaderId() + " voters " + quorum.voters().size() + " observers " + quorum.observers().size());
        say("voter " + quorum.voters().get(0).replicaId() + " directory "
            + (quorum.voters().get(0).replicaDirectoryId().equals(Uuid.ZERO_UUID) ? "zero" : "set"));
        say("features " + new TreeMap<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures()));
        say("dirs " + admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values().stream()
            .map(dir -> dir.error() + " total " + dir.totalBytes().isPresent() + " usable " + dir.usableBytes().isPresent())
            .collect(Collectors.toList()));
    }
}
