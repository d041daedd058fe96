import java.net.URI;

public class Drive {
    public static void main(String[] args) throws Exception {
        URI.create("@url@").toURL().openConnection().getInputStream();
    }
}
