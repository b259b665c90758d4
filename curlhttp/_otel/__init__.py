"""What curlhttp.otel is made of: spans and metrics of attempts, and engines that have them."""
