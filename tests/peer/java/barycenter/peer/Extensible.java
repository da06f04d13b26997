package barycenter.peer;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
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
import org.apache.pulsar.broker.loadbalance.LoadManager;
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
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerIsolationPoliciesFilter;
import org.apache.pulsar.broker.loadbalance.extensions.models.Split;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitDecision;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadCounter;
import org.apache.pulsar.broker.loadbalance.extensions.policies.AntiAffinityGroupPolicyHelper;
import org.apache.pulsar.broker.loadbalance.extensions.policies.IsolationPoliciesHelper;
import org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.BrokerSelectionStrategy;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.DefaultNamespaceBundleSplitStrategyImpl;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.NamespaceBundleSplitStrategy;
import org.apache.pulsar.broker.loadbalance.impl.SimpleResourceAllocationPolicies;
import org.apache.pulsar.broker.namespace.LookupOptions;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.common.naming.NamespaceBundle;
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
            Map<String, BrokerLookupData> brokers = lookups(document.get("brokers"));
            try {
                return new TreeSet<>(filter.filterAsync(brokers, UNIT, context(document)).join().keySet());
            } catch (CompletionException failed) {
                return "failed";
            }
        });
    }

    /**
     * The brokers that {@code draws} selections of the whole load manager fell on, and for each of the "transfers" (a
     * source and perhaps a destination) whether its shedder would consider it.
     */
    public static void selections(String questions, String answers) throws Exception {
        Method transferable = TransferShedder.class.getDeclaredMethod(
                "isTransferable", LoadManagerContext.class, Map.class, String.class, String.class, Optional.class);
        transferable.setAccessible(true);
        NamespaceBundleFactory factory = Naming.factory();
        NamespaceService namespaces = stub(NamespaceService.class);
        when(namespaces.getNamespaceBundleFactory()).thenReturn(factory);
        PulsarService pulsar = stub(PulsarService.class);
        when(pulsar.getNamespaceService()).thenReturn(namespaces);
        AtomicReference<LoadManager> managers = new AtomicReference<>();
        when(pulsar.getLoadManager()).thenReturn(managers);
        boolean[] grouped = new boolean[1];
        AntiAffinityGroupPolicyHelper groups = stub(AntiAffinityGroupPolicyHelper.class);
        when(groups.hasAntiAffinityGroupPolicy(any())).thenAnswer(call -> grouped[0]);
        Cases.answer(questions, answers, document -> {
            LoadManagerContext context = context(document);
            Map<String, BrokerLookupData> brokers = lookups(document.get("brokers"));
            Set<String> without = names(document.get("without"));
            NamespaceBundle bundle = factory.getBundle("t/ns", document.get("range").asText());
            BrokerRegistry registry = answering(
                    BrokerRegistry.class,
                    Map.of("getAvailableBrokerLookupDataAsync", none -> CompletableFuture.completedFuture(brokers)));
            ExtensibleLoadManagerImpl manager = new ExtensibleLoadManagerImpl();
            set(manager, "conf", context.brokerConfiguration());
            set(manager, "context", context);
            set(manager, "brokerRegistry", registry);
            IsolationPoliciesHelper isolation = new IsolationPoliciesHelper(new OnePolicy(document.get("policy")));
            manager.getBrokerFilterPipeline().add(new BrokerIsolationPoliciesFilter(isolation));
            managers.set(new ExtensibleLoadManagerWrapper(manager));
            Set<String> drawn = new TreeSet<>();
            LookupOptions options = LookupOptions.builder().build();
            for (int draw = 0; draw < document.get("draws").asInt(); draw++) {
                manager.selectAsync(bundle, without, options).join().ifPresent(drawn::add);
            }
            grouped[0] = document.get("grouped").asBoolean();
            TransferShedder shedder = new TransferShedder(
                    pulsar, new UnloadCounter(), manager.getBrokerFilterPipeline(), isolation, groups);
            List<Object> allowed = new ArrayList<>();
            for (JsonNode transfer : document.get("transfers")) {
                Optional<String> destination = transfer.get(1).isNull()
                        ? Optional.empty()
                        : Optional.of(transfer.get(1).asText());
                allowed.add(transferable.invoke(
                        shedder, context, brokers, bundle.toString(), transfer.get(0).asText(), destination));
            }
            return Map.of("drawn", drawn, "transfers", allowed);
        });
    }

    /** The isolation policy of the one namespace: a JSON null for none, or hosts and the least number of primary ones. */
    private static final class OnePolicy extends SimpleResourceAllocationPolicies {
        private final boolean present;
        private final Set<String> primary;
        private final Set<String> secondary;
        private final int least;

        OnePolicy(JsonNode policy) {
            super(null);
            present = !policy.isNull();
            primary = present ? names(policy.get("primary")) : Set.of();
            secondary = present ? names(policy.get("secondary")) : Set.of();
            least = present ? policy.get("least").asInt() : 0;
        }

        @Override
        public CompletableFuture<Boolean> areIsolationPoliciesPresentAsync(NamespaceName namespace) {
            return CompletableFuture.completedFuture(present);
        }

        @Override
        public boolean areIsolationPoliciesPresent(NamespaceName namespace) {
            return present;
        }

        @Override
        public boolean isPrimaryBroker(NamespaceName namespace, String host) {
            return primary.contains(host);
        }

        @Override
        public boolean isSecondaryBroker(NamespaceName namespace, String host) {
            return secondary.contains(host);
        }

        @Override
        public boolean isSharedBroker(String host) {
            return !primary.contains(host);
        }

        @Override
        public boolean shouldFailoverToSecondaries(NamespaceName namespace, int primaries) {
            return primaries < least;
        }
    }

    private static void set(ExtensibleLoadManagerImpl manager, String name, Object value) throws Exception {
        Field field = ExtensibleLoadManagerImpl.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(manager, value);
    }

    private static Map<String, BrokerLookupData> lookups(JsonNode node) throws Exception {
        Map<String, BrokerLookupData> brokers = new LinkedHashMap<>();
        Iterator<Map.Entry<String, JsonNode>> entries = node.fields();
        while (entries.hasNext()) {
            Map.Entry<String, JsonNode> entry = entries.next();
            brokers.put(entry.getKey(), Cases.read(entry.getValue(), BrokerLookupData.class));
        }
        return brokers;
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
