#!/usr/bin/env python3
"""`meson install` installs all that a program needs. Programs build by pkg-config, against the shared and the static
libraries, with limits in the program, with limits in Redis, and with a policy. libweir alone builds and installs where
the server's libraries are missing.

    install.py BUILD_DIR"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
#include <stdio.h>
#include <weir/weir.h>

int main(void)
{
	static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE];
	struct weir_limiter *limiter;
	bool first, second;

	if (weir_limiter_init_text(memory, sizeof(memory), "1/hour", &limiter, NULL) != WEIR_OK)
		return 1;
	first = weir_limiter_allow(limiter, weir_clock_now(), 1);
	second = weir_limiter_allow(limiter, weir_clock_now(), 1);
	printf("%d %d\\n", first, second);
	return 0;
}
"""

IN_REDIS = """
#include <stdio.h>
#include <weir/redis.h>

int main(void)
{
	const struct weir_redis_limit *limit;
	struct weir_redis *redis;
	struct weir_verdict verdict;

	if (weir_redis_new("redis+unix:///nobody/listens/here", &redis, NULL) != WEIR_OK ||
	    weir_redis_add_limit_text(redis, "a", "1/hour", &limit, NULL) != WEIR_OK)
		return 1;
	printf("%s\\n", weir_strerror(weir_redis_take(redis, limit, "k", 1, 1, &verdict)));
	weir_redis_free(redis);
	return 0;
}
"""


IN_STORE = """
#include <stdio.h>
#include <string.h>
#include <weir/guard.h>

int main(void)
{
	static const char text[] = "limits:\\n  - name: a\\n    limit: 1/hour\\n";
	const struct weir_store_options options = { .on_failure = WEIR_STORE_FAILURE_SHARE };
	struct weir_guard_answer first, second;
	struct weir_policy *policy;
	struct weir_store *store;
	struct weir_guard *guard;

	if (weir_store_redis("redis+unix:///nobody/listens/here", &options, &store, NULL) != WEIR_OK ||
	    weir_policy_read(text, strlen(text), NULL, NULL, NULL, &policy) != WEIR_OK ||
	    weir_guard_new_on(store, policy, &guard, NULL) != WEIR_OK ||
	    weir_guard_check(guard, NULL, 0, 1, 0, &first, NULL) != WEIR_OK ||
	    weir_guard_check(guard, NULL, 0, 1, 0, &second, NULL) != WEIR_OK)
		return 1;
	printf("%d %d\\n", first.verdict.allowed, second.verdict.allowed);
	weir_guard_free(guard);
	weir_store_free(store);
	return 0;
}
"""


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def option(build, name):
    options = json.loads(run(["meson", "introspect", build, "--buildoptions"]))
    return next(one["value"] for one in options if one["name"] == name)


def check_charts(program, build):
    """The installed page has charts, unless the build was configured without uPlot. The test looks for the
    author's name in uPlot's licence."""
    folder = option(build, "uplot") or Path(__file__).resolve().parents[2] / "build/page/node_modules/uplot"
    if Path(folder).is_dir() and b"Leon Sorokin" not in program.read_bytes():
        sys.exit("the page of the program that was installed has no charts")


def check_library_alone(root):
    """-Dserver=false builds and installs libweir although pkg-config finds none of the server's libraries."""
    source = Path(__file__).resolve().parents[2]
    hidden = os.environ | {"PKG_CONFIG_LIBDIR": "/nonexistent", "PKG_CONFIG_PATH": ""}
    build, place = root / "library", root / "installed"
    told = run(["meson", "setup", build, source, "-Dserver=false", "-Dllhttp=/nonexistent", "--buildtype=debug",
                "--prefix=/usr"], env=hidden)
    for name in ("yaml", "ssl", "crypto", "curl", "jansson"):
        if name in told:
            sys.exit(f"-Dserver=false looks for {name}:\n{told}")
    run(["meson", "compile", "-C", build], env=hidden)
    run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", place], env=hidden)
    needed = run(["readelf", "-d", next(place.rglob("libweir.so"))])
    if re.findall(r"\(NEEDED\).*\[(.*?)\]", needed) != ["libc.so.6"]:
        sys.exit(f"libweir needs more than libc:\n{needed}")
    if any(place.rglob("bin/weir")) or any(place.rglob("libweir-*")) or any(place.rglob("guard.h")):
        sys.exit("-Dserver=false installs more than libweir")
    pkgconfig = next(place.rglob("weir.pc")).parent
    env = os.environ | {"PKG_CONFIG_LIBDIR": str(pkgconfig), "PKG_CONFIG_SYSROOT_DIR": str(place)}
    flags = run(["pkg-config", "--cflags", "--libs", "weir"], env=env).split()
    run(["cc", "-Wall", "-Werror", root / "program.c", "-o", root / "alone", *flags])
    answer = run([root / "alone"], env=env | {"LD_LIBRARY_PATH": str(pkgconfig.parent)})
    if answer != "1 0\n":
        sys.exit(f"a program with libweir alone answered {answer!r}")


# name, source, packages of pkg-config, beginning of the output
PROGRAMS = [
    ("program", PROGRAM, ["weir"], "1 0\n"),
    ("in_redis", IN_REDIS, ["weir-redis"], "the store cannot be reached"),
    ("in_store", IN_STORE, ["weir-policy", "weir-redis"], "1 0\n"),
]


def check(root, pkgconfig, name, packages, is_static, expected):
    """Static programs also link libc, libyaml and OpenSSL statically."""
    env = os.environ | {"PKG_CONFIG_PATH": str(pkgconfig), "PKG_CONFIG_SYSROOT_DIR": str(root)}
    flags = run(["pkg-config", "--cflags", "--libs", *(["--static"] if is_static else []), *packages], env=env).split()
    run(["cc", "-Wall", "-Werror", root / f"{name}.c", "-o", root / name, *(["-static"] if is_static else []), *flags])
    answer = run([root / name], env=env | {"LD_LIBRARY_PATH": "" if is_static else str(pkgconfig.parent)})
    if not answer.startswith(expected):
        sys.exit(f"{name}, {'static' if is_static else 'shared'}: printed {answer!r}, not {expected!r}")


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", folder])
        if not any(root.rglob("man1/weir-serve.1")):
            sys.exit("the man page weir-serve.1 was not installed")
        for name in ("policy.schema.json", "prometheus.yml", "weir-alerts.yml", "grafana-dashboard.json"):
            if not any(root.rglob(f"share/weir/{name}")):
                sys.exit(f"share/weir/{name} was not installed")
        check_charts(next(root.rglob("bin/weir")), build)
        pkgconfig = next(root.rglob("weir.pc")).parent
        for name, text, packages, answer in PROGRAMS:
            (root / f"{name}.c").write_text(text, encoding="utf-8")
            for is_static in (False, True):
                check(root, pkgconfig, name, packages, is_static, answer)
        check_library_alone(root)
    print("install: a program builds and runs with what was installed")


if __name__ == "__main__":
    main(sys.argv[1])
