public class Drive {
    public static void main(String[] args) throws Exception {
        var socket = new KeepaliveSocketFactory().createSocket("@host@", @port@);
        socket.getOutputStream().write(1);
        socket.getInputStream().read();
    }
}
