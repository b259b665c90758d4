"""Many concurrent requests, for `map` of both clients; both use `scheduler`."""
