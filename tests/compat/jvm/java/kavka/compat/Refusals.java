package kavka.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/** Refusals: for each line "key version error-code request-in-hex" the response by which Kafka refuses that request. */
public final class Refusals {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            short version = Short.parseShort(words[1]);
            ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
            try {
                AbstractRequest request = AbstractRequest.parseRequest(
                    ApiKeys.forId(Integer.parseInt(words[0])), version, new ByteBufferAccessor(body)).request;
                AbstractResponse refused = request.getErrorResponse(0, Errors.forCode(Short.parseShort(words[2])).exception());
                ByteBuffer out = MessageUtil.toByteBufferAccessor(refused.data(), version).buffer();
                byte[] bytes = new byte[out.remaining()];
                out.get(bytes);
                System.out.println(HexFormat.of().formatHex(bytes));
            } catch (RuntimeException none) {
                System.out.println("none " + none);
            }
        }
    }
}
