import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** Does with Curator's own mutex what it is told, a word a line, and answers each with a line. */
public class Mutex {
    public static void main(String[] args) throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(args[0], 10000, 10000, new RetryOneTime(100));
        client.start();
        InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
        BufferedReader words = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String word = words.readLine(); word != null; word = words.readLine()) {
            if (word.equals("release")) {
                mutex.release();
                System.out.println("released");
            } else {
                long millis = word.equals("try") ? 200 : 20000;
                System.out.println(mutex.acquire(millis, TimeUnit.MILLISECONDS) ? "held" : "busy");
            }
        }
        client.close();
    }
}
