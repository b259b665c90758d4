"""alias_requests(): `import requests` means curlhttp.requests, each time in a fresh process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

HIDE = """
import sys

class Hider:
    def find_spec(self, name, path=None, target=None):
        if name in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hider())
"""

# A stand-in for an installed requests, so that the tests need none: folders come first on the path.
INSTALLED = {
    "requests/__init__.py": "from requests import adapters\nreal = True\n",
    "requests/adapters.py": "real = True\nclass HTTPAdapter: pass\n",
    "uses_requests.py": "import requests\nfrom requests.adapters import HTTPAdapter\n",
}


def run(program: str, folder: Path, *, hide: tuple[str, ...] = ()) -> str:
    """Run a program in a fresh interpreter that finds modules in a folder first."""
    code = (HIDE.format(names=hide) if hide else "") + textwrap.dedent(program)
    code = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]\n" + code
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a folder with a package called requests."""
    for name, text in INSTALLED.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


NAMES = (
    "adapters api auth certs compat cookies exceptions help hooks models packages sessions "
    "status_codes structures utils __version__ _internal_utils _types"
)

EVERY_NAME = f"""
    import importlib, importlib.util, pickle, sys, threading
    import curlhttp
    curlhttp.alias_requests()
    assert "curlhttp.requests" in sys.modules
    curlhttp.alias_requests()

    import requests, requests.adapters
    from requests.auth import HTTPBasicAuth
    ours = sys.modules["curlhttp.requests"]
    assert requests is ours is curlhttp.requests, requests
    assert not hasattr(requests, "real")
    assert importlib.import_module("requests") is ours
    assert importlib.util.find_spec("requests").name == "curlhttp.requests"
    for name in {NAMES!r}.split():
        spec = importlib.util.find_spec("requests." + name)
        assert spec is not None, name
        module = importlib.import_module("requests." + name)
        assert module is importlib.import_module("curlhttp.requests." + name), name
        assert module is sys.modules["requests." + name], name
        assert getattr(requests, name) == (module if name != "__version__" else module.__version__)
        assert module.__spec__.name == "curlhttp.requests." + name
    assert HTTPBasicAuth is ours.auth.HTTPBasicAuth

    for name in ("nothing", "adapters.nothing", "packages.nothing"):
        assert importlib.util.find_spec("requests.nothing") is None
        try:
            importlib.import_module("requests." + name)
        except ModuleNotFoundError as error:
            assert str(error).startswith(f"No module named 'requests.{{name}}'"), error
        else:
            raise AssertionError(name)

    from requests.packages.urllib3.util.retry import Retry
    from requests.packages.urllib3.exceptions import InsecureRequestWarning
    import requests.packages.urllib3 as urllib3
    import requests.packages.urllib3.util.timeout
    assert Retry is urllib3.Retry is ours.packages.urllib3.util.retry.Retry
    assert InsecureRequestWarning is urllib3.exceptions.InsecureRequestWarning
    urllib3.disable_warnings(InsecureRequestWarning)
    assert requests.packages.urllib3 is urllib3 is requests.urllib3
    assert sys.modules["requests.packages.urllib3.util.timeout"] is urllib3.util.timeout
    import requests.packages.idna.core
    assert requests.packages.idna.core is sys.modules["idna.core"]

    # A pickle that names the classes as requests does.
    assert pickle.loads(b"crequests.exceptions\\nReadTimeout\\n.") is ours.ReadTimeout
    assert pickle.loads(pickle.dumps(requests.Session())).max_redirects == 30
    print(urllib3.__name__)
"""


def test_every_module_of_requests_is_ours(installed: Path) -> None:
    run(EVERY_NAME, installed)


def test_it_works_without_requests_installed(tmp_path: Path) -> None:
    assert run(EVERY_NAME, tmp_path, hide=("requests",)) == "urllib3\n"


def test_it_refuses_if_requests_is_imported(installed: Path) -> None:
    found = run(
        """
        import uses_requests, sys
        import curlhttp
        real = sys.modules["requests"]
        for _ in range(2):
            try:
                curlhttp.alias_requests()
            except RuntimeError as error:
                print(error)
        assert sys.modules["requests"] is real
        import requests.adapters
        assert requests.real and requests.adapters.real
        """,
        installed,
    )
    lines = found.splitlines()
    assert len(lines) == 2
    assert "requests was imported already" in lines[0].replace("'", "")
    assert "before" in lines[0]


def test_it_refuses_if_only_a_module_of_requests_is_imported(installed: Path) -> None:
    found = run(
        """
        import sys, requests
        del sys.modules["requests"]
        import curlhttp
        try:
            curlhttp.alias_requests()
        except RuntimeError as error:
            print(error)
        """,
        installed,
    )
    assert "'requests.adapters'" in found


def test_packages_with_a_like_name_do_not_count(installed: Path) -> None:
    (installed / "requests_mock.py").write_text("")
    run(
        """
        import sys, requests_mock
        sys.modules["requests"] = None  # blocked, as tests do
        import curlhttp
        curlhttp.alias_requests()
        import uses_requests
        assert uses_requests.HTTPAdapter is curlhttp.requests.adapters.HTTPAdapter
        """,
        installed,
    )


def test_threads_that_import_at_once_get_the_same_modules(installed: Path) -> None:
    run(
        f"""
        import importlib, sys, threading
        import curlhttp
        names = {NAMES!r}.split() + ["packages.urllib3.util.retry", "packages.idna"]
        found, gate = [], threading.Barrier(8)

        def load(number):
            gate.wait()
            curlhttp.alias_requests()
            for name in names if number % 2 else reversed(names):
                prefix = "requests." if number % 3 else "curlhttp.requests."
                found.append((name, id(importlib.import_module(prefix + name))))

        threads = [threading.Thread(target=load, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(found) == 8 * len(names), len(found)
        assert len(set(found)) == len(names)
        """,
        installed,
    )


def test_nothing_changes_without_a_call(installed: Path) -> None:
    run(
        """
        import curlhttp, curlhttp.requests
        from curlhttp.requests.packages.urllib3.util.retry import Retry
        import requests, requests.adapters
        assert requests.real and requests.adapters.real
        """,
        installed,
    )
