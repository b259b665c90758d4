"""One module for each package: every public function in it is a check, given its own server.

Modules have the name of what they import. They are imported by `tests.ecosystem.run` only, after it
has said what `import requests` means.
"""
