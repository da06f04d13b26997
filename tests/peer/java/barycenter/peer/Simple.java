package barycenter.peer;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyBoolean;
import static org.mockito.ArgumentMatchers.anyString;
import static org.mockito.Mockito.RETURNS_DEFAULTS;
import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.common.cache.CacheBuilder;
import com.google.common.cache.CacheLoader;
import com.google.common.cache.LoadingCache;
import com.google.common.collect.BoundType;
import com.google.common.collect.Range;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.cache.BundlesQuotas;
import org.apache.pulsar.broker.loadbalance.BrokerHostUsage;
import org.apache.pulsar.broker.loadbalance.ResourceUnit;
import org.apache.pulsar.broker.loadbalance.impl.PulsarResourceDescription;
import org.apache.pulsar.broker.loadbalance.impl.SimpleLoadManagerImpl;
import org.apache.pulsar.broker.loadbalance.impl.SimpleResourceAllocationPolicies;
import org.apache.pulsar.broker.loadbalance.impl.SimpleResourceUnit;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.client.admin.Namespaces;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.naming.ServiceUnitId;
import org.apache.pulsar.common.policies.data.ResourceQuota;
import org.apache.pulsar.metadata.api.MetadataCache;
import org.apache.pulsar.metadata.api.coordination.LockManager;
import org.apache.pulsar.metadata.api.coordination.ResourceLock;
import org.apache.pulsar.policies.data.loadbalancer.LoadReport;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.ResourceUnitRanking;
import org.apache.pulsar.policies.data.loadbalancer.ResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.SystemResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.SystemResourceUsage.ResourceType;

/** The simple load manager; mocks stand for the store, the policies, the admin client and the host. */
public final class Simple {
    private static final String[] ESTIMATES = {"CPU", "Memory", "DirectMemory", "BandwidthIn", "BandwidthOut"};

    private Simple() {}

    // ---- reports ----

