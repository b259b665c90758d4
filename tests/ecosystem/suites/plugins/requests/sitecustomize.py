"""Python imports this at its start: `import requests` means curlhttp's from then on."""

import curlhttp

curlhttp.alias_requests()
