# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    """
    Signs certificates.

    :param folder: where it keeps its files.
    :ivar path: its own certificate, PEM.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority of a test")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._builder(self._name, self._key).add_extension(constraints, critical=True)
        self.path = self._write("ca.pem", certificate.sign(self._key, hashes.SHA256()))

    def certificate(self, address: str) -> tuple[str, str]:
        """
        Return the files of a new certificate and its key.

        :param address: IP address of the server.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, address)])
        addresses = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
        certificate = self._builder(name, key).add_extension(addresses, critical=False)
        key_path = self._folder / "key.pem"
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return str(self._write("server.pem", certificate.sign(self._key, hashes.SHA256()))), str(key_path)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    def _write(self, name: str, certificate: x509.Certificate) -> Path:
        path = self._folder / name
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path
