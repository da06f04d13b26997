package barycenter.peer;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.BrokerFilter;
import org.apache.pulsar.broker.loadbalance.BrokerFilterException;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.broker.loadbalance.impl.RoundRobinBrokerSelector;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;

/** Any ModularLoadManagerStrategy, asked again and again. Candidates come in the order of the document. */
public final class Placement {
    private Placement() {}

    /** The brokers that {@code draws} choices of a fresh strategy fell on, by name; none without candidates. */
    public static void draws(String strategy, boolean ordered, String questions, String answers) throws Exception {
        Class<?> type = Class.forName(strategy);
        Cases.answer(questions, answers, document -> {
            ModularLoadManagerStrategy selector =
                    (ModularLoadManagerStrategy) type.getDeclaredConstructor().newInstance();
            ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
            LoadData data = Cases.loadData(document.get("load"), ordered);
            BundleData bundle = Cases.read(document.get("bundle"), BundleData.class);
            Set<String> candidates = candidates(document);
            Set<String> drawn = new TreeSet<>();
            for (int draw = 0; draw < document.get("draws").asInt(); draw++) {
                selector.selectBroker(candidates, bundle, data, configuration).ifPresent(drawn::add);
            }
            return drawn;
        });
    }

    /**
     * Rounds of one strategy that remembers a map, which {@code memory} names. Each round is drawn from the same memory
     * many times; told are the brokers drawn, the last of them, and the values of the memory that this one left behind.
     * A round names a bundle by its place in the case, so that a strategy meets the same one again.
     */
    public static void rounds(String strategy, String memory, String questions, String answers) throws Exception {
        Class<?> type = Class.forName(strategy);
        Field field = type.getDeclaredField(memory);
        field.setAccessible(true);
        Cases.answer(questions, answers, document -> {
            ModularLoadManagerStrategy selector =
                    (ModularLoadManagerStrategy) type.getDeclaredConstructor().newInstance();
            ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
            @SuppressWarnings("unchecked")
            Map<Object, Object> remembered = (Map<Object, Object>) field.get(selector);
            List<BundleData> bundles = new ArrayList<>();
            for (JsonNode bundle : document.get("bundles")) {
                bundles.add(Cases.read(bundle, BundleData.class));
            }
            List<Map<String, Object>> told = new ArrayList<>();
            for (JsonNode round : document.get("rounds")) {
                LoadData data = Cases.loadData(round.get("load"), false);
                Set<String> candidates = candidates(round);
                BundleData bundle = bundles.get(round.get("bundle").asInt());
                Map<Object, Object> before = new HashMap<>(remembered);
                Set<String> drawn = new TreeSet<>();
                Optional<String> last = Optional.empty();
                for (int draw = 0; draw < round.get("draws").asInt(); draw++) {
                    remembered.clear();
                    remembered.putAll(before);
                    last = selector.selectBroker(candidates, bundle, data, configuration);
                    last.ifPresent(drawn::add);
                }
                Map<String, Object> answer = new HashMap<>();
                answer.put("drawn", drawn);
                answer.put("last", last.orElse(null));
                Map<String, Object> after = new TreeMap<>();
                remembered.forEach((key, value) -> after.put(key instanceof String ? (String) key : "", value));
                answer.put("memory", after);
                told.add(answer);
            }
            return told;
        });
    }

    /** The brokers that one RoundRobinBrokerSelector chooses one after the other, none as null. */
    public static void turns(String questions, String answers) throws Exception {
        Field field = RoundRobinBrokerSelector.class.getDeclaredField("count");
        field.setAccessible(true);
        Cases.answer(questions, answers, document -> {
            RoundRobinBrokerSelector selector = new RoundRobinBrokerSelector();
            ((AtomicInteger) field.get(selector)).set(document.get("counter").asInt());
            List<String> chosen = new ArrayList<>();
            for (JsonNode turn : document.get("turns")) {
                chosen.add(selector.selectBroker(candidates(turn), null, null, null).orElse(null));
            }
            return chosen;
        });
    }

    /** The candidates that a filter of the modular load manager keeps, or that it failed. */
    public static void filter(String name, String questions, String answers) throws Exception {
        BrokerFilter filter = (BrokerFilter) Class.forName(name).getDeclaredConstructor().newInstance();
        Cases.answer(questions, answers, document -> {
            Set<String> candidates = candidates(document);
            try {
                filter.filter(
                        candidates,
                        null,
                        Cases.loadData(document.get("load"), false),
                        Cases.configuration(document.get("configuration")));
                return new TreeSet<>(candidates);
            } catch (BrokerFilterException failed) {
                return "failed";
            }
        });
    }

    /** The candidates of a document, in its order. */
    static Set<String> candidates(JsonNode document) {
        Set<String> candidates = new LinkedHashSet<>();
        document.get("candidates").forEach(candidate -> candidates.add(candidate.asText()));
        return candidates;
    }
}
