#!/usr/bin/env python3
"""The Python package: `pip install` works in a virtual environment and includes the libraries, the package is marked as
typed, and mypy reports nothing.

    python_package_test.py BUILD FOLDER

BUILD is Meson's build directory with the libraries. FOLDER is for the virtual environment and is replaced."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "bindings" / "python"

PROGRAM = """
import weir
print(weir._PATH)
with weir.Table(keys=10) as table, weir.Store(table) as store:
    guard = weir.Guard(store, text="limits:\\n  - name: a\\n    limit: 1/hour\\n")
    print(bool(guard.check({})), bool(guard.check({})))
print(weir.Store("redis+unix:///nobody/listens/here", on_failure="closed").add_limit("a", "1/s"))
"""

# A program with type annotations that mypy must accept.
USER = """
import asyncio
import weir

limiter = weir.Limiter("10/s burst 3")
allowed: bool = limiter.allow()
verdict: weir.Verdict = limiter.take(cost=2)
seconds: float = verdict.retry_seconds
reservation: weir.Reservation = limiter.reserve(timeout=1.5)
given: int = reservation.cancel()
queue: weir.Queue[str] = weir.Queue("5/s leaky queue 10")
waited: weir.Waited = queue.push("item")
item: str = queue.pop(timeout=1)


async def call(table: weir.Table) -> bool:
    limit = table.add_limit("a", "10/s")
    return bool(await limit.acquire("alice", timeout=2)) and bool(await limiter.acquire())


with weir.Table(keys=10) as table:
    asyncio.run(call(table))
"""


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout[-4000:]}"
    return done.stdout


def python_with_setuptools():
    """This Python, or Debian's, for which ./dev installs setuptools."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import ensurepip, setuptools, wheel"], capture_output=True, check=False).returncode == 0:
            return python
    raise AssertionError("no Python with setuptools, wheel and venv: ./dev test installs Debian's")


def installs(build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    # Build a copy, because setuptools writes into the source folder.
    shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    run(python_with_setuptools(), "-m", "venv", "--system-site-packages", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "WEIR_LIBRARY")}
    run(python, "-m", "pip", "install", "--no-build-isolation", "--no-index", "--no-deps", folder / "source",
        env={**clean, "WEIR_BUILD": str(build)})
    path, decisions, limit = run(python, "-c", PROGRAM, env=clean, cwd=folder).splitlines()
    assert Path(path).parent.is_relative_to(folder / "venv") and Path(path).name == "libweir.so.0", path
    assert (decisions, limit) == ("True False", "<weir.StoreLimit 'a': 1/s>"), (decisions, limit)
    assert (Path(path).parent / "py.typed").exists(), "py.typed was not installed"


def versions_agree(*_):
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert re.search(rf"version: '{re.escape(project)}'", (ROOT / "meson.build").read_text(encoding="utf-8")), project


def types_are_strict(_, folder):
    if shutil.which("mypy") is None:
        return "mypy is not installed"
    (folder / "user.py").write_text(USER, encoding="utf-8")
    mypy = ("mypy", "--strict", "--cache-dir", folder / "mypy")
    run(*mypy, SOURCE / "weir")
    run(*mypy, folder / "user.py", env={**os.environ, "MYPYPATH": str(SOURCE)})
    return None


def main(build, folder):
    failed, tests = 0, [versions_agree, installs, types_are_strict]
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        try:
            skipped = test(build.resolve(), folder.resolve())
            print(f"ok {number} - {test.__name__}" + (f" # SKIP {skipped}" if skipped else ""))
        except AssertionError as fault:
            failed += 1
            print("".join(f"# {line}\n" for line in str(fault).splitlines()) + f"not ok {number} - {test.__name__}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
