import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;

/** Acquire, look whether anybody else is inside, release: until it was handed over often enough. */
final class Loop {
    private final Locks locks;
    private final Told what;
    private final String who;
    private final List<Object> turns = new ArrayList<>();
    private final List<Object> trouble = new ArrayList<>();
    private long handed;

    Loop(Locks locks, Told what) {
        this.locks = locks;
        this.what = what;
        who = what.text("who");
    }

    Map<String, Object> run() throws Exception {
        double target = what.number("target");
        double end = Worker.now() + what.number("seconds");
        while (handed < target && Worker.now() < end) {
            turn();
        }
        return Map.of("turns", turns, "trouble", trouble, "handed", handed);
    }

    private void turn() throws Exception {
        double asked = Worker.now();
        Locks.Hold hold =
                locks.acquire(
                        what.text("name"),
                        what.text("kind"),
                        what.number("wait"),
                        what.number("lease"));
        double held = Worker.now();
        if (hold == null) {
            trouble.add(String.format("%s waited in vain for %.3f s", who, held - asked));
            return;
        }
        String found = step("enter", asked);
        if (!found.isEmpty()) {
            trouble.add(who + " came in while " + found + " was inside");
        }
        pause("inside");
        double left = Worker.now();
        found = step("leave", left);
        if (!found.isEmpty()) {
            trouble.add(who + " was inside and found " + found);
        }
        if (!hold.release()) {
            trouble.add(who + " could not release what it held");
        }
        turns.add(List.of(asked, held, left));
        pause("pause");
    }

    private String step(String script, double when) {
        String time = String.format(Locale.ROOT, "%.6f", when);
        List<Object> keys = new ArrayList<>(what.list("keys"));
        String said = locks.script(what.text(script), keys, who, what.text("side"), time);
        int bar = said.lastIndexOf('|');
        handed = Math.max(handed, Long.parseLong(said.substring(bar + 1)));
        return said.substring(0, bar);
    }

    private void pause(String which) throws InterruptedException {
        double seconds = what.between(which, ThreadLocalRandom.current().nextDouble());
        Thread.sleep(Locks.millis(seconds));
    }
}
