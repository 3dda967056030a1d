/*
 * AsyncClose PHASE HOST PORT MS: one thread waits in connect (PHASE connect) or read (PHASE answer) without a timeout,
 * another one closes its socket after MS. Prints the exception that the waiting thread gets.
 */
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;

public class AsyncClose {
    public static void main(String[] arguments) throws Exception {
        Socket socket = new Socket();
        Thread closer = new Thread(() -> {
            try {
                Thread.sleep(Long.parseLong(arguments[3]));
                socket.close();
            } catch (IOException | InterruptedException error) {
                System.err.println(error);
            }
        });
        InetSocketAddress address = new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
        try {
            if (arguments[0].equals("answer")) {
                socket.connect(address);
                socket.getOutputStream().write("GET / HTTP/1.0\r\n\r\n".getBytes());
                closer.start();
                System.out.println(socket.getInputStream().read());
            } else {
                closer.start();
                socket.connect(address);
            }
        } catch (IOException error) {
            System.out.println(error.getMessage());
        }
        closer.join();
        // The outcome must come from the close, and not from this process's end.
        System.in.read();
    }
}
