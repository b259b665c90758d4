"""Programs from PyPI that are made for requests, run on requests and on curlhttp."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.both")
