package barycenter.peer;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletionException;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerFilter;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.BrokerSelectionStrategy;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.naming.ServiceUnitId;

/** What decides in the extensible load manager; mocks stand for its stores only. */
public final class Extensible {
    private static final ServiceUnitId UNIT = NamespaceName.get("t/ns");

    private Extensible() {}

    /** The brokers that {@code draws} choices fell on, by name; none without candidates. */
    public static void draws(String strategy, String questions, String answers) throws Exception {
        BrokerSelectionStrategy selector =
                (BrokerSelectionStrategy) Class.forName(strategy).getDeclaredConstructor().newInstance();
        Cases.answer(questions, answers, document -> {
            LoadManagerContext context = context(document);
            Set<String> candidates = Placement.candidates(document);
            Set<String> drawn = new TreeSet<>();
            for (int draw = 0; draw < document.get("draws").asInt(); draw++) {
                selector.select(candidates, UNIT, context).ifPresent(drawn::add);
            }
            return drawn;
        });
    }

    /** The brokers that a filter keeps, or that it failed. */
    public static void filter(String name, String questions, String answers) throws Exception {
        BrokerFilter filter = (BrokerFilter) Class.forName(name).getDeclaredConstructor().newInstance();
        Cases.answer(questions, answers, document -> {
            Map<String, BrokerLookupData> brokers = new LinkedHashMap<>();
            Iterator<Map.Entry<String, JsonNode>> entries = document.get("brokers").fields();
            while (entries.hasNext()) {
                Map.Entry<String, JsonNode> entry = entries.next();
                brokers.put(entry.getKey(), Cases.read(entry.getValue(), BrokerLookupData.class));
            }
            try {
                return new TreeSet<>(filter.filterAsync(brokers, UNIT, context(document)).join().keySet());
            } catch (CompletionException failed) {
                return "failed";
            }
        });
    }

    /** A context whose store of load data holds the "load" of a document. */
    private static LoadManagerContext context(JsonNode document) throws Exception {
        ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
        Map<String, BrokerLoadData> loads = new LinkedHashMap<>();
        Iterator<Map.Entry<String, JsonNode>> entries = document.get("load").fields();
        while (entries.hasNext()) {
            Map.Entry<String, JsonNode> entry = entries.next();
            loads.put(entry.getKey(), Cases.read(entry.getValue(), BrokerLoadData.class));
        }
        @SuppressWarnings("unchecked")
        LoadDataStore<BrokerLoadData> store = mock(LoadDataStore.class, withSettings().stubOnly());
        when(store.get(any())).thenAnswer(call -> Optional.ofNullable(loads.get(call.<String>getArgument(0))));
        LoadManagerContext context = mock(LoadManagerContext.class, withSettings().stubOnly());
        when(context.brokerConfiguration()).thenReturn(configuration);
        when(context.brokerLoadDataStore()).thenReturn(store);
        return context;
    }
}
