package kavka.compat;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.CompatibilityLevel;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.ParsedSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.formats.avro.registry.confluent.ConfluentSchemaRegistryCoder;

/** Confluent's own registry client, and Flink's framing on top of it: says line by line what it is answered. */
public final class RegistryClient {
    private static final String ORDER =
            "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"}]}";
    private static final String WIDER =
            "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"},"
                    + "{\"name\":\"note\",\"type\":\"string\",\"default\":\"\"}]}";
    private static final String OTHER =
            "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"string\"}]}";
    private static final String BASKET =
            "{\"type\":\"record\",\"name\":\"Basket\",\"fields\":[{\"name\":\"first\",\"type\":\"Order\"}]}";

    private interface Asked {
        Object ask() throws Exception;
    }

    private static String told(RestClientException error) {
        return "error " + error.getStatus() + " " + error.getErrorCode();
    }

    private static void say(String what, Asked asked) throws Exception {
        Object said;
        try {
            said = asked.ask();
        } catch (RestClientException error) {
            said = told(error);
        } catch (IOException error) {
            if (!(error.getCause() instanceof RestClientException)) {
                throw error;
            }
            said = told((RestClientException) error.getCause());
        }
        System.out.println(what + ": " + said);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> options = new HashMap<>();
        for (int at = 1; at < arguments.length; at++) {
            String[] option = arguments[at].split("=", 2);
            options.put(option[0], option[1]);
        }
        CachedSchemaRegistryClient client = new CachedSchemaRegistryClient(
                List.of(arguments[0]), 100, List.of(new AvroSchemaProvider()), options);
        String subject = "java-value";
        say("register", () -> client.register(subject, new AvroSchema(ORDER)));
        say("by id", () -> client.getSchemaById(1).canonicalString());
        say("id of it", () -> client.getId(subject, new AvroSchema(ORDER)));
        say("evolve", () -> client.register(subject, new AvroSchema(WIDER)));
        say("version of it", () -> client.getVersion(subject, new AvroSchema(WIDER)));
        say("compatible", () -> client.testCompatibility(subject, new AvroSchema(OTHER)));
        say("why not", () -> client.testCompatibilityVerbose(subject, new AvroSchema(OTHER)).isEmpty());
        say("refused", () -> client.register(subject, new AvroSchema(OTHER)));
        say("versions", () -> client.getAllVersions(subject));
        say("latest", () -> {
            SchemaMetadata latest = client.getLatestSchemaMetadata(subject);
            return latest.getId() + " " + latest.getVersion() + " " + latest.getSchemaType();
        });
        say("level", () -> client.updateCompatibility(subject, CompatibilityLevel.FULL.name));
        say("level of it", () -> client.getCompatibility(subject));
        say("mode", () -> client.getMode());
        say("reference", () -> {
            SchemaReference reference = new SchemaReference("Order", subject, 1);
            ParsedSchema basket = new AvroSchema(BASKET, List.of(reference), Map.of("Order", ORDER), null);
            return client.register("basket-value", basket);
        });
        say("subjects", () -> client.getAllSubjects());
        say("subjects of it", () -> client.getAllSubjectsById(1));
        say("framed", () -> {
            Schema order = new Schema.Parser().parse(ORDER);
            ConfluentSchemaRegistryCoder coder = new ConfluentSchemaRegistryCoder(subject, client);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            coder.writeSchema(order, out);
            byte[] bytes = out.toByteArray();
            Schema read = coder.readSchema(new ByteArrayInputStream(bytes));
            return java.util.Arrays.toString(bytes) + " " + read.equals(order);
        });
        say("in use", () -> client.deleteSubject(subject));
        say("deleted", () -> client.deleteSubject("basket-value"));
        say("deleted for good", () -> client.deleteSubject("basket-value", true));
        say("not there", () -> client.getLatestSchemaMetadata("basket-value"));
    }
}
