import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.StandardSocketOptions;
import javax.net.SocketFactory;
import jdk.net.ExtendedSocketOptions;

/** For what takes a SocketFactory, such as OkHttp and JDBC drivers. */
public class KeepaliveSocketFactory extends SocketFactory {
    @Override
    public Socket createSocket() throws IOException {
        Socket socket = new Socket();
        socket.setOption(ExtendedSocketOptions.TCP_KEEPINTERVAL, @interval@);
        socket.setOption(ExtendedSocketOptions.TCP_KEEPCOUNT, @count@);
        socket.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
        socket.setOption(ExtendedSocketOptions.TCP_KEEPIDLE, @idle@);
        return socket;
    }

    private Socket connect(SocketAddress from, SocketAddress to) throws IOException {
        Socket socket = createSocket();
        socket.bind(from);
        socket.connect(to);
        return socket;
    }

    @Override
    public Socket createSocket(String host, int port) throws IOException {
        return connect(null, new InetSocketAddress(host, port));
    }

    @Override
    public Socket createSocket(InetAddress host, int port) throws IOException {
        return connect(null, new InetSocketAddress(host, port));
    }

    @Override
    public Socket createSocket(String host, int port, InetAddress from, int fromPort)
            throws IOException {
        return connect(new InetSocketAddress(from, fromPort), new InetSocketAddress(host, port));
    }

    @Override
    public Socket createSocket(InetAddress host, int port, InetAddress from, int fromPort)
            throws IOException {
        return connect(new InetSocketAddress(from, fromPort), new InetSocketAddress(host, port));
    }
}
