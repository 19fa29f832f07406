"""tls_certificates.py: a CA for a test, and certificates that it signs."""

import os
import ssl
import subprocess


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, name
        self.pem, self.key = self.path(f"{name}.pem"), self.path(f"{name}.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                f"/CN=Weir test {name}", "-keyout", self.key, "-out", self.pem)

    def path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, name, names, days=2):
        """Returns the paths of the certificate and its key. With negative days it has expired."""
        pem, key, request, more = (self.path(f"{name}.{kind}") for kind in ("pem", "key", "csr", "ext"))
        with open(more, "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={names}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout",
                key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self.key, "-CAcreateserial", "-days", str(days),
                "-extfile", more, "-out", pem)
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
