/* HttpClientGet URL TIMEOUT_MS: prints the answer's body, by java.net.http.HttpClient. TIMEOUT_MS 0: none. */
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

public class HttpClientGet {
    public static void main(String[] arguments) throws Exception {
        long timeout = Long.parseLong(arguments[1]);
        HttpClient.Builder client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(arguments[0]));
        if (timeout > 0) {
            client.connectTimeout(Duration.ofMillis(timeout));
            request.timeout(Duration.ofMillis(timeout));
        }
        try {
            System.out.print(client.build().send(request.build(), HttpResponse.BodyHandlers.ofString()).body());
        } catch (IOException error) {
            System.err.println(error);
            System.exit(1);
        }
    }
}
