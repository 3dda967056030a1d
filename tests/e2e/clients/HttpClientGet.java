/*
 * HttpClientGet URL TIMEOUT_MS [COUNT]: prints the answer's body by java.net.http.HttpClient, COUNT times over one
 * client. TIMEOUT_MS 0: none.
 */
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

public class HttpClientGet {
    public static void main(String[] arguments) throws Exception {
        long timeout = Long.parseLong(arguments[1]);
        int count = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 1;
        HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(arguments[0]));
        if (timeout > 0) {
            builder.connectTimeout(Duration.ofMillis(timeout));
            request.timeout(Duration.ofMillis(timeout));
        }
        HttpClient client = builder.build();
        try {
            for (; count > 0; count--) {
                System.out.print(client.send(request.build(), HttpResponse.BodyHandlers.ofString()).body());
            }
        } catch (IOException error) {
            System.err.println(error);
            System.exit(1);
        }
    }
}
