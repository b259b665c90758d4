"""Many requests at a time, for `map` of both clients; what is common to both is in `scheduler`."""
