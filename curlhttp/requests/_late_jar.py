"""A place for a cookie jar, which is made when somebody asks: http.cookiejar loads slowly."""

from __future__ import annotations

from typing import Any

__all__ = ["JarOnDemand"]


class JarOnDemand:
    """Make a jar when one is asked for: few programs have cookies, and a jar is not cheap."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        from curlhttp.requests.cookies import RequestsCookieJar

        return instance.__dict__.setdefault(self._name, RequestsCookieJar())
