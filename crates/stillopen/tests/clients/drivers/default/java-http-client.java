import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

public class Drive {
    public static void main(String[] args) throws Exception {
        var request = HttpRequest.newBuilder(URI.create("@url@")).build();
        HttpClient.newHttpClient().send(request, BodyHandlers.discarding());
    }
}
