package barycenter.peer;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.RETURNS_DEEP_STUBS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.BiConsumer;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateChannel;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.data.TopBundlesLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.models.TopKBundles;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadDecision;
import org.apache.pulsar.broker.loadbalance.extensions.reporter.BrokerLoadDataReporter;
import org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.policies.data.LocalPolicies;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.SystemResourceUsage;

/** What brokers of the extensible load manager report, and how its TransferShedder decides upon it. */
public final class Transfer {
    private Transfer() {}

    /** Round after round of one shedder; with {@code ordered} its stores are in the order of the document. */
    public static void rounds(boolean ordered, String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
            UnloadCounter counter = new UnloadCounter();
            TransferShedder shedder = new TransferShedder(counter);
            Map<String, Long> brokers = new HashMap<>();
            long later = System.currentTimeMillis() - document.get("now").asLong();
            List<Map<String, Object>> told = new ArrayList<>();
            for (JsonNode round : document.get("rounds")) {
                each(round.get("recentlyUnloadedBrokers"), (name, at) -> brokers.put(name, at.asLong() + later));
                Map<String, Long> bundles = new HashMap<>();
                round.get("recentlyUnloadedBundles").forEach(name -> bundles.put(name.asText(), 1L));
                set(shedder, "channel", channel(round.get("owners")));
                Context context = new Context(configuration, round, later, ordered);
                Map<String, Long> before = skips(counter);
                counter.updateLoadData(0, 0);
                List<List<String>> decisions = new ArrayList<>();
                for (UnloadDecision decision : shedder.findBundlesForUnloading(context, bundles, brokers)) {
                    decisions.add(Arrays.asList(
                            decision.getUnload().sourceBroker(),
                            decision.getUnload().serviceUnit(),
                            decision.getUnload().destBroker().orElse(null),
                            decision.getReason().toString()));
                }
                Map<String, Long> remembered = new HashMap<>();
                brokers.forEach((name, at) -> remembered.put(name, at - later));
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("decisions", decisions);
                one.put("hits", get(shedder, "unloadConditionHitCount"));
                one.put("unloaded", remembered);
                one.put("label", counted(before, skips(counter)));
                one.put("mean", counter.getLoadAvg());
                one.put("deviation", counter.getLoadStd());
                told.add(one);
            }
            return told;
        });
    }

    /** A broker's load after each of a sequence of measurements, or clearings, and whether a report is due then. */
    public static void loads(String questions, String answers) throws Exception {
        ScheduledExecutorService executor = mock(ScheduledExecutorService.class, withSettings().stubOnly());
        Cases.answer(questions, answers, document -> {
            ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
            PulsarService pulsar = mock(PulsarService.class, withSettings().stubOnly());
            when(pulsar.getConfiguration()).thenReturn(configuration);
            when(pulsar.getLoadManagerExecutor()).thenReturn(executor);
            BrokerLoadDataReporter reporter = new BrokerLoadDataReporter(pulsar, "b:1", new MapStore<>(Map.of()));
            BrokerLoadData load = (BrokerLoadData) get(reporter, "localData");
            BrokerLoadData published = (BrokerLoadData) get(reporter, "lastData");
            List<Object> after = new ArrayList<>();
            for (JsonNode sample : document.get("samples")) {
                if (sample.isNull()) {
                    load.clear();
                } else {
                    NamespaceBundleStats total = Cases.read(sample.get("total"), NamespaceBundleStats.class);
                    load.update(
                            Cases.read(sample.get("usage"), SystemResourceUsage.class),
                            total.msgThroughputIn,
                            total.msgThroughputOut,
                            total.msgRateIn,
                            total.msgRateOut,
                            sample.get("bundleCount").asLong(),
                            total.topics,
                            configuration);
                }
                boolean due = (boolean) call(reporter, "needBrokerDataUpdate");
                if (due) {
                    load.setReportedAt(System.currentTimeMillis());
                    published.update(load);
                }
                ObjectNode tree = (ObjectNode) Cases.tree(load);
                after.add(Map.of("load", tree, "due", due));
            }
            return after;
        });
    }

    /** The list of a broker's heaviest bundles. */
    public static void topBundles(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            PulsarService pulsar = mock(PulsarService.class, withSettings().defaultAnswer(RETURNS_DEEP_STUBS));
            when(pulsar.getConfiguration()).thenReturn(Cases.configuration(document.get("configuration")));
            Set<String> grouped = new HashSet<>();
            document.get("withPolicies").forEach(name -> grouped.add(name.asText()));
            when(pulsar.getPulsarResources().getNamespaceResources().getIsolationPolicies()
                            .getIsolationDataPolicies(any()))
                    .thenReturn(Optional.empty());
            try {
                when(pulsar.getPulsarResources().getLocalPolicies().getLocalPolicies(any(NamespaceName.class)))
                        .thenAnswer(call -> grouped.contains(call.getArgument(0).toString())
                                ? Optional.of(new LocalPolicies(null, null, "group"))
                                : Optional.empty());
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
            Map<String, NamespaceBundleStats> stats = new LinkedHashMap<>();
            each(document.get("stats"), (name, one) -> stats.put(name, Cases.read(one, NamespaceBundleStats.class)));
            TopKBundles top = new TopKBundles(pulsar);
            top.update(stats, document.get("count").asInt());
            return top.getLoadData();
        });
    }

    /** Each document read as Pulsar's class and written again. */
    public static void written(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> List.of(
                Cases.tree(Cases.read(document.get("load"), BrokerLoadData.class)),
                Cases.tree(Cases.read(document.get("top"), TopBundlesLoadData.class)),
                Cases.tree(Cases.read(document.get("lookup"), BrokerLookupData.class))));
    }

    /** What is done with each entry of a document. */
    @FunctionalInterface
    private interface Entry {
        void take(String name, JsonNode value) throws Exception;
    }

    private static void each(JsonNode document, Entry entry) throws Exception {
        for (var one : document.properties()) {
            entry.take(one.getKey(), one.getValue());
        }
    }

    private static Field field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static Object get(Object owner, String name) throws Exception {
        return field(owner, name).get(owner);
    }

    private static void set(Object owner, String name, Object value) throws Exception {
        field(owner, name).set(owner, value);
    }

    private static Object call(Object owner, String name) throws Exception {
        var method = owner.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(owner);
    }

    private static Map<String, Long> skips(UnloadCounter counter) {
        Map<String, Long> counts = new HashMap<>();
        counter.getBreakdownCounters().forEach((label, reasons) -> reasons.forEach((reason, count) ->
                counts.put(label == UnloadDecision.Label.Skip ? reason.toString() : label + " " + reason, count.get())));
        return counts;
    }

    private static String counted(Map<String, Long> before, Map<String, Long> after) {
        return after.keySet().stream()
                .filter(name -> !before.get(name).equals(after.get(name)))
                .findFirst()
                .orElse("");
    }

    /** A channel that knows who owns what, and nothing else. */
    private static Object channel(JsonNode owners) {
        return Proxy.newProxyInstance(
                Transfer.class.getClassLoader(),
                new Class<?>[] {ServiceUnitStateChannel.class},
                (self, method, arguments) -> {
                    if (!method.getName().equals("isOwner") || arguments.length != 2) {
                        throw new UnsupportedOperationException(method.toString());
                    }
                    JsonNode owner = owners.get((String) arguments[0]);
                    return owner != null && owner.asText().equals(arguments[1]);
                });
    }

    /** What the shedder looks at: two stores and the registered brokers. */
    private static final class Context implements LoadManagerContext {
        private final ServiceConfiguration configuration;
        private final LoadDataStore<BrokerLoadData> loads;
        private final LoadDataStore<TopBundlesLoadData> tops;
        private final BrokerRegistry registry;

        Context(ServiceConfiguration configuration, JsonNode round, long later, boolean ordered) throws Exception {
            this.configuration = configuration;
            Map<String, BrokerLoadData> loadOf = ordered ? new LinkedHashMap<>() : new HashMap<>();
            each(round.get("loads"), (name, load) -> {
                ObjectNode moved = load.deepCopy();
                moved.put("updatedAt", load.get("updatedAt").asLong() + later);
                loadOf.put(name, Cases.read(moved, BrokerLoadData.class));
            });
            Map<String, TopBundlesLoadData> topOf = new HashMap<>();
            each(round.get("tops"), (name, top) -> topOf.put(name, Cases.read(top, TopBundlesLoadData.class)));
            Map<String, BrokerLookupData> available = new HashMap<>();
            round.get("available").forEach(name -> available.put(name.asText(), null));
            each(round.path("lookups"), (name, one) -> available.put(name, Cases.read(one, BrokerLookupData.class)));
            loads = new MapStore<>(loadOf);
            tops = new MapStore<>(topOf);
            registry = (BrokerRegistry) Proxy.newProxyInstance(
                    Transfer.class.getClassLoader(), new Class<?>[] {BrokerRegistry.class}, (self, method, none) -> {
                        if (!method.getName().equals("getAvailableBrokerLookupDataAsync")) {
                            throw new UnsupportedOperationException(method.toString());
                        }
                        return CompletableFuture.completedFuture(available);
                    });
        }

        @Override
        public ServiceConfiguration brokerConfiguration() {
            return configuration;
        }

        @Override
        public LoadDataStore<BrokerLoadData> brokerLoadDataStore() {
            return loads;
        }

        @Override
        public LoadDataStore<TopBundlesLoadData> topBundleLoadDataStore() {
            return tops;
        }

        @Override
        public BrokerRegistry brokerRegistry() {
            return registry;
        }
    }

    /** A store that is a map. */
    private static final class MapStore<T> implements LoadDataStore<T> {
        private final Map<String, T> values;

        MapStore(Map<String, T> values) {
            this.values = values;
        }

        @Override
        public CompletableFuture<Void> pushAsync(String key, T value) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Void> removeAsync(String key) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Optional<T> get(String key) {
            return Optional.ofNullable(values.get(key));
        }

        @Override
        public void forEach(BiConsumer<String, T> action) {
            values.forEach(action);
        }

        @Override
        public Set<Map.Entry<String, T>> entrySet() {
            return values.entrySet();
        }

        @Override
        public int size() {
            return values.size();
        }

        @Override
        public void closeTableView() {}

        @Override
        public void start() {}

        @Override
        public void init() {}

        @Override
        public void startTableView() {}

        @Override
        public void startProducer() {}

        @Override
        public void close() {}
    }
}
