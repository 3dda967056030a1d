/*
 * UrlConnectionGet URL TIMEOUT_MS [COUNT]: prints the answer's body by HttpURLConnection, COUNT times.
 * TIMEOUT_MS 0: none.
 */
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;

public class UrlConnectionGet {
    public static void main(String[] arguments) throws Exception {
        int count = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 1;
        for (; count > 0; count--) {
            HttpURLConnection connection = (HttpURLConnection) new URL(arguments[0]).openConnection();
            connection.setConnectTimeout(Integer.parseInt(arguments[1]));
            connection.setReadTimeout(Integer.parseInt(arguments[1]));
            try (InputStream body = connection.getInputStream()) {
                System.out.print(new String(body.readAllBytes()));
            } catch (IOException error) {
                System.err.println(error);
                System.exit(1);
            }
        }
    }
}
