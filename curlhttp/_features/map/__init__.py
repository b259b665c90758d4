"""The method map of both clients: many concurrent requests. Both use `scheduler`."""
