import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Redisson in a process of its own. It does what it is told in lines of JSON, as tests/interop/crew.py
 * says. All is done by one thread, because to Redisson the holder is a thread.
 */
public final class Worker {
    private final Map<String, Locks.Hold> holds = new HashMap<>();
    private Locks locks;

    private Worker() {}

    public static void main(String[] args) throws Exception {
        PrintStream mouth = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        Thread listener = new Thread(() -> listen(told));
        listener.setDaemon(true);
        listener.start();
        Worker worker = new Worker();
        mouth.println("{\"ready\": \"redisson\"}");
        while (true) {
            mouth.println(Told.json(worker.answer(new Told(told.take()))));
        }
    }

    /** Hand over line by line. Nobody there any more is the end, whatever is being done. */
    private static void listen(BlockingQueue<String> told) {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            String line = lines.readLine();
            while (line != null) {
                told.add(line);
                line = lines.readLine();
            }
        } catch (IOException gone) {
            System.err.println(gone);
        }
        Runtime.getRuntime().halt(0);
    }

    /** Seconds of CLOCK_MONOTONIC, which all processes of a machine have in common. */
    static double now() {
        return System.nanoTime() / 1e9;
    }

    private Map<String, Object> answer(Told what) {
        try {
            switch (what.text("do")) {
                case "open":
                    return open(what);
                case "acquire":
                    return acquire(what);
                case "release":
                    return release(what);
                case "steal":
                    return Map.of("refused", locks.steal(what.text("name"), what.text("kind")));
                case "loop":
                    return new Loop(locks, what).run();
                default:
                    return Map.of("error", "no such command: " + what.text("do"));
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            return Map.of("error", failure.toString());
        }
    }

    private Map<String, Object> open(Told what) {
        if (locks != null) {
            locks.close();
        }
        holds.clear();
        locks = new Locks(what.text("server"), what.number("watchdog"));
        return Map.of();
    }

    private Map<String, Object> acquire(Told what) throws Exception {
        String name = what.text("name");
        double asked = now();
        Locks.Hold hold =
                locks.acquire(name, what.text("kind"), what.number("wait"), what.number("lease"));
        double at = now();
        if (hold != null) {
            holds.put(name, hold);
        }
        long fence = hold == null ? 0 : hold.fence;
        return Map.of("held", hold != null, "asked", asked, "at", at, "fence", fence);
    }

    private Map<String, Object> release(Told what) {
        Locks.Hold hold = holds.remove(what.text("name"));
        double at = now();
        return Map.of("at", at, "released", hold.release());
    }
}
