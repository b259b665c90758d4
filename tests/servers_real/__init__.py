"""curlhttp against servers and proxies of other projects; `.ci/real-servers` runs them."""
