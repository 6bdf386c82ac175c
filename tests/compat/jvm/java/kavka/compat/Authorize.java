package kavka.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/**
 * Authorize: sets of rules and questions about them, answered by Kafka's StandardAuthorizer. Fields are separated by tabs.
 * "new super.users allow-if-none"; "acl type name pattern operation principal host permission";
 * "ask principal host operation type name" and "any principal host operation type" print ALLOWED or DENIED.
 */
public final class Authorize {
    private record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 3;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "";
        }

        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        StandardAuthorizer authorizer = null;
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new":
                    acls = new HashMap<>();
                    authorizer = new StandardAuthorizer();
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new LinkedHashMap<>()));
                    authorizer.configure(Map.of("super.users", words[1], "allow.everyone.if.no.acl.found", words[2]));
                    break;
                case "acl":
                    acls.put(Uuid.randomUuid(), new StandardAcl(
                        ResourceType.fromCode(Byte.parseByte(words[1])), words[2],
                        PatternType.fromCode(Byte.parseByte(words[3])), words[5], words[6],
                        AclOperation.fromCode(Byte.parseByte(words[4])), AclPermissionType.fromCode(Byte.parseByte(words[7]))));
                    break;
                case "load":
                    authorizer.loadSnapshot(acls);
                    authorizer.completeInitialLoad();
                    break;
                default:
                    Context context = new Context(SecurityUtils.parseKafkaPrincipal(words[1]), InetAddress.getByName(words[2]));
                    AclOperation operation = AclOperation.fromCode(Byte.parseByte(words[3]));
                    ResourceType type = ResourceType.fromCode(Byte.parseByte(words[4]));
                    if (words[0].equals("any")) {
                        out.append(authorizer.authorizeByResourceType(context, operation, type)).append('\n');
                        break;
                    }
                    ResourcePattern resource = new ResourcePattern(type, words[5], PatternType.LITERAL);
                    out.append(authorizer.authorize(context, List.of(new Action(operation, resource, 1, true, true))).get(0)).append('\n');
            }
        }
        System.out.print(out);
    }
}
