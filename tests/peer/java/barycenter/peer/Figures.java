package barycenter.peer;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;

/** The resource formulas and the windows. */
public final class Figures {
    private Figures() {}

    public static void usage(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            LocalBrokerData data = Cases.read(document.get("report"), LocalBrokerData.class);
            JsonNode weights = document.get("weights");
            return Map.of(
                    "percent",
                    List.of(
                            (double) data.getCpu().percentUsage(),
                            (double) data.getMemory().percentUsage(),
                            (double) data.getDirectMemory().percentUsage(),
                            (double) data.getBandwidthIn().percentUsage(),
                            (double) data.getBandwidthOut().percentUsage()),
                    "max",
                    data.getMaxResourceUsage(),
                    "weighted",
                    data.getMaxResourceUsageWithWeight(
                            weights.get(0).asDouble(),
                            weights.get(1).asDouble(),
                            weights.get(2).asDouble(),
                            weights.get(3).asDouble()));
        });
    }

    /** The windows of a bundle after each of a sequence of samples. */
    public static void windows(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            BundleData data = Cases.read(document.get("before"), BundleData.class);
            List<JsonNode> after = new ArrayList<>();
            for (JsonNode sample : document.get("samples")) {
                data.update(Cases.read(sample, NamespaceBundleStats.class));
                after.add(Cases.tree(data));
            }
            return after;
        });
    }
}
