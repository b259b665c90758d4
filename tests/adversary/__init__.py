"""Shared by the fuzzer and the storm: a server process, findings, a watchdog, leak checks."""
