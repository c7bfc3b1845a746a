"""Certificates that can be trusted, and those that cannot."""

import subprocess
from pathlib import Path

import pytest

from tests.spiders.hosts import Serve, probe


@pytest.mark.slow
@pytest.mark.parametrize(("name", "trusted"), [("IP:127.0.0.1", False), ("DNS:other.test", True)])
def test_a_certificate_that_cannot_be_trusted_is_final(
    serve: Serve, tmp_path: Path, name: str, *, trusted: bool
) -> None:
    """Signed by nobody who is known, or made out to another host: nothing is asked over such a connection, and nothing
    a second time.
    """
    certificate = _certificate(tmp_path, name)
    host = serve(tls=certificate)
    host.gives("/x")
    known = {"SSL_CERT_FILE": str(certificate)} if trusted else {}
    done = probe(tmp_path, f"{host.base}/x", politeness={"robots": False}, env=known)
    page = done.pages[f"{host.base}/x"]
    assert page["reason"] == "unreachable" and page["detail"].startswith("its certificate is not trusted")
    assert (host.requests, host.connections) == ([], 1)
    plain = serve()
    plain.gives("/old", 301, Location=f"{host.base}/x")
    led = probe(
        tmp_path, f"{plain.base}/old", politeness={"robots": False}, env=known, allowed_domains=["127.0.0.1"]
    ).pages[f"{plain.base}/old"]
    assert led["detail"].startswith(f"the certificate of {host.base}/x, to which it redirects, is not trusted")


@pytest.mark.slow
def test_a_certificate_that_is_trusted_is_no_problem(serve: Serve, tmp_path: Path) -> None:
    certificate = _certificate(tmp_path, "IP:127.0.0.1")
    host = serve(tls=certificate)
    host.gives("/x")
    assert (
        probe(tmp_path, f"{host.base}/x", env={"SSL_CERT_FILE": str(certificate)}).pages[f"{host.base}/x"]["status"]
        == 200
    )


def _certificate(folder: Path, name: str) -> Path:
    """A file with a key and a certificate that signs itself."""
    path = folder / "server.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=x",
        "-addext",
        f"subjectAltName={name}",
    ]
    subprocess.run(
        [*command, "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")],
        check=True,
        capture_output=True,
    )
    path.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return path
