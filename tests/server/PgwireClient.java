import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.Properties;

/** Asks a query by JDBC, with a parameter and in pieces, and looks at the metadata. */
class PgwireClient {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.setProperty("user", words[1]);
        settings.setProperty("password", words[2]);
        settings.setProperty("options", "-c tacit.epsilon=0.5");
        try (Connection connection = DriverManager.getConnection(words[0], settings)) {
            String query = "SELECT ward, COUNT(*) AS n FROM visits WHERE cost < ? GROUP BY ward";
            try (PreparedStatement prepared = connection.prepareStatement(query)) {
                prepared.setInt(1, 90);
                show(prepared.executeQuery());
            }
            System.out.println("alive " + connection.isValid(20));
            String some = "SELECT ward, COUNT(*) AS n FROM visits WHERE ward IN (?,?) GROUP BY ward";
            try (PreparedStatement prepared = connection.prepareStatement(some)) {
                prepared.setString(1, "a");
                prepared.setString(2, "b");
                show(prepared.executeQuery());
            }
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(2);
                show(statement.executeQuery("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"));
            }
            connection.commit();
            DatabaseMetaData known = connection.getMetaData();
            try (ResultSet found = known.getTables(null, "public", "%", new String[] {"TABLE"})) {
                while (found.next()) System.out.println("table " + found.getString("TABLE_NAME"));
            }
            try (ResultSet found = known.getColumns(null, "public", "visits", "%")) {
                while (found.next())
                    System.out.println("column " + found.getString("COLUMN_NAME") + " " + found.getString("TYPE_NAME"));
            }
            try (ResultSet found = known.getImportedKeys(null, "public", "visits")) {
                while (found.next())
                    System.out.println("key " + found.getString("FKCOLUMN_NAME") + " " + found.getString("PKTABLE_NAME")
                        + " " + found.getString("PKCOLUMN_NAME"));
            }
            try (ResultSet found = known.getSchemas()) {
                while (found.next()) System.out.println("schema " + found.getString(1));
            }
            try (ResultSet found = known.getPrimaryKeys(null, "public", "visits")) {
                while (found.next()) System.out.println("primary " + found.getString("COLUMN_NAME"));
            }
        }
    }

    private static void show(ResultSet found) throws Exception {
        while (found.next()) {
            found.getLong(2);
            System.out.println("row " + found.getString(1));
        }
        found.close();
    }
}
