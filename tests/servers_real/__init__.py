"""curlhttp against servers and proxies that nobody here wrote; `.ci/real-servers` runs them."""
