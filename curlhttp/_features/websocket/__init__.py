"""WebSockets for both clients (RFC 6455), on connections of the engines."""
