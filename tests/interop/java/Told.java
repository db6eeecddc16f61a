import java.util.List;
import java.util.Map;
import org.yaml.snakeyaml.Yaml;

/** A line of JSON that we are told, and those that we say. */
final class Told {
    private final Map<?, ?> fields;

    /** Every version of Redisson brings a reader of YAML, and JSON is YAML. */
    Told(String line) {
        Object read = new Yaml().load(line);
        fields = (Map<?, ?>) read;
    }

    String text(String field) {
        return (String) fields.get(field);
    }

    double number(String field) {
        return ((Number) fields.get(field)).doubleValue();
    }

    /** A number between the two of a field, drawn at random. */
    double between(String field, double chance) {
        List<?> both = list(field);
        double least = ((Number) both.get(0)).doubleValue();
        double most = ((Number) both.get(1)).doubleValue();
        return least + (most - least) * chance;
    }

    List<?> list(String field) {
        return (List<?>) fields.get(field);
    }

    /** Maps, lists, texts, numbers, truth values and arrays of times, as JSON. */
    static String json(Object value) {
        StringBuilder text = new StringBuilder();
        write(text, value);
        return text.toString();
    }

    private static void write(StringBuilder text, Object value) {
        if (value instanceof Map) {
            text.append('{');
            ((Map<?, ?>) value)
                    .forEach(
                            (field, one) -> {
                                separate(text, '{');
                                write(text, field);
                                text.append(": ");
                                write(text, one);
                            });
            text.append('}');
        } else if (value instanceof List) {
            text.append('[');
            for (Object one : (List<?>) value) {
                separate(text, '[');
                write(text, one);
            }
            text.append(']');
        } else if (value instanceof String) {
            quote(text, (String) value);
        } else {
            text.append(value);
        }
    }

    private static void separate(StringBuilder text, char opening) {
        if (text.charAt(text.length() - 1) != opening) {
            text.append(", ");
        }
    }

    private static void quote(StringBuilder text, String value) {
        text.append('"');
        for (char one : value.toCharArray()) {
            if (one == '"' || one == '\\' || one < ' ') {
                text.append(String.format("\\u%04x", (int) one));
            } else {
                text.append(one);
            }
        }
        text.append('"');
    }
}
