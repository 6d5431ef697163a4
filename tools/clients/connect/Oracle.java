import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Kafka Connect's own converters, transforms and predicates, asked on standard input: one case in JSON
 * on each line, one answer on each line. tests/compat/compat_connect_values.py asks ours the same.
 */
public class Oracle {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = MAPPER.readTree(line);
            ObjectNode answer = MAPPER.createObjectNode();
            try {
                answer(question, answer);
            } catch (Exception error) {
                answer.removeAll();
                answer.put("error", error.getClass().getSimpleName());
                answer.put("message", error.getMessage());
            }
            out.println(MAPPER.writeValueAsString(answer));
        }
        out.flush();
    }

    private static void answer(JsonNode question, ObjectNode answer) throws Exception {
        switch (question.get("ask").asText()) {
            case "json" -> json(question, answer);
            case "write" -> write(question, answer);
            case "read" -> read(question, answer);
            case "header" -> header(question, answer);
            case "transform" -> transform(question, answer);
            case "predicate" -> predicate(question, answer);
            case "config" -> config(question, answer);
            default -> throw new IllegalArgumentException("unknown question");
        }
    }

    /** JSON to a value and back. */
    private static void json(JsonNode question, ObjectNode answer) {
        JsonConverter reading = converter(question.get("read"));
        JsonConverter writing = converter(question.get("write"));
        SchemaAndValue value = reading.toConnectData("t", bytes(question.get("data").asText()));
        byte[] written = writing.fromConnectData("t", value.schema(), value.value());
        answer.put("data", written == null ? null : new String(written, StandardCharsets.UTF_8));
    }

    /** A value, given as JSON with its schema, encoded by another converter. */
    private static void write(JsonNode question, ObjectNode answer) throws Exception {
        SchemaAndValue value = converter(null).toConnectData("t", bytes(question.get("data").asText()));
        Converter converter = plugin(question, Converter.class);
        converter.configure(props(question.get("props")), false);
        answer.put("data", converter.fromConnectData("t", value.schema(), value.value()));
    }

    private static void read(JsonNode question, ObjectNode answer) throws Exception {
        Converter converter = plugin(question, Converter.class);
        converter.configure(props(question.get("props")), false);
        SchemaAndValue value = converter.toConnectData("t", question.get("data").binaryValue());
        answer.put("data", text(converter(null).fromConnectData("t", value.schema(), value.value())));
    }

    private static void header(JsonNode question, ObjectNode answer) {
        SchemaAndValue value = Values.parseString(question.get("text").asText());
        answer.put("schema", value == null ? null : told(value.schema()));
        answer.put("text", value == null ? null : Values.convertToString(value.schema(), value.value()));
    }

    private static String told(Schema schema) {
        if (schema == null) {
            return null;
        }
        String name = schema.name() == null ? "" : ":" + schema.name();
        return switch (schema.type()) {
            case ARRAY -> "ARRAY(" + told(schema.valueSchema()) + ")";
            case MAP -> "MAP(" + told(schema.keySchema()) + "," + told(schema.valueSchema()) + ")";
            default -> schema.type() + name;
        };
    }

    @SuppressWarnings("unchecked")
    private static void transform(JsonNode question, ObjectNode answer) throws Exception {
        ConnectRecord<?> record = record(question.get("record"));
        Transformation transformation = plugin(question, Transformation.class);
        transformation.configure(props(question.get("props")));
        ConnectRecord<?> changed = (ConnectRecord<?>) transformation.apply((ConnectRecord) record);
        if (changed == null) {
            answer.putNull("record");
            return;
        }
        ObjectNode told = answer.putObject("record");
        JsonConverter converter = converter(null);
        told.put("topic", changed.topic());
        told.put("key", text(converter.fromConnectData("t", changed.keySchema(), changed.key())));
        told.put("value", text(converter.fromConnectData("t", changed.valueSchema(), changed.value())));
        ArrayNode headers = told.putArray("headers");
        for (Header header : changed.headers()) {
            headers.add(header.key());
            headers.add(text(HEADERS.fromConnectHeader("t", header.key(), header.schema(), header.value())));
            headers.add(told(header.schema()));
        }
    }

    @SuppressWarnings("unchecked")
    private static void predicate(JsonNode question, ObjectNode answer) throws Exception {
        Predicate predicate = plugin(question, Predicate.class);
        predicate.configure(props(question.get("props")));
        answer.put("holds", predicate.test((ConnectRecord) record(question.get("record"))));
    }

    private static ConnectRecord<?> record(JsonNode told) {
        SchemaAndValue key = value(told.get("key"));
        SchemaAndValue value = value(told.get("value"));
        Long timestamp = told.get("timestamp").isNull() ? null : told.get("timestamp").asLong();
        ConnectRecord<?> record = told.get("sink").asBoolean()
            ? new SinkRecord(told.get("topic").asText(), 3, key.schema(), key.value(), value.schema(),
                value.value(), 17, timestamp, TimestampType.CREATE_TIME)
            : new SourceRecord(Map.of(), Map.of(), told.get("topic").asText(), 3, key.schema(), key.value(),
                value.schema(), value.value(), timestamp);
        for (JsonNode header : told.get("headers")) {
            record.headers().add(header.asText(), "x", Schema.STRING_SCHEMA);
        }
        return record;
    }

    /** With an envelope, or without one where it has no schema. */
    private static SchemaAndValue value(JsonNode told) {
        return told.isNull() ? SchemaAndValue.NULL : converter(null).toConnectData("t", bytes(told.asText()));
    }

    private static void config(JsonNode question, ObjectNode answer) throws Exception {
        String name = question.get("class").asText();
        ConfigDef config = switch (name) {
            case "sink" -> SinkConnectorConfig.configDef();
            case "source" -> SourceConnectorConfig.configDef();
            default -> configOf(Class.forName(name).getDeclaredConstructor().newInstance());
        };
        for (ConfigDef.ConfigKey key : config.configKeys().values()) {
            ObjectNode told = answer.putObject(key.name);
            told.put("type", key.type.name());
            told.put("required", !key.hasDefault());
            told.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            told.put("importance", key.importance.name());
            told.put("group", key.group);
            told.put("order", key.orderInGroup);
            told.put("width", key.width.name());
            told.put("display", key.displayName);
        }
    }

    private static ConfigDef configOf(Object plugin) {
        if (plugin instanceof Transformation<?> transformation) {
            return transformation.config();
        }
        return plugin instanceof Predicate<?> predicate ? predicate.config() : ((Converter) plugin).config();
    }

    private static <T> T plugin(JsonNode question, Class<T> kind) throws Exception {
        return kind.cast(Class.forName(question.get("class").asText()).getDeclaredConstructor().newInstance());
    }

    private static JsonConverter converter(JsonNode told) {
        JsonConverter converter = new JsonConverter();
        converter.configure(props(told), false);
        return converter;
    }

    private static Map<String, String> props(JsonNode told) {
        Map<String, String> props = new HashMap<>();
        if (told != null) {
            told.properties().forEach(entry -> props.put(entry.getKey(), entry.getValue().asText()));
        }
        return props;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
