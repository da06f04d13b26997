package barycenter.peer;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.TreeSet;
import com.fasterxml.jackson.databind.JsonNode;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;

/** Any ModularLoadManagerStrategy, asked again and again. */
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
            Set<String> candidates = new LinkedHashSet<>();
            for (JsonNode candidate : document.get("candidates")) {
                candidates.add(candidate.asText());
            }
            Set<String> drawn = new TreeSet<>();
            for (int draw = 0; draw < document.get("draws").asInt(); draw++) {
                selector.selectBroker(candidates, bundle, data, configuration).ifPresent(drawn::add);
            }
            return drawn;
        });
    }
}
