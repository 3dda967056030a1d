import java.io.IOException;
import java.net.Socket;
import java.net.SocketTimeoutException;

/** Waits for an answer that never comes until a hook closes its socket, or it has waited long enough itself. */
class Stopped {
    public static void main(String[] arguments) throws Exception {
        Socket connection = new Socket(arguments[1], Integer.parseInt(arguments[2]));
        connection.getOutputStream().write(65);
        if (arguments[0].equals("own timeout"))
            connection.setSoTimeout(200);
        else
            Runtime.getRuntime().addShutdownHook(new Thread(() -> close(connection)));
        System.out.println("waits");
        try {
            connection.getInputStream().read();
        } catch (SocketTimeoutException timeout) {
            connection.close();
            System.exit(Integer.parseInt(arguments[3]));
        } catch (IOException closed) {
            Thread.sleep(60000); // the hook is at work
        }
    }

    private static void close(Socket connection) {
        try {
            connection.close();
        } catch (IOException never) {
            throw new IllegalStateException(never);
        }
    }
}
