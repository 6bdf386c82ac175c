package kavka.compat;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs main classes one after the other in one JVM, so that a tool costs milliseconds instead of a JVM start.
 *
 * Request on stdin: timeout in ms, class name, number of arguments, arguments, standard input (ints are big-endian, strings and
 * bytes have an int length). Answer on stdout: status, standard output, standard error. A status of TIMED_OUT means that the tool
 * is still running here, and that the caller should start another JVM.
 */
public final class ToolRunner {
    static final int TIMED_OUT = -1000;
    static final int THREW = -1001;
    private static final int STILL_RUNNING = Integer.MIN_VALUE;

    /** How a tool's call of exit gets out of the tool. */
    static final class Exited extends Error {
        Exited(int status) {
            super("exit " + status, null, false, false);
        }
    }

    /** System.out and System.err are captured by static fields of some tools, so the stream stays and its target changes. */
    static final class Switch extends OutputStream {
        private volatile OutputStream target = OutputStream.nullOutputStream();

        @Override
        public void write(int b) throws IOException {
            target.write(b);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            target.write(bytes, offset, length);
        }
    }

    private final Switch out = new Switch();
    private final Switch err = new Switch();
    private final AtomicInteger status = new AtomicInteger(STILL_RUNNING);
    private final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        new ToolRunner().serve(System.in, new FileOutputStream(FileDescriptor.out));
    }

    private void serve(InputStream requests, OutputStream answers) throws Exception {
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.Procedure exit = (code, message) -> {
            if (status.compareAndSet(STILL_RUNNING, code)) {
                endOutput();
            }
            throw new Exited(code);
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> {
            synchronized (hooks) {
                hooks.add(hook);
            }
        });
        DataInputStream in = new DataInputStream(requests);
        DataOutputStream answer = new DataOutputStream(answers);
        while (true) {
            int timeoutMs;
            try {
                timeoutMs = in.readInt();
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            String mainClass = readString(in);
            String[] args = new String[in.readInt()];
            for (int i = 0; i < args.length; i++) {
                args[i] = readString(in);
            }
            run(mainClass, args, readBytes(in), timeoutMs, answer);
        }
    }

    private void run(String mainClass, String[] args, byte[] stdin, int timeoutMs, DataOutputStream answer) throws Exception {
        ByteArrayOutputStream stdout = new ByteArrayOutputStream();
        ByteArrayOutputStream stderr = new ByteArrayOutputStream();
        out.target = stdout;
        err.target = stderr;
        System.setIn(new ByteArrayInputStream(stdin));
        status.set(STILL_RUNNING);
        Thread tool = new Thread(() -> call(mainClass, args, stdout, stderr), "tool");
        tool.setDaemon(true);
        tool.start();
        tool.join(timeoutMs);
        int code = tool.isAlive() ? TIMED_OUT : status.get();
        System.out.flush();
        System.err.flush();
        answer.writeInt(code);
        writeBytes(answer, stdout.toByteArray());
        writeBytes(answer, stderr.toByteArray());
        answer.flush();
    }

    private void call(String mainClass, String[] args, OutputStream stdout, OutputStream stderr) {
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) args);
            status.compareAndSet(STILL_RUNNING, 0);
        } catch (InvocationTargetException wrapped) {
            if (!(wrapped.getCause() instanceof Exited)) {
                wrapped.getCause().printStackTrace();
                status.compareAndSet(STILL_RUNNING, THREW);
            }
        } catch (ReflectiveOperationException wrong) {
            wrong.printStackTrace();
            status.compareAndSet(STILL_RUNNING, THREW);
        }
        out.target = stdout;
        err.target = stderr;
        runHooks();
    }

    /** A tool that exits is gone; here it catches the exit like any other error, and what it says about that is not its answer. */
    private void endOutput() {
        System.out.flush();
        System.err.flush();
        out.target = OutputStream.nullOutputStream();
        err.target = OutputStream.nullOutputStream();
    }

    private void runHooks() {
        List<Runnable> now;
        synchronized (hooks) {
            now = new ArrayList<>(hooks);
            hooks.clear();
        }
        for (Runnable hook : now) {
            try {
                hook.run();
            } catch (Exited expected) {
                // A hook that exits has said its status already.
            }
        }
    }

    private static String readString(DataInputStream in) throws IOException {
        return new String(readBytes(in), StandardCharsets.UTF_8);
    }

    private static byte[] readBytes(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return bytes;
    }

    private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
