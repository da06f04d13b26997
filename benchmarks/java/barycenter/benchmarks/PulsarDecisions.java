package barycenter.benchmarks;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.RETURNS_DEEP_STUBS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import pulsar_barycenter.peer.Cases;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.common.collect.Multimap;
import com.google.common.hash.Hashing;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerWrapper;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerIsolationPoliciesFilter;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadDecision;
import org.apache.pulsar.broker.loadbalance.extensions.policies.AntiAffinityGroupPolicyHelper;
import org.apache.pulsar.broker.loadbalance.extensions.policies.IsolationPoliciesHelper;
import org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder;
import org.apache.pulsar.broker.loadbalance.impl.BundleSplitterTask;
import org.apache.pulsar.broker.loadbalance.impl.SimpleResourceAllocationPolicies;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.ResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageMessageData;

/**
 * Pulsar's own strategies on a cluster that benchmarks/pulsar_jvm.py wrote down: one line of JSON a task, with the
 * medians of the warmed-up runs in milliseconds, and a file with what was decided.
 */
public final class PulsarDecisions {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final double NANOSECONDS = 1e6;
    private static final NamespaceBundleFactory BUNDLES = bundles();

    private final Path folder;
    private final JsonNode task;
    private final String[] brokers;
    private final String[] bundles;
    private final LoadData load = new LoadData();
    private final Map<String, Integer> brokerRows = new HashMap<>();
    private final Map<String, Integer> bundleRows = new HashMap<>();

    private PulsarDecisions(Path folder, JsonNode task) throws Exception {
        this.folder = folder;
        this.task = task;
        brokers = Files.readAllLines(folder.resolve("brokers.txt")).toArray(String[]::new);
        bundles = Files.readAllLines(folder.resolve("bundles.txt")).toArray(String[]::new);
        read();
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        JsonNode asked = MAPPER.readTree(folder.resolve("tasks.json").toFile());
        PulsarDecisions decisions = new PulsarDecisions(folder, asked);
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        long used = runtime.totalMemory() - runtime.freeMemory();
        System.out.println(MAPPER.writeValueAsString(Map.of("heap_bytes", used)));
        for (JsonNode task : asked.get("tasks")) {
            Map<String, Object> told = switch (task.get("kind").asText()) {
                case "cycle" -> decisions.cycle(task);
                case "place" -> decisions.place(task);
                case "split" -> decisions.split(task);
                case "transfer" -> decisions.transfer(task);
                default -> throw new IllegalArgumentException("unknown kind of task: " + task);
            };
            told.put("name", task.get("name").asText());
            System.out.println(MAPPER.writeValueAsString(told));
        }
        System.exit(0);
    }

