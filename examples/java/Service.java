// A Java service that calls Weir for each request, with the JDK only.
//
//     weir serve --config examples/proxies/weir.yaml
//     java examples/java/Service.java
import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;

public class Service {
	static final String WEIR = "http://127.0.0.1:8080/v1/check?";
	static final boolean FAIL_OPEN = !"closed".equals(System.getenv("WEIR_FAIL")); // what to do if Weir is down
	static final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

	/** Returns Weir's response, with status 200 if the request is allowed; null if Weir is down. */
	static HttpResponse<String> check(Map<String, String> attributes) throws InterruptedException {
		String query = attributes.entrySet().stream()
				.map(one -> one.getKey() + "=" + URLEncoder.encode(one.getValue(), StandardCharsets.UTF_8))
				.collect(Collectors.joining("&"));
		var request = HttpRequest.newBuilder(URI.create(WEIR + query)).timeout(Duration.ofMillis(500)).build();
		try {
			var response = client.send(request, HttpResponse.BodyHandlers.ofString());
			// If a limit fails closed, the response is a 503 with "allowed":false: a decision, not an outage.
			boolean decided = response.statusCode() < 500 || response.body().contains("\"allowed\":false");
			return decided ? response : null;
		} catch (IOException error) {
			return null;
		}
	}

	static void reply(HttpExchange exchange, int status, String text) throws IOException {
		byte[] body = (text + "\n").getBytes(StandardCharsets.UTF_8);
		exchange.sendResponseHeaders(status, body.length);
		exchange.getResponseBody().write(body);
		exchange.close();
	}

	/** Passes on the requests that Weir allows. */
	static void limit(HttpExchange exchange, Filter.Chain next) throws IOException {
		var attributes = new LinkedHashMap<String, String>();
		attributes.put("ip", exchange.getRemoteAddress().getAddress().getHostAddress());
		attributes.put("method", exchange.getRequestMethod());
		attributes.put("path", exchange.getRequestURI().getPath());
		String key = exchange.getRequestHeaders().getFirst("X-Api-Key");
		if (key != null)
			attributes.put("api_key", key);

		HttpResponse<String> checked;
		try {
			checked = check(attributes);
		} catch (InterruptedException error) {
			throw new IOException(error);
		}
		if (checked == null && !FAIL_OPEN) {
			reply(exchange, 503, "try again later");
			return;
		}
		if (checked != null) {
			for (String name : List.of("RateLimit", "RateLimit-Policy", "Retry-After"))
				checked.headers().firstValue(name).ifPresent(value -> exchange.getResponseHeaders().set(name, value));
			if (checked.statusCode() != 200) { // also if Weir cannot decide the request
				reply(exchange, checked.statusCode(), "denied");
				return;
			}
		}
		next.doFilter(exchange);
	}

	public static void main(String[] arguments) throws IOException {
		var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 3000), 0);
		var site = server.createContext("/", exchange -> reply(exchange, 200, "hello"));
		site.getFilters().add(new Filter() {
			@Override
			public void doFilter(HttpExchange exchange, Chain next) throws IOException {
				limit(exchange, next);
			}

			@Override
			public String description() {
				return "calls Weir";
			}
		});
		server.setExecutor(Executors.newCachedThreadPool());
		server.start();
		System.out.println("listening at 127.0.0.1:3000");
	}
}
