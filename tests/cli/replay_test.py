#!/usr/bin/env python3
"""weir replay: reports, comparisons, conditions, inputs of all kinds, and hostile ones.

    replay_test.py WEIR EXAMPLES"""
# Covers: src/cli/log_options.c, src/cli/output.c, src/cli/replay.c, src/cli/replay_csv.c, src/cli/replay_json.c, src/cli/replay_report.c, src/os/byte_stream.c,
# src/replay/log_input.c, src/replay/log_reader.c, src/replay/replay.c, src/replay/replay_changes.c, src/replay/replay_stats.c

import csv
import gzip
import io
import json
import os
import pty
import stat
import subprocess
import sys
import tempfile
import unicodedata
import unittest

try:
    import yaml
except ModuleNotFoundError:
    yaml = None

WEIR, EXAMPLES = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
PATIENCE_S = 120
LINE = '{ip} - - [18/Nov/2026:{time} +0000] "{method} {path} HTTP/1.1" {status} 5 "-" "agent"\n'
POLICY = "limits:\n  - name: per-ip\n    key: [ip]\n    limit: 2/min\n"
LOOSE = "limits:\n  - name: per-ip\n    key: [ip]\n    limit: 3/min\n"
OTHER = "limits:\n  - name: logins\n    key: [ip]\n    match: {path: /login}\n    limit: 1/min\n"


