#!/usr/bin/env python3
"""The pages that are generated from the settings: the man page is valid, docs/reference/settings.md is current, and
--help is complete.

    settings_pages_test.py WEIR MAN_PAGE MARKDOWN"""
# Covers: src/cli/serve_help.c

import os
import re
import subprocess
import sys
import tempfile

WEIR, MAN_PAGE, MARKDOWN = sys.argv[1:4]
TIMEOUT_S = 60


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                          env=dict(os.environ, LC_ALL="C.UTF-8", **environment))


def page(flag):
    done = run(WEIR, "serve", flag)
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def man_takes_the_page_without_a_warning():
    done = run("man", "--warnings=w", "-E", "UTF-8", "-l", MAN_PAGE, MANWIDTH="80", MANROFFSEQ="")
    assert done.returncode == 0 and done.stderr == "", done
    for words in ("weir-serve - rate limiter for", "--listen WHERE", "password_file: /run/secrets/weir", "EXIT STATUS"):
        assert words in done.stdout, (words, done.stdout)


def man_would_tell_of_a_fault():
    with tempfile.NamedTemporaryFile("w", suffix=".1") as broken:
        broken.write(read(MAN_PAGE) + ".NOSUCHMACRO\n")
        broken.flush()
        done = run("man", "--warnings=w", "-E", "UTF-8", "-l", broken.name, MANWIDTH="80", MANROFFSEQ="")
    assert "NOSUCHMACRO" in done.stderr, done


def the_man_page_is_that_of_the_binary():
    assert read(MAN_PAGE) == page("--help-man")


def the_page_in_docs_is_not_stale():
    assert read(MARKDOWN) == page("--help-markdown"), "docs/reference/settings.md is stale: ./dev docs makes it anew"


def pages_name_every_setting():
    names = re.findall(r"^\| `(\w+)` \|", page("--help-markdown"), re.MULTILINE)
    assert len(names) > 5 and "users" in names, names
    for name in names:
        if name != "users":
            flag = name.replace("_", "-")
            assert f"  --{flag} " in page("--help"), name
            assert "\\fB\\-\\-" + flag.replace("-", "\\-") + "\\fR" in page("--help-man"), name


def help_fits_a_terminal():
    for line in page("--help").splitlines():
        assert len(line) <= 88 and line == line.rstrip(), line


def the_sample_of_the_page_is_right():
    """Its password_file does not exist, and that is the only error."""
    sample = re.search(r"```yaml\n(.*?)```", page("--help-markdown"), re.DOTALL).group(1)
    with tempfile.TemporaryDirectory(prefix="weir-settings-") as folder:
        config, secret = os.path.join(folder, "weir.yaml"), os.path.join(folder, "none")
        with open(config, "w", encoding="utf-8") as file:
            file.write(sample.replace("/run/secrets/weir", secret))
        done = run(WEIR, "serve", "--config", config)
    assert done.returncode == 2 and done.stderr == (
        f"{config}:7:20: users.default.password_file: No such file or directory\n"), done


TESTS = [man_takes_the_page_without_a_warning, man_would_tell_of_a_fault, the_man_page_is_that_of_the_binary,
         the_page_in_docs_is_not_stale, pages_name_every_setting, help_fits_a_terminal, the_sample_of_the_page_is_right]


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}")
        except (AssertionError, OSError, subprocess.SubprocessError) as fault:
            failed += 1
            print(f"not ok {number} - {test.__name__}")
            print(f"# {type(fault).__name__}: {fault}".replace("\n", "\n# "))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
