#!/usr/bin/env python3
"""testssl.sh finds no weakness of MEDIUM or above in the TLS of weir serve, but that its test certificate is not trusted.

    testssl_test.py WEIR"""
# Covers: src/os/tls_server.c

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.argv.append("plain")

from daemon import run  # noqa: E402
from tls_test import server  # noqa: E402

PATIENCE_S = 900
# About the certificate, which a test CA has signed for two days, without a place for revocations.
OF_THE_CERTIFICATE = {"cert_chain_of_trust", "cert_expirationStatus", "cert_notAfter", "cert_revocation", "cert_trust",
                      "cert_validityPeriod", "cert_extlifeSpan"}
GOOD = {"OK", "INFO", "LOW", "WARN", "DEBUG"}


def scan(one, what, scheme):
    path = os.path.join(one.folder, "https.json" if scheme else "resp.json")
    subprocess.run([shutil.which("testssl") or "testssl.sh", "--quiet", "--warnings", "off", "--color", "0", "--jsonfile", path,
                    f"{scheme}127.0.0.1:{one.at[what]}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    assert len(found) > 50 and any(one["id"] == "TLS1_3" for one in found), found[:5]  # else nothing was scanned
    bad = [one for one in found if one["severity"] not in GOOD and one["id"] not in OF_THE_CERTIFICATE]
    assert not bad, bad
    return len(found)


def nothing_is_weak():
    with server() as one:
        return f"{scan(one, 'tls HTTP', 'https://')} findings for HTTP, {scan(one, 'tls RESP', '')} for RESP"


if __name__ == "__main__":
    sys.exit(run([("nothing is weak", nothing_is_weak)]))
