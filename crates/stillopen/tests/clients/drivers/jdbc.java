import java.io.FileReader;
import java.sql.DriverManager;
import java.util.Properties;

public class Drive {
    public static void main(String[] args) throws Exception {
        var properties = new Properties();
        try (var file = new FileReader(args[0])) {
            properties.load(file);
        }
        DriverManager.getConnection(properties.getProperty("url"), "app", "");
    }
}
