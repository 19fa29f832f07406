"""Puts libweir, libweir-policy and libweir-redis into the package, so that `pip install ./bindings/python` is all there is to do.

They come from the build directory that the environment variable WEIR_BUILD names, such as build. Without it they are compiled by
Meson from the source tree that this folder is in. Without either, the package has no libraries, and uses the installed ones."""

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
    """For one platform, since it contains what was compiled."""

    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildWithLibraries}, distclass=WithLibraries)