    /** A report as Pulsar reads it, what it derives, and the heaviest bundle by each resource. */
    public static void reports(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            LoadReport report = Cases.read(document.get("report"), LoadReport.class);
            SystemResourceUsage usage = report.getSystemResourceUsage();
            float level = (float) document.get("level").asInt();
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("tree", Cases.tree(report));
            told.put("bottleneck", report.getBottleneckResourceType().toString());
            told.put("above", SimpleLoadManagerImpl.isAboveLoadLevel(usage, level));
            told.put("below", SimpleLoadManagerImpl.isBelowLoadLevel(usage, level));
            Map<String, List<String>> sorted = new LinkedHashMap<>();
            for (ResourceType type : ResourceType.values()) {
                sorted.put(type.toString(), List.copyOf(report.getSortedBundleStats(type).keySet()));
            }
            told.put("sorted", sorted);
            return told;
        });
    }

    // ---- rankings ----

    /** What ResourceUnitRanking says of each broker, and how it orders each pair. */
    public static void rankings(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            ResourceUnitRanking.setCpuUsageByMsgRate(document.get("cpuFactor").asDouble());
            ResourceQuota defaultQuota = Cases.read(document.get("default"), ResourceQuota.class);
            List<ResourceUnitRanking> rankings = new ArrayList<>();
            List<Object> told = new ArrayList<>();
            for (JsonNode broker : document.get("brokers")) {
                ResourceUnitRanking ranking = new ResourceUnitRanking(
                        Cases.read(broker.get("usage"), SystemResourceUsage.class),
                        new HashSet<>(),
                        Cases.read(broker.get("allocated"), ResourceQuota.class),
                        new HashSet<>(),
                        Cases.read(broker.get("preallocated"), ResourceQuota.class));
                rankings.add(ranking);
                List<Double> estimated = new ArrayList<>();
                for (String resource : ESTIMATES) {
                    estimated.add((Double) get(ranking, "estimatedLoadPercentage" + resource));
                }
                told.add(Map.of(
                        "load", ranking.getEstimatedLoadPercentage(),
                        "rate", ranking.getEstimatedMessageRate(),
                        "room", ranking.estimateMaxCapacity(defaultQuota),
                        "estimated", estimated,
                        "allocated", List.of(
                                ranking.getAllocatedLoadPercentageCPU(),
                                ranking.getAllocatedLoadPercentageMemory(),
                                0.0,
                                ranking.getAllocatedLoadPercentageBandwidthIn(),
                                ranking.getAllocatedLoadPercentageBandwidthOut())));
            }
            List<List<Boolean>> less = new ArrayList<>();
            for (ResourceUnitRanking than : rankings) {
                List<Boolean> row = new ArrayList<>();
                for (ResourceUnitRanking one : rankings) {
                    row.add(one.compareToOtherRanking(than) < 0);
                }
                less.add(row);
            }
            return Map.of("brokers", told, "less", less);
        });
    }

    // ---- quotas ----

    /** The quotas after each of several sets of reports. */
    public static void quotas(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            Manager manager = new Manager(document);
            set(manager.impl, "realtimeAvgResourceQuota", Cases.read(document.get("average"), ResourceQuota.class));
            set(manager.impl, "realtimeCpuLoadFactor", document.get("cpuFactor").asDouble());
            set(manager.impl, "realtimeMemoryLoadFactor", document.get("memoryFactor").asDouble());
            set(manager.impl, "lastResourceQuotaUpdateTimestamp", document.get("updatedAt").asLong());
            List<Object> told = new ArrayList<>();
            for (JsonNode round : document.get("rounds")) {
                manager.report(round);
                call(manager.impl, "updateRealtimeResourceQuota");
                manager.wrote.clear();
                manager.impl.writeResourceQuotasToZooKeeper();
                Map<String, Object> now = new LinkedHashMap<>();
                now.put("quotas", Cases.tree(new TreeMap<>(manager.realtimeQuotas())));
                now.put("average", Cases.tree(get(manager.impl, "realtimeAvgResourceQuota")));
                now.put("cpuFactor", get(manager.impl, "realtimeCpuLoadFactor"));
                now.put("memoryFactor", get(manager.impl, "realtimeMemoryLoadFactor"));
                now.put("wrote", List.copyOf(manager.wrote));
                told.add(now);
            }
            return told;
        });
    }

    // ---- placement ----

    /** Rounds of reports; after each the ranks, who may serve a namespace, and whom bundles are given to in turn. */
    public static void placements(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            Manager manager = new Manager(document);
            set(manager.impl, "realtimeCpuLoadFactor", document.get("cpuFactor").asDouble());
            set(manager.impl, "brokerRotationCursor", document.get("cursor").asLong());
            List<Object> told = new ArrayList<>();
            for (JsonNode round : document.get("rounds")) {
                manager.report(round);
                manager.realtimeQuotas().clear();
                call(manager.impl, "doLoadRanking");
                // a ranking counts the bundles of each namespace by the reports of the ranking before
                call(manager.impl, "doLoadRanking");
                manager.live = texts(round.get("live"));
                Map<String, Long> ranks = new TreeMap<>();
                manager.sortedRankings()
                        .forEach((rank, units) -> units.forEach(unit -> ranks.put(unit.getResourceId(), rank)));
                Map<String, Map<Long, List<String>>> available = new TreeMap<>();
                for (JsonNode bundle : round.get("bundles")) {
                    String namespace = bundle.asText().substring(0, bundle.asText().lastIndexOf('/'));
                    Map<Long, List<String>> ranked = new TreeMap<>();
                    manager.impl
                            .getResourceAvailabilityFor(NamespaceName.get(namespace))
                            .entries()
                            .forEach(entry -> ranked.computeIfAbsent(entry.getKey(), rank -> new ArrayList<>())
                                    .add(entry.getValue().getResourceId()));
                    available.put(namespace, ranked);
                }
                List<Object> chosen = new ArrayList<>();
                for (JsonNode bundle : round.get("bundles")) {
                    Set<String> drawn = new TreeSet<>();
                    for (int draw = 0; draw < document.get("draws").asInt(); draw++) {
                        ResourceUnit unit = manager.place(bundle.asText());
                        if (unit != null) {
                            drawn.add(unit.getResourceId());
                        }
                    }
                    chosen.add(drawn);
                }
                told.add(Map.of("ranks", ranks, "available", available, "chosen", chosen));
            }
            return told;
        });
    }

    // ---- shedding, splitting, writing ----

    /** The bundles that are unloaded, by name. */
    public static void shed(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            Manager manager = new Manager(document);
            manager.report(document);
            call(manager.impl, "doLoadRanking");
            LoadingCache<String, Long> recent = CacheBuilder.newBuilder().build(CacheLoader.from(name -> 0L));
            texts(document.get("recent")).forEach(bundle -> recent.put(bundle, 0L));
            set(manager.impl, "unloadedHotNamespaceCache", recent);
            manager.impl.doLoadShedding();
            return new TreeSet<>(manager.unloaded);
        });
    }

    /** The bundles of one report that are split. */
    public static void split(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            Manager manager = new Manager(document);
            set(manager.impl, "lastLoadReport", Cases.read(document.get("report"), LoadReport.class));
            manager.impl.doNamespaceBundleSplit();
            return new TreeSet<>(manager.split);
        });
    }

    /** Whether a report is written now, what it says, and the usage that it was judged by. */
    public static void write(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            Manager manager = new Manager(document);
            long now = System.currentTimeMillis();
            LoadReport last = Cases.read(document.get("last"), LoadReport.class);
            last.setTimestamp(now - document.get("age").asLong());
            set(manager.impl, "lastLoadReport", last);
            set(manager.impl, "lastResourceUsageTimestamp", now - document.get("comparedAge").asLong());
            set(manager.impl, "realtimeCpuLoadFactor", document.get("cpuFactor").asDouble());
            BrokerHostUsage host = Manager.stub(BrokerHostUsage.class);
            JsonNode usage = document.get("usage");
            when(host.getBrokerHostUsage()).thenAnswer(call -> Cases.read(usage, SystemResourceUsage.class));
            set(manager.impl, "brokerHostUsage", host);
            Map<String, NamespaceBundleStats> stats = new HashMap<>();
            document.get("stats").fields().forEachRemaining(entry -> {
                try {
                    stats.put(entry.getKey(), Cases.read(entry.getValue(), NamespaceBundleStats.class));
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            when(manager.brokers.getBundleStats()).thenReturn(stats);
            when(manager.brokers.getNumberOfNamespaceBundles()).thenReturn((long) stats.size());
            LoadReport[] written = new LoadReport[1];
            ResourceLock<LoadReport> lock = Manager.stub(ResourceLock.class);
            when(lock.updateValue(any())).thenAnswer(call -> {
                written[0] = call.getArgument(0);
                return CompletableFuture.completedFuture(null);
            });
            set(manager.impl, "brokerLock", lock);
            manager.impl.writeLoadReportOnZookeeper();
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("written", written[0] == null ? null : Cases.tree(written[0]));
            told.put("usage", Cases.tree(manager.impl.getSystemResourceUsage()));
            return told;
        });
    }

    /** One load manager that is not started, with all it touches. */
    private static final class Manager {
        final SimpleLoadManagerImpl impl = new SimpleLoadManagerImpl();
        final BrokerService brokers = stub(BrokerService.class);
        final List<String> wrote = new ArrayList<>();
        final List<String> unloaded = new ArrayList<>();
        final List<String> split = new ArrayList<>();
        List<String> live = new ArrayList<>();
        private final NamespaceBundleFactory factory = stub(NamespaceBundleFactory.class);

        @SuppressWarnings("unchecked")
        Manager(JsonNode document) throws Exception {
            PulsarService pulsar = stub(PulsarService.class);
            when(pulsar.getConfiguration()).thenReturn(Cases.configuration(document.get("configuration")));
            when(pulsar.getConfig()).thenReturn(Cases.configuration(document.get("configuration")));
            when(pulsar.getBrokerId()).thenReturn("me:8080");
            when(pulsar.getProtocolDataToAdvertise()).thenReturn(Map.of());
            when(pulsar.getBrokerService()).thenReturn(brokers);
            BundlesQuotas quotas = stub(BundlesQuotas.class);
            JsonNode stored = document.path("stored");
            JsonNode otherwise = document.path("default");
            when(brokers.getBundlesQuotas()).thenReturn(quotas);
            when(quotas.getDefaultResourceQuota()).thenAnswer(call -> done(otherwise));
            when(quotas.getResourceQuota(anyString())).thenAnswer(call -> {
                JsonNode found = stored.get((String) call.getArgument(0));
                return done(found == null ? otherwise : found);
            });
            when(quotas.setDefaultResourceQuota(any())).thenAnswer(call -> wrote(""));
            when(quotas.setResourceQuota(anyString(), any())).thenAnswer(call -> wrote(call.getArgument(0)));
            MetadataCache<Map<String, String>> settings = stub(MetadataCache.class);
            when(settings.get(anyString())).thenReturn(CompletableFuture.completedFuture(Optional.empty()));
            when(settings.readModifyUpdateOrCreate(anyString(), any()))
                    .thenReturn(CompletableFuture.completedFuture(null));
            LockManager<LoadReport> locks = stub(LockManager.class);
            when(locks.listLocks(anyString()))
                    .thenAnswer(call -> CompletableFuture.completedFuture(new ArrayList<>(live)));
            SimpleResourceAllocationPolicies policies = stub(SimpleResourceAllocationPolicies.class);
            when(policies.isSharedBroker(anyString())).thenReturn(true);
            NamespaceService namespaces = stub(NamespaceService.class);
            when(pulsar.getNamespaceService()).thenReturn(namespaces);
            JsonNode counts = document.path("bundleCounts");
            when(namespaces.getBundleCount(any()))
                    .thenAnswer(call -> counts.path(call.getArgument(0).toString()).asInt());
            PulsarAdmin admin = stub(PulsarAdmin.class);
            Namespaces commands = stub(Namespaces.class);
            when(pulsar.getAdminClient()).thenReturn(admin);
            when(admin.namespaces()).thenReturn(commands);
            doAnswer(call -> told(unloaded, call.getArgument(0), call.getArgument(1)))
                    .when(commands)
                    .unloadNamespaceBundle(anyString(), anyString());
            doAnswer(call -> told(split, call.getArgument(0), call.getArgument(1)))
                    .when(commands)
                    .splitNamespaceBundle(anyString(), anyString(), anyBoolean(), any());
            set(impl, "pulsar", pulsar);
            set(impl, "policies", policies);
            set(impl, "loadReports", locks);
            set(impl, "dynamicConfigurationCache", settings);
        }

        private static <T> T stub(Class<T> type) {
            return mock(type, withSettings().stubOnly().defaultAnswer(RETURNS_DEFAULTS));
        }

        private static CompletableFuture<ResourceQuota> done(JsonNode quota) throws Exception {
            return CompletableFuture.completedFuture(Cases.read(quota, ResourceQuota.class));
        }

        private static Object told(List<String> bundles, String namespace, String range) {
            bundles.add(namespace + "/" + range);
            return null;
        }

        private CompletableFuture<Void> wrote(String bundle) {
            wrote.add(bundle);
            return CompletableFuture.completedFuture(null);
        }

        /** Take the reports of a document in place of those before. */
        void report(JsonNode document) throws Exception {
            @SuppressWarnings("unchecked")
            Map<ResourceUnit, LoadReport> reports = (Map<ResourceUnit, LoadReport>) get(impl, "currentLoadReports");
            reports.clear();
            Iterator<Map.Entry<String, JsonNode>> entries = document.get("reports").fields();
            while (entries.hasNext()) {
                Map.Entry<String, JsonNode> entry = entries.next();
                reports.put(
                        new SimpleResourceUnit(entry.getKey(), new PulsarResourceDescription()),
                        Cases.read(entry.getValue(), LoadReport.class));
            }
        }

        @SuppressWarnings("unchecked")
        Map<String, ResourceQuota> realtimeQuotas() throws Exception {
            return ((AtomicReference<Map<String, ResourceQuota>>) get(impl, "realtimeResourceQuotas")).get();
        }

        @SuppressWarnings("unchecked")
        Map<Long, Set<ResourceUnit>> sortedRankings() throws Exception {
            return ((AtomicReference<Map<Long, Set<ResourceUnit>>>) get(impl, "sortedRankings")).get();
        }

        ResourceUnit place(String name) throws Exception {
            int slash = name.lastIndexOf('/');
            String[] edges = name.substring(slash + 1).split("_");
            long upper = Long.decode(edges[1]);
            ServiceUnitId bundle = new NamespaceBundle(
                    NamespaceName.get(name.substring(0, slash)),
                    Range.range(Long.decode(edges[0]), BoundType.CLOSED, upper, BoundType.OPEN),
                    factory);
            Method choose = SimpleLoadManagerImpl.class.getDeclaredMethod(
                    "getLeastLoadedBroker", ServiceUnitId.class, Map.class);
            choose.setAccessible(true);
            return (ResourceUnit) choose.invoke(impl, bundle, sortedRankings());
        }
    }

    private static List<String> texts(JsonNode names) {
        List<String> found = new ArrayList<>();
        names.forEach(name -> found.add(name.asText()));
        return found;
    }

    private static Field field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static Object get(Object of, String name) throws Exception {
        return field(of, name).get(of);
    }

    private static void set(Object of, String name, Object value) throws Exception {
        field(of, name).set(of, value);
    }

    private static void call(Object of, String name) throws Exception {
        Method method = of.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        method.invoke(of);
    }
}
