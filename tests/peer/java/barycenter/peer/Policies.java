package barycenter.peer;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.RETURNS_DEFAULTS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
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
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitState;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateData;
import org.apache.pulsar.broker.loadbalance.impl.BundleRangeCache;
import org.apache.pulsar.broker.loadbalance.impl.LoadManagerShared;
import org.apache.pulsar.broker.loadbalance.impl.LoadManagerShared.BrokerTopicLoadingPredicate;
import org.apache.pulsar.broker.loadbalance.impl.SimpleResourceAllocationPolicies;
import org.apache.pulsar.broker.resources.ClusterResources;
import org.apache.pulsar.broker.resources.ClusterResources.FailureDomainResources;
import org.apache.pulsar.broker.resources.LocalPoliciesResources;
import org.apache.pulsar.broker.resources.NamespaceResources;
import org.apache.pulsar.broker.resources.NamespaceResources.IsolationPolicyResources;
import org.apache.pulsar.broker.resources.PulsarResources;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.policies.data.FailureDomainImpl;
import org.apache.pulsar.common.policies.data.LocalPolicies;
import org.apache.pulsar.common.policies.data.NamespaceIsolationDataImpl;
import org.apache.pulsar.common.policies.impl.NamespaceIsolationPolicies;
import org.apache.pulsar.common.policies.impl.NamespaceIsolationPolicyImpl;

/** Isolation policies, failure domains and anti-affinity groups; mocks stand only for the stored records. */
public final class Policies {
    private Policies() {}

    private static <T> T stub(Class<T> type) {
        return mock(type, withSettings().stubOnly().defaultAnswer(RETURNS_DEFAULTS));
    }

    private static Map<String, JsonNode> entries(JsonNode object) {
        Map<String, JsonNode> found = new LinkedHashMap<>();
        Iterator<Map.Entry<String, JsonNode>> entries = object.fields();
        while (entries.hasNext()) {
            Map.Entry<String, JsonNode> entry = entries.next();
            found.put(entry.getKey(), entry.getValue());
        }
        return found;
    }

    private static Set<String> texts(JsonNode array) {
        Set<String> found = new HashSet<>();
        array.forEach(item -> found.add(item.asText()));
        return found;
    }

    /** The brokers that policies allow, by either of Pulsar's two ways. */
    public static void candidates(String questions, String answers) throws Exception {
        NamespaceIsolationPolicies[] stored = new NamespaceIsolationPolicies[1];
        PulsarService pulsar = stub(PulsarService.class);
        PulsarResources resources = stub(PulsarResources.class);
        NamespaceResources namespaces = stub(NamespaceResources.class);
        IsolationPolicyResources isolation = stub(IsolationPolicyResources.class);
        when(pulsar.getPulsarResources()).thenReturn(resources);
        when(pulsar.getConfiguration()).thenReturn(Cases.configuration(Cases.tree(Map.of("clusterName", "c"))));
        when(resources.getNamespaceResources()).thenReturn(namespaces);
        when(namespaces.getIsolationPolicies()).thenReturn(isolation);
        when(isolation.getIsolationDataPolicies("c")).thenAnswer(call -> Optional.ofNullable(stored[0]));
        when(isolation.getIsolationDataPoliciesAsync("c"))
                .thenAnswer(call -> CompletableFuture.completedFuture(Optional.ofNullable(stored[0])));
        SimpleResourceAllocationPolicies policies = new SimpleResourceAllocationPolicies(pulsar);
        Cases.answer(questions, answers, document -> {
            Map<String, NamespaceIsolationDataImpl> map = new LinkedHashMap<>();
            for (Map.Entry<String, JsonNode> entry : entries(document.get("policies")).entrySet()) {
                map.put(entry.getKey(), Cases.read(entry.getValue(), NamespaceIsolationDataImpl.class));
            }
            stored[0] = document.get("recorded").asBoolean() ? new NamespaceIsolationPolicies(map) : null;
            NamespaceBundle bundle = stub(NamespaceBundle.class);
            when(bundle.getNamespaceObject()).thenReturn(NamespaceName.get(document.get("namespace").asText()));
            when(bundle.hasNonPersistentTopic()).thenReturn(document.get("nonPersistent").asBoolean());
            JsonNode brokers = document.get("brokers");
            BrokerTopicLoadingPredicate kinds = new BrokerTopicLoadingPredicate() {
                @Override
                public boolean isEnablePersistentTopics(String broker) {
                    return brokers.get(broker).get(0).asBoolean();
                }

                @Override
                public boolean isEnableNonPersistentTopics(String broker) {
                    return brokers.get(broker).get(1).asBoolean();
                }
            };
            Set<String> live = entries(brokers).keySet();
            Set<String> found = new TreeSet<>();
            LoadManagerShared.applyNamespacePolicies(bundle, policies, found, live, kinds);
            Set<String> later =
                    new TreeSet<>(LoadManagerShared.applyNamespacePoliciesAsync(bundle, policies, live, kinds).join());
            return List.of(found, later);
        });
    }

