package kavka.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Names: "name der-in-hex" prints the name as Java writes it; "map rules name" (by tabs) what Kafka's mapper makes of one. In hex. */
public final class Names {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            String result;
            try {
                result = words[0].equals("name")
                    ? new X500Principal(HexFormat.of().parseHex(words[1])).getName()
                    : SslPrincipalMapper.fromRules(words[1]).getName(words[2]);
                result = "ok " + HexFormat.of().formatHex(result.getBytes(StandardCharsets.UTF_8));
            } catch (Exception refused) {
                result = "refused " + refused.getClass().getSimpleName();
            }
            out.println(result);
        }
    }
}
