"""Write what an installation of dist/*.whl consists of: python .ci/sbom.py FILE.

It installs the wheel in a new virtual environment, as a user does, and has cyclonedx-bom list the
packages there. pip itself, and the environment's paths, are not in the list.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path


def write(target: Path) -> None:
    """Write a CycloneDX document; without times and random numbers, so that it can be compared."""
    (wheel,) = Path("dist").glob("*.whl")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False)
        bin_ = "Scripts" if sys.platform == "win32" else "bin"
        python = str(Path(folder, bin_, "python"))
        pip = [sys.executable, "-m", "pip", "--python", python]
        subprocess.run([*pip, "install", "--quiet", str(wheel)], check=True)
        listed = ["cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON"]
        subprocess.run([sys.executable, "-m", *listed, "-o", str(target), python], check=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
