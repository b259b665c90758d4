"""The version of requests whose API this package has, under requests' names."""

__title__ = "requests"
__description__ = "requests' interface on libcurl, by curlhttp."
__url__ = "https://pypi.org/project/curlhttp/"
__version__ = "2.34.2"
__build__ = 0x023402
__author__ = "The curlhttp authors"
__author_email__ = ""
__license__ = "MIT"
__copyright__ = "Copyright the curlhttp authors"
__cake__ = "\u2728 \U0001f370 \u2728"