    private ByteBuffer map(String name) throws Exception {
        try (FileChannel channel = FileChannel.open(folder.resolve(name))) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
        }
    }

    /** Brokers: CPU in percent. Bundles: owner, topics, sessions, rates and throughputs; all as doubles, row by row. */
    private void read() throws Exception {
        ByteBuffer ofBrokers = map("brokers.bin");
        List<LocalBrokerData> reports = new ArrayList<>();
        List<Map<String, NamespaceBundleStats>> held = new ArrayList<>();
        for (int row = 0; row < brokers.length; row++) {
            LocalBrokerData report = new LocalBrokerData("http://" + brokers[row], null, null, null);
            report.setCpu(new ResourceUsage(ofBrokers.getDouble(), 100));
            report.setMemory(new ResourceUsage(0, 100));
            report.setDirectMemory(new ResourceUsage(0, 100));
            report.setBandwidthIn(new ResourceUsage(0, 100));
            report.setBandwidthOut(new ResourceUsage(0, 100));
            reports.add(report);
            held.add(new HashMap<>());
            brokerRows.put(brokers[row], row);
        }
        ByteBuffer ofBundles = map("bundles.bin");
        for (int row = 0; row < bundles.length; row++) {
            int owner = (int) ofBundles.getDouble();
            NamespaceBundleStats stats = new NamespaceBundleStats();
            stats.topics = (long) ofBundles.getDouble();
            stats.producerCount = (int) ofBundles.getDouble();
            stats.msgRateIn = ofBundles.getDouble();
            stats.msgRateOut = ofBundles.getDouble();
            stats.msgThroughputIn = ofBundles.getDouble();
            stats.msgThroughputOut = ofBundles.getDouble();
            held.get(owner).put(bundles[row], stats);
            load.getBundleData().put(bundles[row], steady(stats));
            bundleRows.put(bundles[row], row);
        }
        for (int row = 0; row < brokers.length; row++) {
            LocalBrokerData report = reports.get(row);
            report.setLastStats(held.get(row));
            report.setBundles(new HashSet<>(held.get(row).keySet()));
            report.setNumBundles(held.get(row).size());
            report.setMsgRateIn(ofBrokers.getDouble(8 * (brokers.length + 4 * row)));
            report.setMsgRateOut(ofBrokers.getDouble(8 * (brokers.length + 4 * row + 1)));
            report.setMsgThroughputIn(ofBrokers.getDouble(8 * (brokers.length + 4 * row + 2)));
            report.setMsgThroughputOut(ofBrokers.getDouble(8 * (brokers.length + 4 * row + 3)));
            BrokerData broker = new BrokerData(report);
            broker.setTimeAverageData(averages(report));
            load.getBrokerData().put(brokers[row], broker);
        }
    }

    private static BundleData steady(NamespaceBundleStats stats) {
        BundleData data = new BundleData();
        data.setShortTermData(window(10, stats));
        data.setLongTermData(window(1000, stats));
        data.setTopics((int) stats.topics);
        return data;
    }

    private static TimeAverageMessageData window(int samples, NamespaceBundleStats stats) {
        TimeAverageMessageData window = new TimeAverageMessageData(samples);
        window.setNumSamples(samples);
        window.setMsgRateIn(stats.msgRateIn);
        window.setMsgRateOut(stats.msgRateOut);
        window.setMsgThroughputIn(stats.msgThroughputIn);
        window.setMsgThroughputOut(stats.msgThroughputOut);
        return window;
    }

    private static TimeAverageBrokerData averages(LocalBrokerData report) {
        TimeAverageBrokerData averages = new TimeAverageBrokerData();
        averages.setLongTermMsgRateIn(report.getMsgRateIn());
        averages.setLongTermMsgRateOut(report.getMsgRateOut());
        averages.setLongTermMsgThroughputIn(report.getMsgThroughputIn());
        averages.setLongTermMsgThroughputOut(report.getMsgThroughputOut());
        averages.setShortTermMsgRateIn(report.getMsgRateIn());
        averages.setShortTermMsgRateOut(report.getMsgRateOut());
        averages.setShortTermMsgThroughputIn(report.getMsgThroughputIn());
        averages.setShortTermMsgThroughputOut(report.getMsgThroughputOut());
        return averages;
    }

    /** One measured run: nanoseconds of each of its parts. */
    @FunctionalInterface
    private interface Run {
        long[] time() throws Exception;
    }

    private static Object make(JsonNode task, String key) throws Exception {
        return Class.forName(task.get(key).asText()).getDeclaredConstructor().newInstance();
    }

    /** Run until it is warm, then as often as asked or as the time allows, and tell the medians. */
    private Map<String, Object> measured(Run run, String... parts) throws Exception {
        long started = System.nanoTime();
        long warmFor = (long) (task.get("warm_s").asDouble() * 1e9);
        int warmed = 0;
        while (warmed == 0 || warmed < task.get("warm_runs").asInt() && System.nanoTime() - started < warmFor) {
            run.time();
            warmed++;
        }
        List<long[]> taken = new ArrayList<>();
        started = System.nanoTime();
        long most = (long) (task.get("most_s").asDouble() * 1e9);
        while (taken.isEmpty() || taken.size() < task.get("runs").asInt() && System.nanoTime() - started < most) {
            taken.add(run.time());
        }
        Map<String, Object> told = new LinkedHashMap<>();
        for (int part = 0; part < parts.length; part++) {
            int which = part;
            double[] sorted = taken.stream().mapToDouble(times -> times[which] / NANOSECONDS).sorted().toArray();
            told.put(parts[part], sorted[sorted.length / 2]);
        }
        told.put("warm_runs", warmed);
        told.put("runs", taken.size());
        return told;
    }

    /** Shed with a fresh strategy, then place each bundle and preallocate it, as the leader does. */
    private Map<String, Object> cycle(JsonNode asked) throws Exception {
        ServiceConfiguration configuration = Cases.configuration(asked.get("configuration"));
        List<Integer> rows = new ArrayList<>();
        List<Integer> owners = new ArrayList<>();
        Set<String> candidates = load.getBrokerData().keySet();
        boolean one = asked.get("shedder").equals(asked.get("placer"));
        Map<String, Object> told = measured(() -> {
            LoadSheddingStrategy shedder = (LoadSheddingStrategy) make(asked, "shedder");
            ModularLoadManagerStrategy placer =
                    one ? (ModularLoadManagerStrategy) shedder : (ModularLoadManagerStrategy) make(asked, "placer");
            rows.clear();
            owners.clear();
            long start = System.nanoTime();
            Multimap<String, String> found = shedder.findBundlesForUnloading(load, configuration);
            long shed = System.nanoTime();
            List<String> moved = new ArrayList<>(found.values());
            List<String> placed = new ArrayList<>(moved.size());
            for (String bundle : moved) {
                BundleData data = load.getBundleData().get(bundle);
                String broker = placer.selectBroker(candidates, data, load, configuration).orElseThrow();
                load.getBrokerData().get(broker).getPreallocatedBundleData().put(bundle, data);
                placed.add(broker);
            }
            long end = System.nanoTime();
            for (int index = 0; index < placed.size(); index++) {
                rows.add(bundleRows.get(moved.get(index)));
                owners.add(brokerRows.get(placed.get(index)));
                load.getBrokerData().get(placed.get(index)).getPreallocatedBundleData().clear();
            }
            return new long[] {end - start, shed - start, end - shed};
        }, "cycle_ms", "shed_ms", "place_ms");
        told.put("moved", rows.size());
        write(asked, rows, owners);
        return told;
    }

    /** Place every bundle on brokers that are empty, one after the other, each preallocated before the next. */
    private Map<String, Object> place(JsonNode asked) throws Exception {
        ServiceConfiguration configuration = Cases.configuration(asked.get("configuration"));
        LoadData empty = new LoadData();
        load.getBrokerData().forEach((name, broker) -> {
            LocalBrokerData idle = new LocalBrokerData("http://" + name, null, null, null);
            idle.setCpu(broker.getLocalData().getCpu());
            BrokerData made = new BrokerData(idle);
            made.setTimeAverageData(new TimeAverageBrokerData());
            empty.getBrokerData().put(name, made);
        });
        Set<String> candidates = empty.getBrokerData().keySet();
        BundleData[] data = Arrays.stream(bundles).map(load.getBundleData()::get).toArray(BundleData[]::new);
        List<Integer> rows = new ArrayList<>();
        List<Integer> owners = new ArrayList<>();
        Map<String, Object> told = measured(() -> {
            ModularLoadManagerStrategy placer = (ModularLoadManagerStrategy) make(asked, "placer");
            String[] placed = new String[bundles.length];
            long start = System.nanoTime();
            for (int row = 0; row < bundles.length; row++) {
                placed[row] = placer.selectBroker(candidates, data[row], empty, configuration).orElseThrow();
                empty.getBrokerData().get(placed[row]).getPreallocatedBundleData().put(bundles[row], data[row]);
            }
            long end = System.nanoTime();
            rows.clear();
            owners.clear();
            for (int row = 0; row < placed.length; row++) {
                rows.add(row);
                owners.add(brokerRows.get(placed[row]));
            }
            empty.getBrokerData().values().forEach(broker -> broker.getPreallocatedBundleData().clear());
            return new long[] {end - start};
        }, "place_ms");
        told.put("moved", rows.size());
        write(asked, rows, owners);
        return told;
    }

    private Map<String, Object> split(JsonNode asked) throws Exception {
        PulsarService pulsar = mock(PulsarService.class, withSettings().stubOnly());
        NamespaceService namespaces = mock(NamespaceService.class, withSettings().stubOnly());
        ServiceConfiguration configuration = Cases.configuration(asked.get("configuration"));
        when(pulsar.getConfiguration()).thenReturn(configuration);
        when(pulsar.getNamespaceService()).thenReturn(namespaces);
        when(namespaces.getBundleCount(any())).thenReturn(asked.get("bundles_of_namespace").asInt());
        List<Integer> rows = new ArrayList<>();
        List<Integer> owners = new ArrayList<>();
        Map<String, Object> told = measured(() -> {
            BundleSplitterTask splitter = new BundleSplitterTask();
            long start = System.nanoTime();
            Map<String, String> found = splitter.findBundlesToSplit(load, pulsar);
            long end = System.nanoTime();
            rows.clear();
            owners.clear();
            found.forEach((bundle, broker) -> {
                rows.add(bundleRows.get(bundle));
                owners.add(brokerRows.get(broker));
            });
            return new long[] {end - start};
        }, "split_ms");
        told.put("moved", rows.size());
        write(asked, rows, owners);
        return told;
    }

    /**
     * The TransferShedder upon stores, registry and channel as the peer suite makes them of a document. Its filters
     * judge every transfer if the document says so; else it is as its own tests make it, and moves bundles unasked.
     */
    private Map<String, Object> transfer(JsonNode asked) throws Exception {
        ServiceConfiguration configuration = Cases.configuration(asked.get("configuration"));
        JsonNode seen = asked.get("case").get("rounds").get(0);
        long later = System.currentTimeMillis() - asked.get("case").get("now").asLong();
        Constructor<?> making = Class.forName("barycenter.peer.Transfer$Context")
                .getDeclaredConstructor(ServiceConfiguration.class, JsonNode.class, long.class, boolean.class);
        making.setAccessible(true);
        LoadManagerContext context = (LoadManagerContext) making.newInstance(configuration, seen, later, false);
        Method owning = Class.forName("barycenter.peer.Transfer").getDeclaredMethod("channel", JsonNode.class);
        owning.setAccessible(true);
        Object channel = owning.invoke(null, seen.get("owners"));
        Field field = TransferShedder.class.getDeclaredField("channel");
        field.setAccessible(true);
        List<List<String>> decisions = new ArrayList<>();
        boolean filters = asked.get("case").path("filters").asBoolean();
        Map<String, Object> told = measured(() -> {
            TransferShedder shedder = filters ? filtering() : new TransferShedder(new UnloadCounter());
            field.set(shedder, channel);
            Map<String, Long> none = new HashMap<>();
            long start = System.nanoTime();
            Set<UnloadDecision> found = shedder.findBundlesForUnloading(context, new HashMap<>(), none);
            long end = System.nanoTime();
            decisions.clear();
            for (UnloadDecision decision : found) {
                decisions.add(List.of(
                        decision.getUnload().sourceBroker(),
                        decision.getUnload().serviceUnit(),
                        decision.getUnload().destBroker().orElse("")));
            }
            return new long[] {end - start};
        }, "shed_ms");
        told.put("moved", decisions.size());
        told.put("decisions", decisions);
        write(asked, List.of(), List.of());
        return told;
    }

    /** A shedder with all filters of a load manager but that of anti-affinity groups, in a cluster without policies. */
    private static TransferShedder filtering() {
        PulsarService pulsar = mock(PulsarService.class, withSettings().stubOnly());
        NamespaceService namespaces = mock(NamespaceService.class, withSettings().stubOnly());
        AntiAffinityGroupPolicyHelper groups = mock(AntiAffinityGroupPolicyHelper.class, withSettings().stubOnly());
        when(pulsar.getNamespaceService()).thenReturn(namespaces);
        when(namespaces.getNamespaceBundleFactory()).thenReturn(BUNDLES);
        ExtensibleLoadManagerImpl manager = new ExtensibleLoadManagerImpl();
        when(pulsar.getLoadManager()).thenReturn(new AtomicReference<>(new ExtensibleLoadManagerWrapper(manager)));
        IsolationPoliciesHelper isolation = new IsolationPoliciesHelper(new NoPolicies());
        manager.getBrokerFilterPipeline().add(new BrokerIsolationPoliciesFilter(isolation));
        return new TransferShedder(pulsar, new UnloadCounter(), manager.getBrokerFilterPipeline(), isolation, groups);
    }

    private static NamespaceBundleFactory bundles() {
        PulsarService pulsar = mock(PulsarService.class, withSettings().defaultAnswer(RETURNS_DEEP_STUBS));
        when(pulsar.getConfiguration()).thenReturn(new ServiceConfiguration());
        when(pulsar.getConfig()).thenReturn(new ServiceConfiguration());
        return NamespaceBundleFactory.createFactory(pulsar, Hashing.crc32());
    }

    /** What a cluster without isolation policies answers. */
    private static final class NoPolicies extends SimpleResourceAllocationPolicies {
        NoPolicies() {
            super(null);
        }

        @Override
        public CompletableFuture<Boolean> areIsolationPoliciesPresentAsync(NamespaceName namespace) {
            return CompletableFuture.completedFuture(false);
        }

        @Override
        public boolean areIsolationPoliciesPresent(NamespaceName namespace) {
            return false;
        }

        @Override
        public boolean isSharedBroker(String host) {
            return true;
        }
    }

    /** Rows of bundles, each with the row of the broker that it goes to (or is split on), as 32-bit integers. */
    private void write(JsonNode asked, List<Integer> rows, List<Integer> owners) throws Exception {
        ByteBuffer buffer = ByteBuffer.allocate(8 * rows.size()).order(ByteOrder.LITTLE_ENDIAN);
        for (int index = 0; index < rows.size(); index++) {
            buffer.putInt(rows.get(index)).putInt(owners.get(index));
        }
        Files.write(folder.resolve(asked.get("answer").asText()), buffer.array());
    }
}
