// Smoothing.java: bursts from many producers, sent to Kafka at a constant rate.
//
//     java -cp 'jars/*' Smoothing.java localhost:9092 http://localhost:8080
//
// Four producers have 25 orders each, all at once. Before each order, a producer calls Weir for its turn and waits for the
// response. All programs that use the same key and limit, on any machine, share one queue.

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Smoothing {
	static final int PRODUCERS = 4, ORDERS = 25, RATE = 100;
	static final String TOPIC = "orders";
	static final String TURN = "{\"key\": \"orders-topic\", \"limit\": \"" + RATE + "/s leaky queue 200\", \"wait\": \"10s\"}";

	static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

	static boolean waitForTurn(URI weir) throws Exception {
		HttpRequest request = HttpRequest.newBuilder(weir).header("Content-Type", "application/json")
			.POST(HttpRequest.BodyPublishers.ofString(TURN)).build();
		return HTTP.send(request, HttpResponse.BodyHandlers.ofString()).statusCode() == 200;
	}

	static int produce(KafkaProducer<String, String> kafka, URI weir, int number) throws Exception {
		int sent = 0;
		for (int order = 0; order < ORDERS; order++) {
			if (waitForTurn(weir)) {
				kafka.send(new ProducerRecord<>(TOPIC, 0, null, "order " + number + "-" + order));
				sent++;
			}
		}
		return sent;
	}

	static List<Long> timesOfRecords(Properties settings, int n) {
		List<Long> times = new ArrayList<>();
		try (KafkaConsumer<String, String> kafka = new KafkaConsumer<>(settings)) {
			TopicPartition partition = new TopicPartition(TOPIC, 0);
			kafka.assign(List.of(partition));
			kafka.seekToBeginning(List.of(partition));
			for (int tries = 0; times.size() < n && tries < 100; tries++)
				for (ConsumerRecord<String, String> record : kafka.poll(Duration.ofMillis(200)))
					times.add(record.timestamp());
		}
		return times;
	}

	public static void main(String[] arguments) throws Exception {
		Properties settings = new Properties();
		settings.putAll(Map.of("bootstrap.servers", arguments[0], "key.serializer", StringSerializer.class, "value.serializer",
			StringSerializer.class, "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class));
		URI weir = URI.create(arguments[1] + "/v1/take");
		ExecutorService threads = Executors.newFixedThreadPool(PRODUCERS);
		int sent = 0;

		try (KafkaProducer<String, String> kafka = new KafkaProducer<>(settings)) {
			kafka.partitionsFor(TOPIC); // connects, so that the first order does not wait for that
			List<Callable<Integer>> producers = new ArrayList<>();
			for (int i = 0; i < PRODUCERS; i++) {
				int number = i;
				producers.add(() -> produce(kafka, weir, number));
			}
			for (Future<Integer> done : threads.invokeAll(producers))
				sent += done.get();
		}
		threads.shutdown();
		List<Long> times = timesOfRecords(settings, sent);
		long took = times.get(times.size() - 1) - times.get(0);
		System.out.println(sent + " orders sent, " + times.size() + " in the topic");
		System.out.println("at " + RATE + " a second they take 0.99 s: " + (took >= 900 ? "yes" : "no, " + took + " ms"));
	}
}
