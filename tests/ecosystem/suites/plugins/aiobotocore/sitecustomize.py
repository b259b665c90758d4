"""Python imports this at its start: aiobotocore sends through the port, and not through aiohttp."""

from importlib import import_module

from aiobotocore_on_curlhttp import CurlSession

for _name in ("args", "config", "endpoint", "httpsession", "session"):
    _module = import_module(f"aiobotocore.{_name}")
    for _class in ("AIOHTTPSession", "DEFAULT_HTTP_SESSION_CLS"):
        if hasattr(_module, _class):
            setattr(_module, _class, CurlSession)
