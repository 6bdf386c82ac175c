package kavka.compat;

import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;

/** Confluent's serializers: writes a record of a given schema, and says what it reads in bytes that others wrote. */
public final class AvroRecords {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        Map<String, Object> options = Map.of("schema.registry.url", arguments[0]);
        Schema schema = new Schema.Parser().parse(arguments[2]);
        GenericRecord record = new GenericData.Record(schema);
        record.put("id", Long.MAX_VALUE);
        record.put("note", "от Java");
        try (KafkaAvroSerializer serializer = new KafkaAvroSerializer();
                KafkaAvroDeserializer deserializer = new KafkaAvroDeserializer()) {
            serializer.configure(options, false);
            deserializer.configure(options, false);
            System.out.println(HexFormat.of().formatHex(serializer.serialize(topic, record)));
            for (int at = 3; at < arguments.length; at++) {
                System.out.println(deserializer.deserialize(topic, HexFormat.of().parseHex(arguments[at])));
            }
        }
    }
}
