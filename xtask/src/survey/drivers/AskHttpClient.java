import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

public class AskHttpClient {
    public static void main(String[] args) {
        try {
            var request = HttpRequest.newBuilder(URI.create(args[0])).build();
            HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        } catch (Exception error) {
            System.err.println(error);
            System.exit(1);
        }
    }
}