    /** Whether a policy is accepted, and which brokers and namespaces it matches. */
    public static void policy(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            NamespaceIsolationDataImpl data;
            try {
                data = Cases.read(document.get("policy"), NamespaceIsolationDataImpl.class);
                data.validate();
            } catch (Exception refused) {
                return "refused";
            }
            NamespaceIsolationPolicyImpl policy = new NamespaceIsolationPolicyImpl(data);
            NamespaceIsolationPolicies alone = new NamespaceIsolationPolicies(Map.of("p", data));
            Map<String, Object> said = new TreeMap<>();
            for (JsonNode host : document.get("hosts")) {
                said.put(
                        host.asText(),
                        List.of(policy.isPrimaryBroker(host.asText()), policy.isSecondaryBroker(host.asText())));
            }
            for (JsonNode namespace : document.get("namespaces")) {
                said.put(
                        namespace.asText(),
                        alone.getPolicyByNamespace(NamespaceName.get(namespace.asText())) != null);
            }
            for (int primaries = 0; primaries < 5; primaries++) {
                said.put(String.valueOf(primaries), policy.shouldFailover(primaries));
            }
            return said;
        });
    }

    /**
     * The candidates that anti-affinity leaves, and from which brokers the bundle may be unloaded. With "states", a
     * broker and a state for each bundle, as the extensible load manager decides; else as the modular one does.
     */
    public static void antiAffinity(String questions, String answers) throws Exception {
        JsonNode[] groups = new JsonNode[1];
        PulsarService pulsar = stub(PulsarService.class);
        PulsarResources resources = stub(PulsarResources.class);
        LocalPoliciesResources local = stub(LocalPoliciesResources.class);
        when(pulsar.getPulsarResources()).thenReturn(resources);
        when(resources.getLocalPolicies()).thenReturn(local);
        when(local.getLocalPoliciesAsync(any())).thenAnswer(call -> {
            JsonNode group = groups[0].get(call.getArgument(0).toString());
            return CompletableFuture.completedFuture(
                    group == null ? Optional.empty() : Optional.of(new LocalPolicies(null, null, group.textValue())));
        });
        Cases.answer(questions, answers, document -> {
            groups[0] = document.get("groups");
            when(pulsar.getConfiguration()).thenReturn(Cases.configuration(document.get("configuration")));
            String bundle = document.get("bundle").asText();
            String namespace = LoadManagerShared.getNamespaceNameFromBundleName(bundle);
            Map<String, String> domains = new HashMap<>();
            entries(document.get("domains")).forEach((broker, domain) -> domains.put(broker, domain.asText()));
            Set<String> kept = texts(document.get("candidates"));
            Map<String, Boolean> mayLeave = new TreeMap<>();
            if (document.has("states")) {
                Map<String, ServiceUnitStateData> owned = new HashMap<>();
                entries(document.get("states")).forEach((name, state) -> owned.put(
                        name,
                        new ServiceUnitStateData(
                                ServiceUnitState.valueOf(state.get(1).asText()), state.get(0).asText(), 1)));
                LoadManagerShared.filterAntiAffinityGroupOwnedBrokers(pulsar, bundle, kept, owned.entrySet(), domains);
                for (JsonNode source : document.get("sources")) {
                    mayLeave.put(
                            source.asText(),
                            LoadManagerShared.shouldAntiAffinityNamespaceUnload(
                                    namespace,
                                    bundle,
                                    source.asText(),
                                    pulsar,
                                    owned.entrySet(),
                                    texts(document.get("candidates"))));
                }
            } else {
                BundleRangeCache held = new BundleRangeCache();
                entries(document.get("held")).forEach((broker, bundles) -> bundles.forEach(each -> held.add(
                        broker,
                        LoadManagerShared.getNamespaceNameFromBundleName(each.asText()),
                        LoadManagerShared.getBundleRangeFromBundleName(each.asText()))));
                LoadManagerShared.filterAntiAffinityGroupOwnedBrokers(pulsar, bundle, kept, held, domains);
                for (JsonNode source : document.get("sources")) {
                    mayLeave.put(
                            source.asText(),
                            LoadManagerShared.shouldAntiAffinityNamespaceUnload(
                                    namespace, source.asText(), pulsar, held, texts(document.get("candidates"))));
                }
            }
            return List.of(new TreeSet<>(kept), mayLeave);
        });
    }

    /** The failure domain of each broker that is in one. */
    public static void domains(String questions, String answers) throws Exception {
        PulsarService pulsar = stub(PulsarService.class);
        PulsarResources resources = stub(PulsarResources.class);
        ClusterResources clusters = stub(ClusterResources.class);
        FailureDomainResources stored = stub(FailureDomainResources.class);
        when(pulsar.getPulsarResources()).thenReturn(resources);
        when(resources.getClusterResources()).thenReturn(clusters);
        when(clusters.getFailureDomainResources()).thenReturn(stored);
        when(pulsar.getConfiguration())
                .thenReturn(Cases.configuration(Cases.tree(Map.of("clusterName", "c", "failureDomainsEnabled", true))));
        Cases.answer(questions, answers, document -> {
            Map<String, JsonNode> domains = entries(document);
            when(stored.listFailureDomains("c")).thenReturn(List.copyOf(domains.keySet()));
            for (Map.Entry<String, JsonNode> domain : domains.entrySet()) {
                when(stored.getFailureDomain("c", domain.getKey()))
                        .thenReturn(Optional.of(Cases.read(domain.getValue(), FailureDomainImpl.class)));
            }
            Map<String, String> found = new TreeMap<>();
            LoadManagerShared.refreshBrokerToFailureDomainMap(pulsar, found);
            return found;
        });
    }
}
