package org.redisson.misc;

import java.net.InetSocketAddress;
import java.net.URI;

/**
 * In the place of a class of Redisson 3.8.1 that breaks into java.net.URI, so that names of hosts may
 * have an underscore. Java lets nobody in there since version 12, and nothing of that version would
 * run. Our hosts are numbers. Later versions have no such class.
 */
public final class URIBuilder {
    private URIBuilder() {}

    public static URI create(String text) {
        return URI.create(text);
    }

    public static void patchUriObject() {}

    public static boolean compare(InetSocketAddress place, URI uri) {
        String host = place.getAddress().getHostAddress();
        return host.equals(uri.getHost()) && place.getPort() == uri.getPort();
    }
}
