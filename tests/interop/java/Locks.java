import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RScript;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** What Redisson has to lock with, by name and kind. Times are seconds; a lease of 0 is renewed. */
final class Locks {
    private final RedissonClient client;

    Locks(String server, double watchdog) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.setThreads(2);
        config.setNettyThreads(2);
        config.setLockWatchdogTimeout(millis(watchdog));
        config.useSingleServer()
                .setAddress(server)
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(4)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(2);
        client = Redisson.create(config);
    }

    /** What was acquired, and how to give it back. */
    static final class Hold {
        final long fence;
        private final BooleanSupplier giveBack;

        Hold(long fence, BooleanSupplier giveBack) {
            this.fence = fence;
            this.giveBack = giveBack;
        }

        /** False if Redisson says that it isn't held any more. */
        boolean release() {
            try {
                return giveBack.getAsBoolean();
            } catch (IllegalMonitorStateException refusal) {
                return false;
            }
        }
    }

    /** A hold, or null after that wait. */
    Hold acquire(String name, String kind, double wait, double lease) throws Exception {
        if (kind.equals("permits")) {
            return permit(name, wait, lease);
        }
        if (kind.equals("counted")) {
            return counted(name, wait);
        }
        RLock lock = lock(name, kind);
        if (kind.equals("fenced") && lease > 0) {
            return fenced(lock, wait, lease);
        }
        boolean held =
                lease > 0
                        ? lock.tryLock(millis(wait), millis(lease), TimeUnit.MILLISECONDS)
                        : lock.tryLock(millis(wait), TimeUnit.MILLISECONDS);
        return held ? held(lock, 0) : null;
    }

    private static Hold held(RLock lock, long fence) {
        return new Hold(
                fence,
                () -> {
                    lock.unlock();
                    return true;
                });
    }

    private Hold permit(String name, double wait, double lease) throws InterruptedException {
        RPermitExpirableSemaphore permits = client.getPermitExpirableSemaphore(name);
        permits.trySetPermits(1);
        String id = permits.tryAcquire(millis(wait), millis(lease), TimeUnit.MILLISECONDS);
        return id == null ? null : new Hold(0, () -> permits.tryRelease(id));
    }

    /** A permit that is nobody's, and has no lease. */
    private Hold counted(String name, double wait) throws InterruptedException {
        RSemaphore permits = client.getSemaphore(name);
        permits.trySetPermits(1);
        if (!permits.tryAcquire(millis(wait), TimeUnit.MILLISECONDS)) {
            return null;
        }
        return new Hold(
                0,
                () -> {
                    permits.release();
                    return true;
                });
    }

    /** By reflection, because old versions don't have it. */
    private static Hold fenced(RLock lock, double wait, double lease) throws Exception {
        Long token =
                (Long)
                        Class.forName("org.redisson.api.RFencedLock")
                                .getMethod(
                                        "tryLockAndGetToken", long.class, long.class, TimeUnit.class)
                                .invoke(lock, millis(wait), millis(lease), TimeUnit.MILLISECONDS);
        return token == null ? null : held(lock, token);
    }

    private RLock lock(String name, String kind) throws Exception {
        switch (kind) {
            case "lock":
                return client.getLock(name);
            case "fair":
                return client.getFairLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            case "fenced":
                return (RLock)
                        RedissonClient.class
                                .getMethod("getFencedLock", String.class)
                                .invoke(client, name);
            default:
                throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    /** Try to release what somebody else holds: in which words it was refused. */
    String steal(String name, String kind) throws Exception {
        if (kind.equals("permits")) {
            boolean released =
                    client.getPermitExpirableSemaphore(name)
                            .tryRelease("00112233445566778899aabbccddeeff");
            return released ? "" : "no such permit";
        }
        try {
            lock(name, kind).unlock();
        } catch (IllegalMonitorStateException refusal) {
            return refusal.getMessage();
        }
        return "";
    }

    /** What a script answers, as text. */
    String script(String text, List<Object> keys, Object... values) {
        return client.getScript()
                .eval(RScript.Mode.READ_WRITE, text, RScript.ReturnType.VALUE, keys, values);
    }

    void close() {
        client.shutdown(0, 2, TimeUnit.SECONDS);
    }

    static long millis(double seconds) {
        return Math.round(seconds * 1000);
    }
}