def line(ip="10.0.0.1", time="10:00:00", method="GET", path="/", status=200):
    return LINE.format(ip=ip, time=time, method=method, path=path, status=status)


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("policy.yaml", POLICY)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return name

    def run_weir(self, *words, given=b""):
        done = subprocess.run([WEIR, "replay", *words], input=given, capture_output=True, timeout=PATIENCE_S, check=False,
                              cwd=self.folder)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def replay(self, *words, given=b"", policy="policy.yaml"):
        return self.run_weir("--policy", policy, *words, given=given)

    def document(self, *words, given=b"", policy="policy.yaml", expected=0):
        code, out, err = self.replay("--json", *words, given=given, policy=policy)
        self.assertEqual(code, expected, err)
        return json.loads(out)

    def refused(self, *words, code, given=b""):
        found, out, err = self.run_weir(*words, given=given)
        self.assertEqual((found, out), (code, ""), err)
        return err

    # --- results

    def test_the_report(self):
        self.write("a.log", line() * 4 + line(ip="10.0.0.2", status=429) + "garbage\x1b[31m\n")
        code, out, err = self.replay("a.log")
        self.assertEqual((code, err), (0, ""))
        for part in ("a.log: combined, 6 lines, 1 of them bad",
                     "line 6: it does not have all fields of the format: garbage\\x1b[31m",
                     "from 2026-11-18T10:00:00Z to 2026-11-18T10:00:00Z",
                     "requests  5, denied 2 (40.00 %)", "clients   2, denied at least once 1 (50.00 %)",
                     "2 of 4           last at 2026-11-18T10:00:00Z  10.0.0.1", "per-ip  ip=10.0.0.1",
                     "denied by per-ip at 2026-11-18T10:00:00Z, line 3  10.0.0.1",
                     "1 requests had status 429", "The log has only the second of 5 requests",
                     "does not say how long requests took", "denied clients may retry"):
            self.assertIn(part, out)
        self.assertNotIn("\x1b", out)

    def test_the_document(self):
        self.write("a.log", line() * 5)
        found = self.document("a.log")
        # The i-th of five, from 0, comes at i/5 s. A token comes back after 30 s: the third request waits the longest.
        replay = found["replay"]
        self.assertEqual((replay["requests"], replay["denied"], replay["clients"], replay["denied_clients"]), (5, 3, 1, 1))
        limit = replay["limits"][0]
        self.assertEqual((limit["name"], limit["limit"], limit["denied"], limit["decided"], limit["denied_keys"]),
                         ("per-ip", "2/min", 3, 3, 1))
        self.assertEqual(limit["longest_wait_ns"], 30 * 10**9 - 4 * 10**8)
        self.assertEqual((limit["first_denied"], limit["last_denied"]),
                         ("2026-11-18T10:00:00.400000000Z", "2026-11-18T10:00:00.800000000Z"))
        self.assertEqual(limit["used_tenths"], [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 4])
        self.assertEqual(replay["longest_waits"][0]["line"], 3)
        self.assertEqual((replay["over_time"]["requests"], replay["over_time"]["denied"]), ([5], [3]))
        self.assertEqual(found["spread_over_their_second"], 5)

    def test_a_limit_without_key_shows_its_capacity(self):
        self.write("all.yaml", "limits:\n  - name: all\n    limit: 1/s burst 10\n")
        self.write("a.log", line() * 5 + line(time="10:00:10") * 5)
        limit = self.document("a.log", policy="all.yaml")["replay"]["limits"][0]
        # 10 requests; the capacity is 10, and 1 a second for 10.8 s.
        self.assertEqual(limit["capacity_used_hundredths_of_percent"], 10 * 10000 // (10 + 10))

    def test_a_limit_that_shapes_delays(self):
        self.write("shape.yaml", "limits:\n  - name: q\n    key: [ip]\n    limit: 1/s leaky queue 3\n")
        self.write("a.log", "time,ip\n" + "1795031433.0,10.0.0.1\n" * 5)
        found = self.document("a.log", policy="shape.yaml")["replay"]
        self.assertEqual((found["denied"], found["delayed"]), (2, 2))
        self.assertEqual(found["limits"][0]["longest_delay_ns"], 2 * 10**9)

    def test_a_limit_in_shadow_denies_nothing(self):
        self.write("shadow.yaml", POLICY + "    mode: shadow\n")
        self.write("a.log", line() * 5)
        found = self.document("a.log", policy="shadow.yaml")["replay"]
        self.assertEqual((found["denied"], found["limits"][0]["denied"], found["limits"][0]["is_shadow"]), (0, 3, True))

    def test_requests_that_no_limit_matches(self):
        self.write("deny.yaml", "unmatched: deny\n" + OTHER)
        self.write("a.log", line() * 2 + line(path="/login"))
        found = self.document("a.log", policy="deny.yaml")["replay"]
        self.assertEqual((found["denied"], found["unmatched"]), (2, 2))

    def test_requests_that_the_policy_cannot_decide(self):
        self.write("cost.yaml", "limits:\n  - name: c\n    limit: 5/s\n    cost: {attribute: n}\n")
        self.write("a.csv", "time,n\n1,1\n2,x\n")
        found = self.document("a.csv", policy="cost.yaml")["replay"]
        self.assertEqual((found["requests"], found["undecided"], found["denied"]), (2, 1, 0))
        self.assertIn("use a whole number", found["undecided_example"])

    def test_ipv6_clients_are_told_apart_by_their_network(self):
        self.write("a.log", line(ip="2001:db8::1") + line(ip="2001:db8::2") + line(ip="2001:db8:1::1"))
        self.assertEqual(self.document("a.log")["replay"]["clients"], 2)

    def test_csv_has_a_row_for_each_denied_request(self):
        self.write("a.log", line(path="/x?secret=1") * 3 + line(ip="=1+1", path="/\\x0a,\\x22"))
        code, _, err = self.replay("--csv", "out.csv", "a.log")
        self.assertEqual(code, 0, err)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("out.csv")).st_mode), 0o600)
        with open(self.path("out.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["line"], row["client"], row["path"], row["decision"], row["limit"]) for row in rows],
                         [("3", "10.0.0.1", "/x", "denied", "per-ip")])
        code, out, _ = self.replay("--csv", "-", "--all", "a.log")
        rows = list(csv.DictReader(io.StringIO(out, newline="")))
        self.assertEqual((code, [row["decision"] for row in rows]), (0, ["allowed", "allowed", "denied", "allowed"]))
        self.assertEqual((rows[3]["client"], rows[3]["path"]), ("'=1+1", '/\\x0a,"'))

    def test_two_policies_are_compared(self):
        self.write("old.yaml", LOOSE)
        self.write("a.log", line() * 4 + line(ip="10.0.0.2") * 3 + line(ip="10.0.0.3"))
        found = self.document("--compare", "old.yaml", "a.log")
        changes = found["changes"]
        self.assertEqual((found["replay"]["denied"], found["old"]["denied"]), (3, 1))
        self.assertEqual((changes["newly_denied"], changes["newly_allowed"], changes["denied_by_both"]), (2, 0, 1))
        self.assertEqual((changes["newly_denied_clients"], changes["newly_allowed_clients"]), (1, 0))
        self.assertEqual((changes["first_line"], changes["top_newly_denied"][0]["n"]), (3, 1))
        back = self.document("--compare", "policy.yaml", "a.log", policy="old.yaml")["changes"]
        self.assertEqual((back["newly_denied"], back["newly_allowed"], back["newly_allowed_clients"]), (0, 2, 1))
        code, out, _ = self.replay("--compare", "old.yaml", "--csv", "-", "a.log")
        rows = list(csv.DictReader(io.StringIO(out, newline="")))
        self.assertEqual((code, [(row["line"], row["decision"], row["old_decision"]) for row in rows]),
                         (0, [("3", "denied", "allowed"), ("7", "denied", "allowed")]))
        code, out, _ = self.replay("--compare", "old.yaml", "a.log")
        self.assertIn("newly denied   2 requests (25.00 %), 1 clients that the old policy never denies", out)

    def test_conditions(self):
        self.write("old.yaml", LOOSE)
        self.write("a.log", line() * 3 + line(ip="10.0.0.2"))
        for condition, code in (("denied > 0", 4), ("denied > 25%", 0), ("denied >= 25%", 4), ("denied_clients > 50%", 0),
                                ("denied_clients > 49.9%", 4), ("longest_wait > 1min or denied[per-ip] = 1", 4),
                                ("longest_wait > 1min", 0), ("newly_denied > 0", 4), ("newly_denied_clients > 1", 0),
                                ("bad_lines > 0", 0), ("evicted > 0", 0)):
            words = ["--compare", "old.yaml"] if "newly" in condition else []
            found, out, err = self.replay(*words, "--fail-if", condition, "a.log")
            self.assertEqual(found, code, condition + err)
            self.assertIn("requests  4, denied 1", out)
            self.assertEqual("is true" in err, code == 4, err)
        found = self.document("--fail-if", "denied > 10%", "a.log", expected=4)["fail_if"]
        self.assertEqual(found, [{"condition": "denied > 10%", "value": 1, "of": 4, "is_true": True}])

    def test_the_examples_for_ci(self):
        if yaml is None:
            self.skipTest("python3-yaml is not installed")
        with open(os.path.join(EXAMPLES, "github.yml"), encoding="utf-8") as file:
            steps = yaml.safe_load(file)["jobs"]["replay"]["steps"]
        with open(os.path.join(EXAMPLES, "gitlab.yml"), encoding="utf-8") as file:
            gitlab = yaml.safe_load(file)["policy"]["script"]
        # actions/checkout fetches all branches, GitLab the one that is merged. Both check out without a local branch.
        for name, script, whole, variables in (
                ("github", [step["run"] for step in steps if "run" in step], True, {"GITHUB_BASE_REF": "trunk"}),
                ("gitlab", gitlab, False, {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "trunk"})):
            for policy, code in ((LOOSE, 0), (POLICY, 4)):
                with self.subTest(name, code=code):
                    self.check_in_ci(script, policy, code, whole, variables)

    def check_in_ci(self, script, policy, code, whole, variables):
        """Runs the script in a clone of a repository in which a branch changes the policy."""
        with tempfile.TemporaryDirectory() as folder:
            source, clone, home = (os.path.join(folder, name) for name in ("source", "clone", "home"))
            os.mkdir(home)
            environment = {"PATH": os.path.dirname(WEIR) + ":" + os.environ["PATH"], "HOME": home, "GITHUB_WORKSPACE": clone,
                           "GIT_CONFIG_NOSYSTEM": "1"} | variables

            def call(*words, where=source, expected=0):
                done = subprocess.run(words, cwd=where, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                                      env=environment)
                self.assertEqual(done.returncode, expected, f"{words}: {done.stdout}{done.stderr}")

            def commit(**files):
                for name, text in files.items():
                    with open(os.path.join(source, name.replace("_", ".")), "wb") as file:
                        file.write(text)
                call("git", "add", ".")
                call("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "files")

            call("git", "init", "-q", "-b", "trunk", source, where=folder)
            commit(policy_yaml=(LOOSE + "# old\n").encode(),
                   access_log_gz=gzip.compress((line() * 3 + line(ip="10.0.0.2")).encode()))
            call("git", "checkout", "-qb", "change")
            commit(policy_yaml=policy.encode())
            call("git", "clone", "-q", *([] if whole else ["--depth", "20"]), "--branch", "change", "file://" + source, clone)
            call("git", "checkout", "-q", "--detach", where=clone)
            call("git", "branch", "-qD", "change", where=clone)
            if whole and os.geteuid() == 0:  # as in a container: the files belong to the user of the machine, not to root
                call("chown", "-R", "1001:1001", clone)
            call("sh", "-ec", "\n".join(script), where=clone, expected=code)
            with open(os.path.join(clone, "changes.csv"), encoding="utf-8") as file:
                self.assertEqual(len(file.readlines()), 1 if code == 0 else 2)

    # --- inputs

    def test_files_are_merged_by_time(self):
        self.write("a.log", line(time="10:00:00") + line(time="10:00:20"))
        self.write("b.log", line(time="10:00:10") + line(time="10:00:30"))
        for names in (("a.log", "b.log"), ("b.log", "a.log")):
            code, out, _ = self.replay("--csv", "-", "--all", *names)
            self.assertEqual((code, [row["file"] for row in csv.DictReader(io.StringIO(out, newline=""))]),
                             (0, ["a.log", "b.log", "a.log", "b.log"]))

    def test_of_several_files_the_report_names_the_one_of_a_line(self):
        self.write("cost.yaml", "limits:\n  - {name: c, key: [ip], limit: 5/min, cost: {attribute: n}}\n")
        self.write("strict.yaml", "limits:\n  - {name: c, key: [ip], limit: 1/min, cost: {attribute: n}}\n")
        self.write("a.csv", "time,ip,n\n1,a,1\n")
        given = b"time,ip,n\n3,a,x\n4,a,1\n5,a,6\n"
        code, out, err = self.replay("--compare", "strict.yaml", "a.csv", "-", given=given, policy="cost.yaml")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("cannot decide them; standard input line 2: the attribute", out)
        self.assertIn("the first at 1970-01-01T00:00:04Z, standard input line 3\n", out)
        self.write("a.log", line() * 3)
        self.write("b.log", line(time="10:00:01") * 3)
        self.assertIn(", a.log line 3  10.0.0.1", self.replay("b.log", "a.log")[1])
        self.assertIn("Z, line 3  10.0.0.1", self.replay("a.log")[1])

    def test_standard_input_and_compressed_files(self):
        text = (line() * 5).encode()
        self.write("a.log", text)
        self.write("a.log.gz", gzip.compress(text[:100]) + gzip.compress(text[100:]) + bytes(20))
        subprocess.run(["zstd", "-q", self.path("a.log")], check=True)
        plain = self.document("a.log")["replay"]["limits"]
        for words, given in ((["-"], text), (["a.log.gz"], b""), (["a.log.zst"], b""), (["-"], gzip.compress(text)),
                             (["/dev/stdin"], text)):
            self.assertEqual(self.document(*words, given=given)["replay"]["limits"], plain, words)
        for damage, why in ((gzip.compress(text)[:-20], "the compressed data end too early"),
                            (gzip.compress(os.urandom(5000) + text)[:3000], "the compressed data end too early"),
                            (gzip.compress(text)[:20] + bytes(20), "the compressed data are damaged")):
            self.write("cut.gz", damage)
            code, _, err = self.replay("a.log", "cut.gz", "--format", "combined")
            self.assertEqual(code, 1)
            self.assertIn("cut.gz: " + why, err)
        code, out, err = self.replay("cut.gz")
        self.assertEqual((code, out), (1, ""))

    def test_lines_of_every_length_and_ending(self):
        for length in (0, 1, 100, 65000, 65300, 65536, 66000, 200000, 600000, 1 << 20, 3 << 20):
            text = line() + line(path="/" + "x" * length) + "\n\r\n" + line().rstrip("\n")
            found = self.document("-", given=text.encode())
            lines = found["inputs"][0]
            self.assertEqual((lines["lines"], found["replay"]["requests"]), (3, 3 if length < 65400 else 2), length)
            if length > 65400:
                self.assertEqual((lines["bad_examples"][0]["line"], lines["bad_examples"][0]["why"]),
                                 (2, "it is longer than 65536 bytes"))

    def test_a_byte_order_mark_is_not_part_of_a_log(self):
        for name, text in (("a.log", line() * 2), ("a.csv", "time,ip\n1,a\n2,a\n"), ("a.json", '{"time":1,"ip":"a"}\n' * 2)):
            self.write(name, b"\xef\xbb\xbf" + text.encode())
            found = self.document(name)
            self.assertEqual((found["inputs"][0]["bad_lines"], found["replay"]["requests"], found["replay"]["clients"]), (0, 2, 1), name)
        self.write("mark.log", b"\xef\xbb\xbf")
        self.assertIn("no requests in the log", self.refused("--policy", "policy.yaml", "mark.log", code=1))

    def test_hostile_bytes(self):
        noise = bytes(range(256)) * 300
        for text in (noise, noise.replace(b"\n", b""), b"\n" * 1000, b"\0" * 1000, b'"' * 70000 + b"\n"):
            found = self.document("--format", "combined", "-", given=line().encode() + text + b"\n" + line().encode())
            self.assertEqual(found["replay"]["requests"], 2)
            for name in ("json", "caddy"):
                code, out, err = self.replay("--format", name, "-", given=text)
                self.assertEqual((code, out), (1, ""), err)

    def test_no_output_has_bytes_that_a_terminal_obeys(self):
        hidden = "\x1b]0;x\x07 \x9b31m \u202eab \u2028 \u200b \U000e0022".replace(" ", "_")
        self.write("a.log", (line(ip=hidden, path="/" + hidden, time="10:00:10") * 4 + hidden + "\n").encode() + b"\xff\xfe\n")
        self.write("old.yaml", LOOSE)
        for words in ((), ("--json",), ("--csv", "-"), ("--csv", "-", "--all"), ("--compare", "old.yaml"),
                      ("--compare", "old.yaml", "--json"), ("--compare", "old.yaml", "--csv", "-")):
            code, out, err = self.replay(*words, "a.log")
            self.assertEqual((code, err), (0, ""), words)
            self.assertIn("31m", out, words)
            self.assertEqual([one for one in out.replace("\r\n", "\n")
                              if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp") and one != "\n"], [], words)
        clients = self.document("a.log")["replay"]["top_clients"]
        self.assertEqual(clients[0]["client"], hidden)

    def test_times_at_the_ends(self):
        stamps = ("1970-01-01T00:00:00Z", "2026-11-18T10:00:00Z", "2262-04-11T23:47:15Z")
        self.write("a.csv", "time,ip\n" + "".join(f"{stamp},10.0.0.1\n" * 3 for stamp in stamps) + "2262-04-11T23:47:16Z,a\n")
        found = self.document("a.csv")
        self.assertEqual((found["replay"]["requests"], found["inputs"][0]["bad_lines"], found["beyond_9_years"]), (9, 1, 6))
        self.assertEqual((found["from"][:4], found["to"][:4]), ("1970", "2262"))

    def test_offsets(self):
        self.write("a.csv", "time,ip\n2026-11-18 10:00:00,a\n2026-11-18T10:00:00+01:00,a\n")
        self.assertEqual(self.document("--tz", "+01:00", "--client", "ip", "a.csv")["from"], "2026-11-18T09:00:00.000000000Z")

    def test_late_lines_are_counted(self):
        self.write("a.log", line(time="10:00:30") + line(time="10:01:30") + line(time="10:00:50") + line(time="10:01:31"))
        found = self.document("a.log")
        self.assertEqual((found["late_lines"], found["latest_late_ns"]), (0, 0))  # nothing was released after it
        self.write("b.log", line(time="10:00:30") + line(time="10:01:00") + line(time="10:01:30") + line(time="10:00:50"))
        found = self.document("b.log")
        self.assertEqual((found["late_lines"], found["latest_late_ns"]), (1, 10 * 10**9))
        self.assertEqual(self.document("--reorder", "1min", "b.log")["late_lines"], 0)

    def test_fields_are_mapped(self):
        self.write("key.yaml", "limits:\n  - name: k\n    key: [api_key]\n    limit: 1/min\n")
        self.write("a.json", '{"time":1,"who":"a"}\n{"time":1,"who":"b"}\n{"time":1,"who":"a"}\n')
        found = self.document("--map", "api_key=who", "--client", "api_key", "a.json", policy="key.yaml")["replay"]
        self.assertEqual((found["denied"], found["clients"]), (1, 2))

    @unittest.skipUnless(os.path.exists("/usr/share/zoneinfo/Europe/Berlin"), "no zone data")
    def test_local_times(self):
        def arrivals(*times, words=()):
            self.write("a.csv", "time,ip\n" + "".join(f"{time}.5,10.0.0.1\n" for time in times))
            code, out, err = self.replay("--tz", "Europe/Berlin", "--csv", "-", "--all", "a.csv", *words)
            self.assertEqual(code, 0, err)
            return [row["arrival"][11:19] for row in csv.DictReader(io.StringIO(out))]

        self.assertEqual(arrivals("2026-01-15 12:00:00", "2026-07-15 12:00:00"), ["11:00:00", "10:00:00"])
        # From 02:00 on, clocks show 03:00.
        self.assertEqual(arrivals("2026-03-29 01:59:59", "2026-03-29 02:30:00", "2026-03-29 03:30:00", "2026-03-29 04:00:00"),
                         ["00:59:59", "01:30:00", "01:30:00", "02:00:00"])
        # From 03:00 on, clocks show 02:00 again.
        twice = ["2026-10-25 02:00:00", "2026-10-25 02:59:55", "2026-10-25 02:59:50", "2026-10-25 02:00:01", "2026-10-25 02:30:00",
                 "2026-10-25 03:00:00"]
        self.assertEqual(arrivals(*twice), ["00:00:00", "00:59:50", "00:59:55", "01:00:01", "01:30:00", "02:00:00"])
        self.assertEqual(arrivals("2026-10-25 02:20:00", "2026-10-25 02:19:51"), ["00:19:51", "00:20:00"])
        self.assertEqual(arrivals("2026-10-25 02:20:00", "2026-10-25 02:19:49"), ["00:20:00", "01:19:49"])
        self.write("b.log", line(time="10:00:00"))
        self.assertEqual(self.document("b.log", "--tz", "Europe/Berlin")["from"], "2026-11-18T10:00:00.000000000Z")

    def test_a_map_of_a_field_that_no_log_has_is_an_error(self):
        self.write("a.csv", "time,client\n2026-11-18T10:00:00Z,10.0.0.1\n")
        self.write("b.csv", "time,address\n2026-11-18T10:00:00Z,10.0.0.1\n")
        self.write("c.log", '{"time":"2026-11-18T10:00:00Z"}\n')
        self.assertEqual(self.document("a.csv", "--map", "ip=client")["replay"]["clients"], 1)
        self.assertIn('the log does not have the field "clint" of --map',
                      self.refused("--policy", "policy.yaml", "a.csv", "--map", "ip=clint", code=1))
        self.assertEqual(self.document("a.csv", "b.csv", "--map", "ip=client")["replay"]["requests"], 2)
        self.assertIn('no log has the field "clint"',
                      self.refused("--policy", "policy.yaml", "a.csv", "b.csv", "--map", "ip=clint", code=1))
        self.assertEqual(self.document("c.log", "--map", "ip=clint")["replay"]["requests"], 1)
        self.write("five.yaml", "limits:\n  - name: five\n    key: [a, b, c, d, e]\n    limit: 2/min\n")
        words = [word for name in "abcde" for word in ("--map", f"{name}=client")]
        self.assertEqual(self.document("a.csv", *words[:8], policy="five.yaml")["replay"]["requests"], 1)
        self.assertIn("mapped more than 4 times", self.refused("--policy", "five.yaml", "a.csv", *words, code=1))

    def test_lines_of_combined_that_go_on(self):
        timed = [line().rstrip() + f" {seconds}\n" for seconds in ("0.004", "1.250")]
        self.write("a.log", "".join(timed))
        found = self.document("a.log")
        self.assertEqual((found["inputs"][0]["format"], found["inputs"][0]["has_durations"]), ("combined_timed", True))
        self.assertEqual(found["replay"]["over_time"]["begins"], "2026-11-18T09:59:59.000000000Z")
        note = "Lines have more fields than their format"
        self.assertNotIn(note, self.replay("a.log")[1])
        self.write("a.log", timed[0] + line())
        self.assertEqual(self.document("a.log")["inputs"][0]["format"], "combined")
        self.assertIn(note, self.replay("a.log")[1])
        self.write("a.log", line())
        self.assertNotIn(note, self.replay("a.log")[1])

    def test_an_attribute_that_the_log_does_not_have_is_named(self):
        self.write("a.log", line() * 40)
        self.write("keyed.yaml", "limits:\n  - name: a\n    key: [api_key]\n    limit: 1/min\n" + POLICY.partition("\n")[2])
        for policy, names in (("keyed.yaml", ["api_key"]), ("policy.yaml", [])):
            self.assertEqual(self.document("a.log", policy=policy)["missing_attributes"], names)
            self.assertEqual("use --map api_key=FIELD." in self.replay("a.log", policy=policy)[1], bool(names))
        self.write("some.csv", "time,ip,api_key\n" + "2026-11-18T10:00:00Z,10.0.0.1,\n" * 70 + "2026-11-18T10:00:01Z,10.0.0.1,x\n")
        self.assertEqual(self.document("some.csv", policy="keyed.yaml")["missing_attributes"], [])

    def test_inputs_that_cannot_be_read(self):
        self.write("empty", "")
        os.mkdir(self.path("folder"))
        self.write("prose", "it was a dark night\n")
        for name, why in (("empty", "no requests in the log: 0 bad lines"), ("folder", "folder: it is a directory; name its files"),
                          ("missing", "missing: No such file"), ("prose", "prose: its format cannot be detected")):
            self.assertIn(why, self.refused("--policy", "policy.yaml", name, code=1))
        self.write("a.log", line())
        self.write("cut.gz", gzip.compress(line().encode())[:-30])  # within the first line
        self.assertIn("cut.gz: the compressed data end too early\n", self.refused("--policy", "policy.yaml", "cut.gz", code=1))
        self.assertEqual(self.document("empty", "a.log")["replay"]["requests"], 1)
        self.assertIn("no requests in the log: 1 bad lines",
                      self.refused("--policy", "policy.yaml", "--format", "combined", "prose", code=1))

    # --- usage

    def test_wrong_usage(self):
        self.write("a.log", line())
        for words, why in ((("a.log",), "--policy FILE is missing"), (("--policy", "policy.yaml"), "the log is missing"),
                           (("--polcy", "x"), "did you mean --policy?"), (("--policy",), "--policy needs a value"),
                           (("--polcy=x",), "did you mean --policy?"), (("--json=1",), '"--json": this option takes no value'),
                           (("--policy=policy.yaml", "--top=101", "a.log"), '--top "101"'),
                           (("--policy", "policy.yaml", "--tz", "Mars/Base", "a.log"), '--tz "Mars/Base": use an offset'),
                           (("--policy", "policy.yaml", "--reorder", "2hour", "a.log"), "at most 1hour"),
                           (("--policy", "policy.yaml", "--keys", "0", "a.log"), '--keys "0"'),
                           (("--policy", "policy.yaml", "--top", "101", "a.log"), '--top "101"'),
                           (("--policy", "policy.yaml", "--map", "ip", "a.log"), "use TO=FROM"),
                           (("--policy", "policy.yaml", "--all", "a.log"), "--all needs --csv"),
                           (("--policy", "policy.yaml", "--json", "--csv", "-", "a.log"), "both write to standard output"),
                           (("--policy", "policy.yaml", "-", "-"), "standard input can be read only once"),
                           (("--policy", "policy.yaml", "--fail-if", "denid > 1", "a.log"), "did you mean denied?"),
                           (("--policy", "policy.yaml", "--fail-if", "newly_denied > 1", "a.log"), "needs --compare OLD"),
                           (("--policy", "policy.yaml", "--fail-if", "denied[per-iq] > 1", "a.log"), "did you mean per-ip?")):
            self.assertIn(why, self.refused(*words, code=2), words)
        self.assertIn("did you mean combined?", self.refused("--policy", "policy.yaml", "--format", "combind", "a.log", code=1))
        self.assertEqual(self.run_weir("--help")[0], 0)
        self.assertEqual(self.run_weir("--policy=policy.yaml", "--client=ip", "a.log"), self.replay("a.log"))

    def test_policies_that_cannot_be_used(self):
        self.write("a.log", line())
        self.write("wrong.yaml", "limits:\n  - name: a\n    limit: 5/fortnight\n")
        self.write("envoy.yaml", "domain: d\ndescriptors:\n  - key: ip\n    rate_limit: {unit: minute, requests_per_unit: 1}\n")
        self.assertIn("wrong.yaml:3", self.refused("--policy", "wrong.yaml", "a.log", code=1))
        self.assertIn("wrong.yaml:3", self.refused("--policy", "policy.yaml", "--compare", "wrong.yaml", "a.log", code=1))
        self.assertIn("Envoy's format", self.refused("--policy", "envoy.yaml", "a.log", code=1))
        self.assertIn("missing.yaml", self.refused("--policy", "missing.yaml", "a.log", code=1))

    def test_a_log_counts_once(self):
        self.write("a.log", line())
        self.write("b.log", line())
        os.symlink("a.log", self.path("link"))
        for words in (("a.log", "a.log"), ("b.log", "a.log", "./a.log"), ("link", "b.log", "a.log")):
            self.assertIn("are the same file", self.refused("--policy", "policy.yaml", *words, code=2), words)
        self.assertEqual(self.document("a.log", "b.log")["replay"]["requests"], 2)

    def test_a_file_that_is_read_is_not_written(self):
        self.write("a.log", line())
        self.write("old.yaml", LOOSE)
        os.symlink("a.log", self.path("link"))
        for words in (("--csv", "a.log"), ("--csv", "./a.log"), ("--html", "link"), ("--csv", "policy.yaml"),
                      ("--compare", "old.yaml", "--html", "old.yaml")):
            self.assertIn("also reads this file", self.refused("--policy", "policy.yaml", *words, "a.log", code=2), words)
        for name in ("out", "a.csv"):
            self.assertIn("--csv has the same file",
                          self.refused("--policy", "policy.yaml", "--csv", name, "--html", name, "a.log", code=2))
            self.write("a.csv", "")
        self.assertIn('--html "-"', self.refused("--policy", "policy.yaml", "--html", "-", "a.log", code=2))
        with open(self.path("a.log"), encoding="utf-8") as file:
            self.assertEqual(file.read(), line())

    def test_only_regular_files_get_another_mode(self):
        """Of /dev/null, root would change it for the whole machine."""
        self.write("a.log", line() * 3)
        self.write("page", "")
        os.chmod(self.path("page"), 0o644)
        os.mkfifo(self.path("pipe"), 0o644)
        os.chmod(self.path("pipe"), 0o644)
        with subprocess.Popen(["cat", "pipe"], cwd=self.folder, stdout=subprocess.PIPE) as reader:
            code, _, err = self.replay("--csv", "pipe", "--html", "page", "a.log")
            self.assertEqual((code, len(reader.stdout.read().splitlines())), (0, 2), err)
        self.assertEqual([stat.S_IMODE(os.stat(self.path(name)).st_mode) for name in ("pipe", "page")], [0o644, 0o600])

    def test_a_full_disk_is_an_error(self):
        self.write("a.log", line() * 3)
        code, _, err = self.replay("--csv", "/dev/full", "a.log")
        self.assertEqual(code, 1)
        self.assertIn("--csv /dev/full: ", err)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([WEIR, "replay", "--policy", "policy.yaml", "a.log"], stdout=full, stderr=subprocess.PIPE,
                                  timeout=PATIENCE_S, check=False, cwd=self.folder)
        self.assertEqual((done.returncode, b"standard output" in done.stderr), (3, True))

    def test_progress_is_shown_on_a_terminal(self):
        self.write("a.log", line() * 1000)
        for words, is_shown in (((), True), (("--quiet",), False)):
            ours, theirs = pty.openpty()
            done = subprocess.run([WEIR, "replay", "--policy", "policy.yaml", *words, "a.log"], stdout=subprocess.DEVNULL,
                                  stderr=theirs, timeout=PATIENCE_S, check=False, cwd=self.folder)
            os.set_blocking(ours, False)
            try:
                seen = os.read(ours, 65536)
            except BlockingIOError:
                seen = b""
            os.close(ours)
            os.close(theirs)
            self.assertEqual((done.returncode, b" requests, " in seen), (0, is_shown), seen)
            self.assertTrue(not is_shown or seen.endswith(b"\r\x1b[K"))


if __name__ == "__main__":
    unittest.main()
