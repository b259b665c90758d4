"""Apps in place of the network: engines that call an ASGI or a WSGI app."""
