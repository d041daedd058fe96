public class Drive {
    public static void main(String[] args) throws Exception {
        var socket = new java.net.Socket("@host@", @port@);
        socket.getOutputStream().write(1);
        socket.getInputStream().read();
    }
}
