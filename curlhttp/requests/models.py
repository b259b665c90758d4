"""requests.models: requests as users write them, as they are sent, and responses."""

from __future__ import annotations

from curlhttp.requests._elsewhere import Names, names_of
from curlhttp.requests._prepared import (
    PreparedRequest,
    Request,
    RequestEncodingMixin,
    RequestHooksMixin,
)
from curlhttp.requests._response import (
    CONTENT_CHUNK_SIZE,
    DEFAULT_REDIRECT_LIMIT,
    ITER_CHUNK_SIZE,
    REDIRECT_STATI,
    Response,
)

__getattr__: Names = names_of(
    __name__,
    {
        "auth": "HTTPBasicAuth",
        "compat": (
            "basestring builtin_str chardet cookielib json complexjson=json urlencode urlsplit "
            "urlunparse"
        ),
        "cookies": "_copy_cookie_jar cookiejar_from_dict get_cookie_header",
        "exceptions": (
            "ChunkedEncodingError ConnectionError ContentDecodingError HTTPError InvalidJSONError "
            "InvalidURL MissingSchema StreamConsumedError RequestsJSONDecodeError=JSONDecodeError "
            "JSONDecodeError RequestsSSLError=SSLError"
        ),
        "hooks": "default_hooks",
        "packages:urllib3.exceptions": (
            "DecodeError LocationParseError ProtocolError ReadTimeoutError SSLError"
        ),
        "packages:urllib3.fields": "RequestField",
        "packages:urllib3.filepost": "encode_multipart_formdata",
        "packages:urllib3.util": "parse_url",
        "_internal_utils": "to_native_string unicode_is_ascii",
        "status_codes": "codes",
        "structures": "CaseInsensitiveDict",
        "utils": (
            "check_header_validity get_auth_from_url guess_filename guess_json_utf iter_slices "
            "parse_header_links requote_uri stream_decode_response_unicode super_len "
            "to_key_val_list"
        ),
    },
)

__all__ = [
    "CONTENT_CHUNK_SIZE", "DEFAULT_REDIRECT_LIMIT", "ITER_CHUNK_SIZE", "REDIRECT_STATI",
    "PreparedRequest", "Request", "RequestEncodingMixin", "RequestHooksMixin", "Response",
]  # fmt: skip
