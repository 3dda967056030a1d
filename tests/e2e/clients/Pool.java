/*
 * Pool KIND: calls on command over a client that keeps its connections. KIND: httpclient, urlconnection. Speaks as
 * pool.py does, but a command is "URL TIMEOUT_MS COUNT".
 */
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class Pool {
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    static int byHttpClient(String url, int timeout) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofMillis(timeout)).build();
        return CLIENT.send(request, HttpResponse.BodyHandlers.ofString()).statusCode();
    }

    static int byUrlConnection(String url, int timeout) throws Exception {
        HttpURLConnection connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
        connection.setConnectTimeout(timeout);
        connection.setReadTimeout(timeout);
        try (InputStream body = connection.getInputStream()) {
            body.readAllBytes();
        }
        return connection.getResponseCode();
    }

    static String call(String kind, String url, int timeout) {
        try {
            int status = kind.equals("httpclient") ? byHttpClient(url, timeout) : byUrlConnection(url, timeout);
            return Integer.toString(status);
        } catch (Exception error) {
            return '"' + error.toString().replace('"', '\'') + '"';
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            int count = Integer.parseInt(words[2]);
            ExecutorService threads = Executors.newFixedThreadPool(count);
            List<Future<String>> calls = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                calls.add(threads.submit(() -> call(arguments[0], words[0], Integer.parseInt(words[1]))));
            }
            List<String> results = new ArrayList<>();
            for (Future<String> call : calls) {
                results.add(call.get());
            }
            threads.shutdown();
            System.out.println("{\"results\": [" + String.join(", ", results) + "], \"signals\": []}");
        }
    }
}
