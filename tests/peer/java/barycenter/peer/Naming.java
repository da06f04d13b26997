package barycenter.peer;

import static org.mockito.Mockito.RETURNS_DEEP_STUBS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.common.hash.Hashing;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceBundles;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.BundlesData;
import org.mockito.Mockito;

/** Hashes and bundles of namespaces. */
public final class Naming {
    private Naming() {}

    static NamespaceBundleFactory factory() {
        PulsarService pulsar = mock(PulsarService.class, withSettings().defaultAnswer(RETURNS_DEEP_STUBS));
        Mockito.when(pulsar.getConfiguration()).thenReturn(new ServiceConfiguration());
        Mockito.when(pulsar.getConfig()).thenReturn(new ServiceConfiguration());
        return NamespaceBundleFactory.createFactory(pulsar, Hashing.crc32());
    }

    /** The bundles of a namespace, each topic's hash and bundle. */
    public static void bundles(String questions, String answers) throws Exception {
        NamespaceBundleFactory factory = factory();
        Cases.answer(questions, answers, document -> {
            List<String> boundaries = new ArrayList<>();
            document.get("boundaries").forEach(edge -> boundaries.add(edge.asText()));
            NamespaceBundles bundles = factory.getBundles(
                    NamespaceName.get(document.get("namespace").asText()),
                    BundlesData.builder().numBundles(boundaries.size() - 1).boundaries(boundaries).build());
            List<String> names = new ArrayList<>();
            bundles.getBundles().forEach(bundle -> names.add(bundle.toString()));
            List<Map<String, Object>> topics = new ArrayList<>();
            for (JsonNode node : document.get("topics")) {
                TopicName topic = TopicName.get(node.asText());
                topics.add(Map.of(
                        "hash",
                        factory.getLongHashCode(topic.toString()),
                        "bundle",
                        bundles.findBundle(topic).toString()));
            }
            return Map.of("bundles", names, "topics", topics);
        });
    }
}
