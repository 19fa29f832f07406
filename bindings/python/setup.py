"""Adds libweir, libweir-policy and libweir-redis to the package, so that `pip install ./bindings/python` is enough.

They come from the build directory in the environment variable WEIR_BUILD, such as build. Without it, Meson compiles them from the
source tree around this folder. Without a source tree, the package has no libraries, and uses the installed ones."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

TREE = Path(__file__).resolve().parents[2]
LIBRARIES = ["libweir.so.0", "libweir-policy.so.0", "libweir-redis.so.0"]


class BuildWithLibraries(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            return
        named = os.environ.get("WEIR_BUILD")
        if named:
            self.copy_libraries(Path(named))
        elif (TREE / "src" / "meson.build").is_file():
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(["meson", "setup", "--buildtype=release", "-Duplot=none", folder, str(TREE)], check=True)
                targets = [f"{name.partition('.')[0][3:]}:shared_library" for name in LIBRARIES]
                subprocess.run(["meson", "compile", "-C", folder, *targets], check=True)
                self.copy_libraries(Path(folder))

    def copy_libraries(self, build):
        for name in LIBRARIES:
            source = build / "src" / name
            if not source.exists():
                raise SystemExit(f"{source} not found: WEIR_BUILD must be a directory that Meson has built this tree in")
            shutil.copy(source, Path(self.build_lib) / "weir" / name)


class WithLibraries(Distribution):
    """A platform wheel, because it contains compiled libraries."""

    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildWithLibraries}, distclass=WithLibraries)
