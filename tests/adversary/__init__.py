"""What the fuzzer and the storm share: a child for the server, findings, a watchdog, leftovers."""
