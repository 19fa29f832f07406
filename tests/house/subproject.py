#!/usr/bin/env python3
"""A project with Weir as a Meson subproject builds and runs programs with dependency('weir'), dependency('weir-policy')
and dependency('weir-redis'), against the shared and the static libraries. The build includes neither the server nor the
tests.

    subproject.py FOLDER

FOLDER keeps the project between runs, so that only changed files are compiled again."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROJECT = """
project('user', 'c', default_options: ['optimization=0'])

foreach name : ['weir', 'weir-policy', 'weir-redis']
  foreach linking, is_static : {'shared': false, 'static': true}
    executable(name + '-' + linking, name + '.c', dependencies: dependency(name, static: is_static))
  endforeach
endforeach
executable('plain', 'weir.c', dependencies: dependency('weir'))
"""

PROGRAMS = {
    "weir": """
#include <stdio.h>
#include <weir/weir.h>

int main(void)
{
	static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE];
	struct weir_limiter *limiter;

	if (weir_limiter_init_text(memory, sizeof(memory), "3/hour", &limiter, NULL) != WEIR_OK)
		return 1;
	printf("%llu\\n", (unsigned long long)weir_limiter_take(limiter, weir_clock_now(), 1).remaining);
	return 0;
}
""",
    "weir-policy": """
#include <stdio.h>
#include <string.h>
#include <weir/policy.h>

int main(void)
{
	static const char text[] = "limits:\\n  - name: a\\n    limit: 1/hour\\n  - name: b\\n    limit: 2/hour\\n";
	struct weir_policy *policy;

	if (weir_policy_read(text, strlen(text), NULL, NULL, NULL, &policy) != WEIR_OK)
		return 1;
	printf("%u\\n", weir_policy_limits(policy));
	weir_policy_free(policy);
	return 0;
}
""",
    "weir-redis": """
#include <stdio.h>
#include <weir/redis.h>

int main(void)
{
	struct weir_redis_status status;
	struct weir_redis *redis;

	if (weir_redis_new("redis+unix:///nobody/listens/here", &redis, NULL) != WEIR_OK)
		return 1;
	weir_redis_status(redis, &status);
	printf("%u\\n", status.connections);
	weir_redis_free(redis);
	return 0;
}
""",
}

EXPECTED = {"weir": "2\n", "weir-policy": "2\n", "weir-redis": "0\n"}


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout[-4000:]}")
    return done.stdout


def write(path, text):
    """Writes the file only if its text changed, to keep its timestamp."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main(folder):
    (folder / "subprojects").mkdir(parents=True, exist_ok=True)
    link = folder / "subprojects" / "weir"
    if link.is_symlink():
        link.unlink()
    link.symlink_to(ROOT)
    write(folder / "meson.build", PROJECT)
    for name, text in PROGRAMS.items():
        write(folder / f"{name}.c", text)
    build = folder / "build"
    if not (build / "build.ninja").exists():
        run("meson", "setup", build, folder)
    run("ninja", "-C", build, "-j", "2")
    for name, expected in EXPECTED.items():
        for linking in ("shared", "static"):
            answer = run(build / f"{name}-{linking}")
            if answer != expected:
                sys.exit(f"{name}, {linking}: printed {answer!r}, not {expected!r}")
    if run(build / "plain") != EXPECTED["weir"]:
        sys.exit("dependency('weir') gives a library that does not work")
    if (build / "subprojects/weir/weir").exists() or (build / "subprojects/weir/tests").exists():
        sys.exit("the server or the tests were built for a project that uses the library")
    print("subproject: programs build and run with Weir as a subproject")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
