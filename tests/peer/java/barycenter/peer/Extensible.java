package barycenter.peer;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerWrapper;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitState;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateChannel;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerFilter;
import org.apache.pulsar.broker.loadbalance.extensions.models.Split;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitDecision;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.BrokerSelectionStrategy;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.DefaultNamespaceBundleSplitStrategyImpl;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.NamespaceBundleSplitStrategy;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.naming.ServiceUnitId;
import org.apache.pulsar.common.stats.Metrics;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.mockito.ArgumentMatchers;

/** What decides in the extensible load manager; mocks stand for its stores and for the broker around it. */
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

    /**
     * What one broker splits, run after run: for each run the bundles with what they exceed and where they are cut, how
     * often it failed, and the counts that it remembers. Maps come in the order of the document.
     */
    public static void splits(String questions, String answers) throws Exception {
        Field hits = DefaultNamespaceBundleSplitStrategyImpl.class.getDeclaredField("splitConditionHitCounts");
        hits.setAccessible(true);
        Surroundings surroundings = new Surroundings();
        LoadManagerContext context = contextOf("b1:8080");
        Cases.answer(questions, answers, document -> {
            ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
            SplitCounter counter = new SplitCounter();
            NamespaceBundleSplitStrategy strategy = new DefaultNamespaceBundleSplitStrategyImpl(counter);
            List<Map<String, Object>> runs = new ArrayList<>();
            double failed = 0;
            for (JsonNode run : document.get("runs")) {
                PulsarService pulsar = surroundings.at(configuration, run, document.get("bundleCounts"));
                List<List<Object>> splits = new ArrayList<>();
                for (SplitDecision decision : strategy.findBundlesToSplit(context, pulsar)) {
                    Split split = decision.getSplit();
                    splits.add(List.of(
                            split.serviceUnit(),
                            decision.getReason().toString(),
                            new TreeSet<>(split.splitServiceUnitToDestBroker().keySet())));
                }
                double before = failed;
                failed = failures(counter);
                runs.add(Map.of(
                        "splits",
                        splits,
                        "failures",
                        failed - before,
                        "hits",
                        new TreeMap<>((Map<?, ?>) hits.get(strategy))));
            }
            return runs;
        });
    }

    private static double failures(SplitCounter counter) {
        for (Metrics metrics : counter.toMetrics("b1")) {
            if ("Failure".equals(metrics.getDimension("result"))) {
                return ((Number) metrics.getMetrics().get("brk_lb_bundles_split_breakdown_total")).doubleValue();
            }
        }
        throw new IllegalStateException("Pulsar counts no failures");
    }

    private static LoadManagerContext contextOf(String brokerId) {
        BrokerRegistry registry = answering(BrokerRegistry.class, Map.of("getBrokerId", none -> brokerId));
        return answering(LoadManagerContext.class, Map.of("brokerRegistry", none -> registry));
    }

    /** What stands around the strategy: the bundles, the channel and the split algorithm's answers of a run. */
    private static final class Surroundings {
        private final PulsarService pulsar = stub(PulsarService.class);
        private final Map<String, NamespaceBundleStats> stats = new LinkedHashMap<>();
        private final Map<String, ServiceUnitStateData> states = new LinkedHashMap<>();
        private Set<String> unowned = Set.of();
        private JsonNode boundaries;
        private JsonNode counts;
        private ServiceConfiguration configuration;

        Surroundings() throws Exception {
            when(pulsar.getConfiguration()).thenAnswer(call -> configuration);
            BrokerService brokerService = stub(BrokerService.class);
            when(brokerService.getBundleStats()).thenReturn(stats);
            when(pulsar.getBrokerService()).thenReturn(brokerService);

            ServiceUnitStateChannel channel = answering(
                    ServiceUnitStateChannel.class,
                    Map.of(
                            "isOwner",
                            bundle -> !unowned.contains((String) bundle[0]),
                            "getOwnershipEntrySet",
                            none -> states.entrySet()));
            ExtensibleLoadManagerImpl manager = stub(ExtensibleLoadManagerImpl.class);
            when(manager.getServiceUnitStateChannel()).thenReturn(channel);
            when(pulsar.getLoadManager()).thenReturn(new AtomicReference<>(new ExtensibleLoadManagerWrapper(manager)));

            NamespaceService namespaces = stub(NamespaceService.class);
            NamespaceBundleFactory factory = Naming.factory();
            when(namespaces.getNamespaceBundleFactory()).thenReturn(factory);
            when(namespaces.getBundleCount(any()))
                    .thenAnswer(call -> counts.get(call.getArgument(0).toString()).asInt());
            when(namespaces.getSplitBoundary(any(), ArgumentMatchers.<List<Long>>any(), any()))
                    .thenAnswer(call -> boundaries(call.getArgument(0).toString()));
            when(pulsar.getNamespaceService()).thenReturn(namespaces);
        }

        private CompletableFuture<List<Long>> boundaries(String bundle) {
            JsonNode cuts = boundaries.get(bundle);
            if (cuts.isTextual()) {
                return CompletableFuture.failedFuture(new IllegalArgumentException(cuts.asText()));
            }
            List<Long> found = new ArrayList<>();
            cuts.forEach(cut -> found.add(cut.asLong()));
            return CompletableFuture.completedFuture(cuts.isNull() ? null : found);
        }

        PulsarService at(ServiceConfiguration configuration, JsonNode run, JsonNode bundleCounts) throws Exception {
            this.configuration = configuration;
            stats.clear();
            for (JsonNode bundle : run.get("bundles")) {
                stats.put(bundle.get("name").asText(), Cases.read(bundle.get("stats"), NamespaceBundleStats.class));
            }
            states.clear();
            for (String bundle : names(run.get("splitting"))) {
                states.put(bundle, new ServiceUnitStateData(ServiceUnitState.Splitting, null, "b1:8080", 1));
            }
            unowned = names(run.get("unowned"));
            boundaries = run.get("boundaries");
            counts = bundleCounts;
            return pulsar;
        }
    }

    private static Set<String> names(JsonNode node) {
        Set<String> found = new LinkedHashSet<>();
        node.forEach(name -> found.add(name.asText()));
        return found;
    }

    private static <T> T stub(Class<T> type) {
        return mock(type, withSettings().stubOnly());
    }

    /** A context whose store of load data holds the "load" of a document. */
    private static LoadManagerContext context(JsonNode document) throws Exception {
        ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
        Map<String, Optional<BrokerLoadData>> loads = new HashMap<>();
        Iterator<Map.Entry<String, JsonNode>> entries = document.get("load").fields();
        while (entries.hasNext()) {
            Map.Entry<String, JsonNode> entry = entries.next();
            loads.put(entry.getKey(), Optional.of(Cases.read(entry.getValue(), BrokerLoadData.class)));
        }
        LoadDataStore<?> store =
                answering(LoadDataStore.class, Map.of("get", broker -> loads.getOrDefault(broker[0], Optional.empty())));
        return answering(
                LoadManagerContext.class,
                Map.of("brokerConfiguration", none -> configuration, "brokerLoadDataStore", none -> store));
    }

    /** An interface with a few answers, by method; a mock would take too long where it is asked very often. */
    private static <T> T answering(Class<T> type, Map<String, Function<Object[], Object>> answers) {
        InvocationHandler handler = (self, method, arguments) -> {
            Function<Object[], Object> answer = answers.get(method.getName());
            if (answer == null) {
                throw new UnsupportedOperationException(method.toString());
            }
            return answer.apply(arguments);
        };
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
