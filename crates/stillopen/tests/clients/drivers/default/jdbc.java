public class Drive {
    public static void main(String[] args) throws Exception {
        java.sql.DriverManager.getConnection("jdbc:postgresql://@host@:@port@/app", "app", "");
    }
}
