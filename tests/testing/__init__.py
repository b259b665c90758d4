"""The mock of curlhttp.testing, and its pytest plugin."""
