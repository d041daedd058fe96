import java.net.Socket;

public class AskSocket {
    public static void main(String[] args) {
        try {
            int port = Integer.parseInt(args[1]);
            Socket socket = args[2].equals("setting")
                    ? new KeepaliveSocketFactory().createSocket(args[0], port)
                    : new Socket(args[0], port);
            socket.getOutputStream().write("GET / HTTP/1.0\r\n\r\n".getBytes());
            if (socket.getInputStream().read() < 0) {
                throw new java.io.EOFException();
            }
        } catch (Exception error) {
            System.err.println(error);
            System.exit(1);
        }
    }
}
