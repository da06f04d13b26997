package barycenter.peer;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;

/** Any LoadSheddingStrategy, over several rounds. */
public final class Shedding {
    private Shedding() {}

    /**
     * For each round the bundles of each broker, in order. {@code historyField} names a map of the strategy that is
     * told too; empty: none.
     */
    public static void rounds(String strategy, String historyField, boolean ordered, String questions, String answers)
            throws Exception {
        Class<?> type = Class.forName(strategy);
        Cases.answer(questions, answers, document -> {
            LoadSheddingStrategy shedder = (LoadSheddingStrategy) type.getDeclaredConstructor().newInstance();
            ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
            List<Map<String, Object>> rounds = new ArrayList<>();
            for (JsonNode round : document.get("rounds")) {
                LoadData data = Cases.loadData(round, ordered);
                shedder.onActiveBrokersChange(data.getBrokerData().keySet());
                Map<String, Object> told = new LinkedHashMap<>();
                Map<String, List<String>> chosen = new LinkedHashMap<>();
                shedder.findBundlesForUnloading(data, configuration).asMap()
                        .forEach((broker, bundles) -> chosen.put(broker, List.copyOf(bundles)));
                told.put("chosen", chosen);
                if (!historyField.isEmpty()) {
                    Field field = type.getDeclaredField(historyField);
                    field.setAccessible(true);
                    told.put("history", Map.copyOf((Map<?, ?>) field.get(shedder)));
                }
                rounds.add(told);
            }
            return rounds;
        });
    }
}
