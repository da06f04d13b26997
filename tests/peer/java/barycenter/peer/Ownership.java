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
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledExecutorService;
import org.apache.pulsar.broker.PulsarServerException;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitState;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitState.StorageType;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateChannelImpl;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateData;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateDataConflictResolver;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateTableView;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.manager.StateChangeListener;
import org.apache.pulsar.broker.loadbalance.extensions.reporter.BrokerLoadDataReporter;
import org.apache.pulsar.broker.loadbalance.extensions.reporter.TopBundleLoadDataReporter;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.metadata.api.extended.SessionEvent;

/** The records of who owns which bundle, and what is done upon them. */
public final class Ownership {
    private static final Schema<ServiceUnitStateData> SCHEMA = Schema.JSON(ServiceUnitStateData.class);
    private static final String ME = "me:1";

    private Ownership() {}

    /** For each storage type the states that may follow each state, and which states are in flight or active. */
    public static void states(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            Map<String, Object> told = new LinkedHashMap<>();
            for (StorageType storage : StorageType.values()) {
                Map<String, Set<String>> following = new LinkedHashMap<>();
                for (ServiceUnitState from : ServiceUnitState.values()) {
                    Set<String> names = following.computeIfAbsent(from.name(), name -> new TreeSet<>());
                    for (ServiceUnitState to : ServiceUnitState.values()) {
                        if (ServiceUnitState.isValidTransition(from, to, storage)) {
                            names.add(to.name());
                        }
                    }
                }
                told.put(storage.name(), following);
            }
            List<String> inFlight = new ArrayList<>();
            List<String> active = new ArrayList<>();
            for (ServiceUnitState state : ServiceUnitState.values()) {
                if (ServiceUnitState.isInFlightState(state)) {
                    inFlight.add(state.name());
                }
                if (ServiceUnitState.isActiveState(state)) {
                    active.add(state.name());
                }
            }
            told.put("inFlight", inFlight);
            told.put("active", active);
            return told;
        });
    }

    /** Whether the earlier of two records is kept, over the system topic and over the metadata store; null: it fails. */
    public static void conflicts(String questions, String answers) throws Exception {
        ServiceUnitStateDataConflictResolver topic = new ServiceUnitStateDataConflictResolver();
        topic.setStorageType(StorageType.SystemTopic);
        ServiceUnitStateDataConflictResolver store = new ServiceUnitStateDataConflictResolver();
        store.setStorageType(StorageType.MetadataStore);
        Cases.answer(questions, answers, document -> {
            ServiceUnitStateData earlier = record(document.get(0));
            ServiceUnitStateData later = record(document.get(1));
            return Arrays.asList(kept(topic, earlier, later), kept(store, earlier, later));
        });
    }

    private static Boolean kept(
            ServiceUnitStateDataConflictResolver rule, ServiceUnitStateData earlier, ServiceUnitStateData later) {
        try {
            return rule.shouldKeepLeft(earlier, later);
        } catch (NullPointerException failed) {
            return null;
        }
    }

    /** The document that Pulsar writes of each record after it read it, as a text; null if it refuses it. */
    public static void written(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            try {
                return text(SCHEMA.decode(document.asText().getBytes(StandardCharsets.UTF_8)));
            } catch (RuntimeException refused) {
                return null;
            }
        });
    }

    /**
     * What an event does to a broker's reports: whether its averages are gone, and for each of its two topics whether
     * a tombstone was sent, whether that counts as the last one, and how many ms after the one before that was asked.
     */
    public static void reports(String questions, String answers) throws Exception {
        PulsarService pulsar = new Leader().pulsar;
        Cases.answer(questions, answers, document -> {
            boolean fails = document.get("fails").asBoolean();
            List<String> removed = new ArrayList<>();
            LoadDataStore<?> store = answering(LoadDataStore.class, (method, arguments) -> {
                removed.add((String) arguments[0]);
                return fails
                        ? CompletableFuture.failedFuture(new IllegalStateException("no producer"))
                        : CompletableFuture.completedFuture(null);
            });
            @SuppressWarnings("unchecked")
            BrokerLoadDataReporter load =
                    new BrokerLoadDataReporter(pulsar, ME, (LoadDataStore<BrokerLoadData>) store);
            @SuppressWarnings({"unchecked", "rawtypes"})
            TopBundleLoadDataReporter top = new TopBundleLoadDataReporter(pulsar, ME, (LoadDataStore) store);
            ((BrokerLoadData) get(load, BrokerLoadDataReporter.class, "localData")).setReportedAt(7);
            Throwable error = document.get("failedDuty").asBoolean() ? new IllegalStateException("duty") : null;
            Map<String, Object> told = new LinkedHashMap<>();
            for (StateChangeListener reporter : List.of(load, top)) {
                long last = System.currentTimeMillis() - document.get("ago").asLong();
                set(reporter, reporter.getClass(), "lastTombstonedAt", last);
                removed.clear();
                long before = System.currentTimeMillis();
                reporter.handleEvent("t/ns/0x00000000_0xffffffff", record(document.get("record")), error);
                long after = System.currentTimeMillis();
                long kept = (long) get(reporter, reporter.getClass(), "lastTombstonedAt");
                told.put(reporter == load ? "load" : "top", Map.of(
                        "sent", removed.equals(List.of(ME)),
                        "moved", kept != last,
                        "interval", get(reporter, reporter.getClass(), "tombstoneDelayInMillis"),
                        "asked", List.of(before - last, after - last)));
            }
            told.put("forgotten", load.getLocalData().getReportedAt() == 0);
            return told;
        });
    }

    /** The records that are published, and the bundles whose record is deleted, when the leader looks at all records. */
    public static void monitored(String questions, String answers) throws Exception {
        Leader leader = new Leader();
        Cases.answer(questions, answers, document -> {
            Channel channel = leader.channel(document);
            List<String> live = new ArrayList<>();
            document.get("live").forEach(name -> live.add(name.asText()));
            channel.look(live);
            return Map.of(
                    "published", channel.table.published,
                    "deleted", channel.table.deleted,
                    "lost", new TreeSet<>(((Map<?, ?>) channel.field("cleanupJobs")).keySet()));
        });
    }

    /** The records that are published when the bundles of a broker are given to others, which it does itself or not. */
    public static void cleaned(String questions, String answers) throws Exception {
        Leader leader = new Leader();
        Method clean = ServiceUnitStateChannelImpl.class.getDeclaredMethod("doCleanup", String.class, boolean.class);
        clean.setAccessible(true);
        Cases.answer(questions, answers, document -> {
            Channel channel = leader.channel(document);
            clean.invoke(channel, document.get("lost").asText(), document.get("gracefully").asBoolean());
            return channel.table.published;
        });
    }

    /** How the leader takes the metadata store, by the last event of its session and how many ms ago that was. */
    public static void stability(String questions, String answers) throws Exception {
        Leader leader = new Leader();
        Method state = ServiceUnitStateChannelImpl.class.getDeclaredMethod("getMetadataState");
        state.setAccessible(true);
        Cases.answer(questions, answers, document -> {
            Channel channel = leader.channel(document);
            channel.put("lastMetadataSessionEvent", SessionEvent.valueOf(document.get("event").asText()));
            long at = System.currentTimeMillis() - document.get("ago").asLong();
            channel.put("lastMetadataSessionEventTimestamp", at);
            long before = System.currentTimeMillis();
            String told = state.invoke(channel).toString();
            return Map.of("state", told, "asked", List.of(before - at, System.currentTimeMillis() - at));
        });
    }

    /** What stands around a leader's channel: its configuration, and who is chosen for a bundle. */
    private static final class Leader {
        final PulsarService pulsar = mock(PulsarService.class, withSettings().stubOnly());
        final ExtensibleLoadManagerImpl manager = mock(ExtensibleLoadManagerImpl.class, withSettings().stubOnly());
        private ServiceConfiguration configuration = new ServiceConfiguration();
        private JsonNode chosen;

        Leader() {
            NamespaceService namespaces = mock(NamespaceService.class, withSettings().stubOnly());
            NamespaceBundleFactory factory = Naming.factory();
            ScheduledExecutorService executor = mock(ScheduledExecutorService.class, withSettings().stubOnly());
            when(namespaces.getNamespaceBundleFactory()).thenReturn(factory);
            when(pulsar.getNamespaceService()).thenReturn(namespaces);
            when(pulsar.getBrokerId()).thenReturn(ME);
            when(pulsar.getLoadManagerExecutor()).thenReturn(executor);
            when(pulsar.getConfig()).thenAnswer(call -> configuration);
            when(pulsar.getConfiguration()).thenAnswer(call -> configuration);
            when(manager.selectAsync(any(), any(), any())).thenAnswer(call -> {
                JsonNode broker = chosen.path(call.getArgument(0).toString());
                return CompletableFuture.completedFuture(
                        broker.isTextual() ? Optional.of(broker.asText()) : Optional.empty());
            });
        }

        /** A channel that knows the records of a document; how old they are is said beside them. */
        Channel channel(JsonNode document) throws Exception {
            configuration = document.has("configuration")
                    ? Cases.configuration(document.get("configuration"))
                    : new ServiceConfiguration();
            chosen = document.path("chosen");
            Channel channel = new Channel(this);
            long now = System.currentTimeMillis();
            for (var entry : document.path("records").properties()) {
                long ago = entry.getValue().get("ago").asLong();
                ServiceUnitStateData one = record(entry.getValue().get("record"));
                channel.table.records.put(entry.getKey(), new ServiceUnitStateData(
                        one.state(), one.dstBroker(), one.sourceBroker(), one.splitServiceUnitToDestBroker(),
                        one.force(), now - ago, one.versionId()));
            }
            return channel;
        }
    }

    /** A leader's channel without a broker around it: its records are a map. */
    private static final class Channel extends ServiceUnitStateChannelImpl {
        final Table table = new Table();
        private final Leader leader;

        Channel(Leader leader) throws Exception {
            super(leader.pulsar);
            this.leader = leader;
            put("tableview", answering(ServiceUnitStateTableView.class, table));
            for (Object each : Ownership.field(ServiceUnitStateChannelImpl.class, "channelState").getType()
                    .getEnumConstants()) {
                if (each.toString().equals("Started")) {
                    put("channelState", each);
                }
            }
        }

        void put(String name, Object value) throws Exception {
            Ownership.set(this, ServiceUnitStateChannelImpl.class, name, value);
        }

        Object field(String name) throws Exception {
            return Ownership.get(this, ServiceUnitStateChannelImpl.class, name);
        }

        void look(List<String> live) {
            monitorOwnerships(live);
        }

        @Override
        protected ExtensibleLoadManagerImpl getLoadManager() {
            return leader.manager;
        }

        @Override
        protected LoadManagerContext getContext() {
            LoadDataStore<?> store = answering(
                    LoadDataStore.class, (method, arguments) -> CompletableFuture.completedFuture(null));
            return answering(LoadManagerContext.class, (method, arguments) -> store);
        }

        @Override
        protected PulsarAdmin getPulsarAdmin() throws PulsarServerException {
            throw new PulsarServerException("nobody is asked for his health");
        }

        @Override
        public CompletableFuture<Optional<String>> getChannelOwnerAsync() {
            return CompletableFuture.completedFuture(Optional.of(ME));
        }

        @Override
        public boolean isChannelOwner() {
            return true;
        }
    }

    /** The records of all bundles; what is published replaces them at once. */
    private static final class Table implements Answer {
        final Map<String, ServiceUnitStateData> records = new LinkedHashMap<>();
        final Map<String, String> published = new TreeMap<>();
        final Set<String> deleted = new TreeSet<>();

        @Override
        public Object to(Method method, Object[] arguments) {
            switch (method.getName()) {
                case "get":
                    return records.get(arguments[0]);
                case "entrySet":
                    return new LinkedHashMap<>(records).entrySet();
                case "put":
                    ServiceUnitStateData made = (ServiceUnitStateData) arguments[1];
                    published.put((String) arguments[0], text(made));
                    records.put((String) arguments[0], made);
                    return CompletableFuture.completedFuture(null);
                case "delete":
                    deleted.add((String) arguments[0]);
                    return CompletableFuture.completedFuture(null);
                case "flush":
                    return null;
                default:
                    throw new UnsupportedOperationException(method.toString());
            }
        }
    }

    private static String text(ServiceUnitStateData record) {
        return new String(SCHEMA.encode(record), StandardCharsets.UTF_8);
    }

    private static ServiceUnitStateData record(JsonNode node) {
        return node.isNull() ? null : SCHEMA.decode(node.asText().getBytes(StandardCharsets.UTF_8));
    }

    private static Field field(Class<?> type, String name) throws Exception {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static Object get(Object owner, Class<?> type, String name) throws Exception {
        return field(type, name).get(owner);
    }

    private static void set(Object owner, Class<?> type, String name, Object value) throws Exception {
        field(type, name).set(owner, value);
    }

    /** What an interface answers, whichever of its methods is asked. */
    @FunctionalInterface
    private interface Answer {
        Object to(Method method, Object[] arguments) throws Exception;
    }

    private static <T> T answering(Class<T> type, Answer answer) {
        InvocationHandler handler = (self, method, arguments) -> answer.to(method, arguments);
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
