"""The tests of curlhttp: loopback only, no mocks."""
