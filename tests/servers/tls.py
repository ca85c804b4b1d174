"""A server that speaks TLS only."""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import trustme

from .binaries import tls_server
from .process import free_port, running
from .target import Offer, Target, dotted, url_target


def offer() -> Offer:
    executable = tls_server()
    version = dotted(executable)

    @contextlib.contextmanager
    def start(directory: Path) -> Iterator[Target]:
        directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        options = {"appendonly": "no", "tls-port": str(port), **_certificates(directory)}
        with running(directory, executable, options), _trusting_no_other():
            authority = quote(str(directory / "ca.pem"), safe="")
            yield url_target(
                "tls", version, f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={authority}"
            )

    return Offer("tls", version, start)


@contextlib.contextmanager
def _trusting_no_other() -> Iterator[None]:
    """Let clients of this process not load the system's certificates.

    redis-py would do so for every connection, which takes a hundred times as long as to connect.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_default_certs", lambda self, purpose=None: None)
        yield


def _certificates(directory: Path) -> dict[str, str]:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    certificate.private_key_pem.write_to_path(directory / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    return {
        "tls-cert-file": f'"{directory}/cert.pem"',
        "tls-key-file": f'"{directory}/key.pem"',
        "tls-ca-cert-file": f'"{directory}/ca.pem"',
        "tls-auth-clients": "no",
    }
