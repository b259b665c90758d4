"""Apps instead of the network: engines that call an ASGI or a WSGI app."""
