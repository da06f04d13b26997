package barycenter.peer;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.broker.loadbalance.impl.AvgShedder;
import org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;

/** One AvgShedder as shedder and placement, and how strategies are paired; of 5.x, so asked for by name. */
public final class Attempt {
    private Attempt() {}

    /**
     * The bundles that one round sheds, and for each question the brokers that {@code draws} choices of a bundle's broker
     * fell on: with the load of later, while the plan is carried out, and once that was tried.
     */
    public static void destinations(String questions, String answers) throws Exception {
        Method select = ModularLoadManagerStrategy.class.getMethod(
                "selectBrokerForBundle",
                Set.class,
                String.class,
                BundleData.class,
                LoadData.class,
                ServiceConfiguration.class);
        Method completed = LoadSheddingStrategy.class.getMethod("onUnloadAttemptCompleted");
        Cases.answer(questions, answers, document -> {
            AvgShedder shedder = new AvgShedder();
            ServiceConfiguration configuration = Cases.configuration(document.get("configuration"));
            Map<String, List<String>> shed = new LinkedHashMap<>();
            shedder.findBundlesForUnloading(Cases.loadData(document.get("load"), true), configuration)
                    .asMap()
                    .forEach((broker, bundles) -> shed.put(broker, List.copyOf(bundles)));
            LoadData later = Cases.loadData(document.get("later"), true);
            List<Object> told = new ArrayList<>();
            told.add(shed);
            for (boolean isTried : List.of(false, true)) {
                if (isTried) {
                    completed.invoke(shedder);
                }
                List<Set<String>> fellOn = new ArrayList<>();
                for (JsonNode question : document.get("questions")) {
                    Set<String> drawn = new TreeSet<>();
                    for (int draw = 0; draw < question.get("draws").asInt(); draw++) {
                        Optional<?> chosen = (Optional<?>) select.invoke(
                                shedder,
                                Placement.candidates(question),
                                question.get("bundle").asText(),
                                new BundleData(),
                                later,
                                configuration);
                        chosen.ifPresent(broker -> drawn.add((String) broker));
                    }
                    fellOn.add(drawn);
                }
                told.add(fellOn);
            }
            return told;
        });
    }

    /** The class that sheds and the class that places, by two class names. */
    public static void pairs(String questions, String answers) throws Exception {
        Method create = ModularLoadManagerImpl.class.getDeclaredMethod(
                "createLoadBalanceStrategies", ServiceConfiguration.class);
        create.setAccessible(true);
        Cases.answer(questions, answers, document -> {
            Object pair = create.invoke(null, Cases.configuration(document));
            List<String> names = new ArrayList<>();
            for (String part : List.of("loadSheddingStrategy", "placementStrategy")) {
                Method accessor = pair.getClass().getDeclaredMethod(part);
                accessor.setAccessible(true);
                names.add(accessor.invoke(pair).getClass().getName());
            }
            return names;
        });
    }
}
