package barycenter.peer;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.RETURNS_DEFAULTS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.common.collect.BoundType;
import com.google.common.collect.Range;
import com.google.common.hash.Hashing;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.impl.BundleSplitterTask;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.common.naming.BundleSplitOption;
import org.apache.pulsar.common.naming.FlowOrQpsEquallyDivideBundleSplitOption;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceBundleSplitAlgorithm;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.policies.data.stats.TopicStatsImpl;

/** The split check and the split algorithms; mocks stand only for what a running broker would have counted. */
public final class Splitting {
    private Splitting() {}

    private static <T> T stub(Class<T> type) {
        return mock(type, withSettings().stubOnly().defaultAnswer(RETURNS_DEFAULTS));
    }

    /** The bundles to split, each with its broker. */
    public static void check(String questions, String answers) throws Exception {
        PulsarService pulsar = stub(PulsarService.class);
        NamespaceService namespaces = stub(NamespaceService.class);
        JsonNode[] counts = new JsonNode[1];
        when(pulsar.getNamespaceService()).thenReturn(namespaces);
        when(namespaces.getBundleCount(any()))
                .thenAnswer(call -> counts[0].get(call.getArgument(0).toString()).asInt());
        Cases.answer(questions, answers, document -> {
            counts[0] = document.get("bundleCounts");
            when(pulsar.getConfiguration()).thenReturn(Cases.configuration(document.get("configuration")));
            return new TreeMap<>(
                    new BundleSplitterTask().findBundlesToSplit(Cases.loadData(document.get("load"), true), pulsar));
        });
    }

    /** The boundaries of one bundle, or that the algorithm refuses. With "stats" they go by what topics carry. */
    public static void boundaries(String questions, String answers) throws Exception {
        NamespaceBundleFactory factory = stub(NamespaceBundleFactory.class);
        when(factory.getLongHashCode(any())).thenAnswer(call -> hash(call.getArgument(0)));
        NamespaceService namespaces = stub(NamespaceService.class);
        Cases.answer(questions, answers, document -> {
            long lower = document.get("lower").asLong();
            long upper = document.get("upper").asLong();
            BoundType end = upper == 0xffffffffL ? BoundType.CLOSED : BoundType.OPEN;
            NamespaceBundle bundle = new NamespaceBundle(
                    NamespaceName.get(document.get("namespace").asText()),
                    Range.range(lower, BoundType.CLOSED, upper, end),
                    factory);
            List<String> topics = new ArrayList<>();
            document.get("topics").forEach(topic -> topics.add(topic.asText()));
            when(namespaces.getOwnedTopicListForNamespaceBundle(any()))
                    .thenReturn(CompletableFuture.completedFuture(topics));
            NamespaceBundleSplitAlgorithm algorithm = document.get("forced").asBoolean()
                    ? NamespaceBundleSplitAlgorithm.SPECIFIED_POSITIONS_DIVIDE_FORCE_ALGO
                    : NamespaceBundleSplitAlgorithm.of(document.get("algorithm").asText());
            BundleSplitOption option = document.has("stats")
                    ? byTraffic(namespaces, bundle, document)
                    : new BundleSplitOption(namespaces, bundle, positions(document));
            try {
                List<Long> found = algorithm.getSplitBoundary(option).join();
                return found == null ? List.of() : found;
            } catch (CompletionException | IllegalArgumentException refused) {
                return "refused";
            }
        });
    }

    private static List<Long> positions(JsonNode document) {
        List<Long> positions = new ArrayList<>();
        document.get("positions").forEach(position -> positions.add(position.asLong()));
        return positions;
    }

    private static BundleSplitOption byTraffic(
            NamespaceService namespaces, NamespaceBundle bundle, JsonNode document) throws Exception {
        Map<String, TopicStatsImpl> stats = new LinkedHashMap<>();
        Iterator<Map.Entry<String, JsonNode>> entries = document.get("stats").fields();
        while (entries.hasNext()) {
            Map.Entry<String, JsonNode> entry = entries.next();
            stats.put(entry.getKey(), Cases.read(entry.getValue(), TopicStatsImpl.class));
        }
        ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
        return new FlowOrQpsEquallyDivideBundleSplitOption(
                namespaces,
                bundle,
                null,
                stats,
                configuration.getLoadBalancerNamespaceBundleMaxMsgRate(),
                configuration.getLoadBalancerNamespaceBundleMaxBandwidthMbytes(),
                configuration.getFlowOrQpsDifferenceThresholdPercentage());
    }

    private static long hash(String text) {
        return Hashing.crc32().hashString(text, StandardCharsets.UTF_8).padToLong();
    }
}
