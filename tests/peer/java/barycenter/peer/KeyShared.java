package barycenter.peer;

import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.broker.service.ConsistentHashingStickyKeyConsumerSelector;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.HashRangeAutoSplitStickyKeyConsumerSelector;
import org.apache.pulsar.broker.service.StickyKeyConsumerSelector;
import org.mockito.Mockito;

/** Which consumer of a Key_Shared subscription has a key. */
public final class KeyShared {
    private KeyShared() {}

    /**
     * The slots of keys, and the owners of slots after consumers joined and left. Each step is the number and the name
     * of a consumer, which leaves if it is there; 0 points mean ranges instead of a ring.
     */
    public static void slots(String questions, String answers) throws Exception {
        Cases.answer(questions, answers, document -> {
            int points = document.get("points").asInt();
            StickyKeyConsumerSelector selector = points > 0
                    ? new ConsistentHashingStickyKeyConsumerSelector(points)
                    : new HashRangeAutoSplitStickyKeyConsumerSelector();
            Map<Integer, Consumer> present = new HashMap<>();
            Map<Consumer, Integer> numbers = new IdentityHashMap<>();
            for (JsonNode step : document.get("steps")) {
                Consumer leaving = present.remove(step.get(0).asInt());
                if (leaving != null) {
                    selector.removeConsumer(leaving);
                    continue;
                }
                Consumer consumer = mock(Consumer.class, withSettings().stubOnly());
                Mockito.when(consumer.consumerName()).thenReturn(step.get(1).asText());
                present.put(step.get(0).asInt(), consumer);
                numbers.put(consumer, step.get(0).asInt());
                selector.addConsumer(consumer).get();
            }
            List<Integer> owners = new ArrayList<>();
            for (JsonNode slot : document.get("slots")) {
                Consumer owner = selector.select(slot.asInt());
                owners.add(owner == null ? -1 : numbers.get(owner));
            }
            List<Integer> slots = new ArrayList<>();
            for (JsonNode key : document.get("keys")) {
                slots.add(selector.makeStickyKeyHash(key.asText().getBytes(StandardCharsets.UTF_8)));
            }
            return Map.of("owners", owners, "slots", slots);
        });
    }
}
