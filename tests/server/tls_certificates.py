"""tls_certificates.py: a CA for a test, and certificates that it signs."""

import os
import ssl
import subprocess
import time


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    def __init__(self, folder, name="ca", above=None):
        """With `above`, it is an intermediate CA, which that one has signed."""
        self.folder, self.name = folder, name
        self.pem, self.key = self.path(f"{name}.pem"), self.path(f"{name}.key")
        if above:
            above.sign(name, f"DNS:{name}", more="basicConstraints=critical,CA:TRUE\n")
            return
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                f"/CN=Weir test {name}", "-keyout", self.key, "-out", self.pem)

    def path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, name, names, days=2, more="", kind=("ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
        """Returns the paths of the certificate and its key. With negative days it has expired."""
        pem, key, request, extensions = (self.path(f"{name}.{end}") for end in ("pem", "key", "csr", "ext"))
        with open(extensions, "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={names}\n{more}")
        openssl("req", "-newkey", *kind, "-nodes", "-subj", f"/CN={name}", "-keyout",
                key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self.key, "-CAcreateserial", "-days", str(days),
                "-extfile", extensions, "-out", pem)
        return pem, key

    def sign_until(self, name, names, at):
        """The same as sign, with a certificate that expires at this time."""
        pem, key, request, extensions, config = (self.path(f"{name}.{end}") for end in ("pem", "key", "csr", "ext", "cnf"))
        self.sign(name, names)
        with open(config, "w", encoding="ascii") as file:
            file.write(f"[ca]\ndefault_ca=here\n[here]\ndatabase={self.path('index')}\nnew_certs_dir={self.folder}\n"
                       "rand_serial=yes\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n")
        with open(self.path("index"), "w", encoding="ascii"):
            pass
        openssl("ca", "-batch", "-config", config, "-cert", self.pem, "-keyfile", self.key, "-in", request, "-extfile", extensions,
                "-enddate", time.strftime("%y%m%d%H%M%SZ", time.gmtime(at)), "-notext", "-out", pem)
        return pem, key

    def server(self, name="server", **more):
        return self.sign(name, "DNS:localhost,IP:127.0.0.1", **more)

    def context(self, client=None, **versions):
        """For a client that trusts this CA. `client` is its certificate and key."""
        context = ssl.create_default_context(cafile=self.pem)
        for name, value in versions.items():
            setattr(context, name, value)
        if client:
            context.load_cert_chain(*client)
        return context
