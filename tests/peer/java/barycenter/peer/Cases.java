package barycenter.peer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageBrokerData;

/** Batches of cases: a JSON document a line in, a JSON document a line out; and Pulsar's values made of them. */
public final class Cases {
    /** What is asked of one case. */
    @FunctionalInterface
    public interface Question {
        Object answer(JsonNode document) throws Exception;
    }

    private static final ObjectMapper MAPPER = ObjectMapperFactory.getMapper().getObjectMapper();

    private Cases() {}

    /** Answer each case of one file in another, in the same order. */
    public static void answer(String questions, String answers, Question question) throws Exception {
        try (BufferedReader in = Files.newBufferedReader(Path.of(questions));
                BufferedWriter out = Files.newBufferedWriter(Path.of(answers))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.write(MAPPER.writeValueAsString(question.answer(MAPPER.readTree(line))));
                out.newLine();
            }
        }
    }

    public static <T> T read(JsonNode node, Class<T> type) throws Exception {
        return MAPPER.treeToValue(node, type);
    }

    /** The JSON of a value as it is now. */
    public static JsonNode tree(Object value) {
        return MAPPER.valueToTree(value);
    }

    /** The default configuration with the fields of {@code overrides} set, whatever guards their setters have. */
    public static ServiceConfiguration configuration(JsonNode overrides) throws Exception {
        ServiceConfiguration configuration = new ServiceConfiguration();
        Iterator<Map.Entry<String, JsonNode>> entries = overrides.fields();
        while (entries.hasNext()) {
            Map.Entry<String, JsonNode> entry = entries.next();
            Field field = ServiceConfiguration.class.getDeclaredField(entry.getKey());
            field.setAccessible(true);
            field.set(configuration, MAPPER.treeToValue(entry.getValue(), field.getType()));
        }
        return configuration;
    }

    public static Map<String, BundleData> bundleData(JsonNode node) throws Exception {
        Map<String, BundleData> data = new LinkedHashMap<>();
        Iterator<Map.Entry<String, JsonNode>> entries = node.fields();
        while (entries.hasNext()) {
            Map.Entry<String, JsonNode> entry = entries.next();
            data.put(entry.getKey(), read(entry.getValue(), BundleData.class));
        }
        return data;
    }

    /** Brokers, bundles and what was unloaded recently; with {@code ordered}, maps in the order of the document. */
    public static LoadData loadData(JsonNode node, boolean ordered) throws Exception {
        LoadData data = ordered ? new OrderedLoadData() : new LoadData();
        Iterator<Map.Entry<String, JsonNode>> brokers = node.get("brokers").fields();
        while (brokers.hasNext()) {
            Map.Entry<String, JsonNode> entry = brokers.next();
            JsonNode broker = entry.getValue();
            BrokerData made = new BrokerData(read(broker.get("localData"), LocalBrokerData.class));
            made.setTimeAverageData(read(broker.get("timeAverageData"), TimeAverageBrokerData.class));
            Map<String, BundleData> preallocated = bundleData(broker.get("preallocatedBundleData"));
            if (ordered) {
                made.setPreallocatedBundleData(preallocated);
            } else {
                made.getPreallocatedBundleData().putAll(preallocated);
            }
            data.getBrokerData().put(entry.getKey(), made);
        }
        data.getBundleData().putAll(bundleData(node.get("bundleData")));
        for (JsonNode bundle : node.get("recentlyUnloadedBundles")) {
            data.getRecentlyUnloadedBundles().put(bundle.asText(), 0L);
        }
        return data;
    }

    /** Pulsar's LoadData, with brokers in the order of the document and bundles in that of names, not of hash maps. */
    private static final class OrderedLoadData extends LoadData {
        private final Map<String, BrokerData> brokers = new LinkedHashMap<>();

        @Override
        public Map<String, BundleData> getBundleDataForLoadShedding() {
            return new TreeMap<>(super.getBundleDataForLoadShedding());
        }

        @Override
        public Map<String, BrokerData> getBrokerData() {
            return brokers;
        }
    }
}
