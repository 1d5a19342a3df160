# SPDX-License-Identifier: Apache-2.0
"""A local Kafka behind TLS, with logins by SCRAM, token and certificate, and what a client sees whose login is wrong."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dev.broker import BrokerError, LocalKafka, free_ports

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

LISTENER = "SECURED"
MUTUAL_LISTENER = "MUTUAL"
MECHANISM = "SCRAM-SHA-512"

_VALIDITY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """
    An authority that lives as long as its tests.

    :param certificate: its own certificate.
    :param key: what it signs with.
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, name: str) -> CertificateAuthority:
        """
        Make a new one.

        :param name: its common name.
        """
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        return cls(_certificate(name, key, issuer=name, signed_with=key, is_authority=True), key)

    def certificate_pem(self) -> bytes:
        """Return its certificate: what clients trust."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.PEM)

    def issue_pem(
        self, name: str, address: str, *, begins: datetime.timedelta = -_VALIDITY, ends: datetime.timedelta = _VALIDITY
    ) -> bytes:
        """
        Issue a server's private key and certificate, in one PEM text as Kafka's key store of type PEM wants it.

        :param name: the server's common name.
        :param address: the IP address or host name that clients connect to.
        :param begins: when it becomes valid, from now.
        :param ends: when it has expired, from now.
        """
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = ec.generate_private_key(ec.SECP256R1())
        (authority,) = self.certificate.subject
        certificate = _certificate(
            name, key, issuer=str(authority.value), signed_with=self.key, address=address, begins=begins, ends=ends
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return private + certificate.public_bytes(Encoding.PEM) + self.certificate_pem()


class SecuredKafka(LocalKafka):
    """
    A broker with two more listeners over TLS, where users may do what ACLs allow.

    On the second they log in by SASL: SCRAM, or OAUTHBEARER with tokens that nobody has signed. On the third a certificate
    is their login, and they are called ``CN=<user>``. On the first everybody is anonymous and may do everything: the broker
    itself, its clients for the metadata topic, and the tests.

    :param users: user → password.
    :param data_dir: as for :class:`~dev.broker.LocalKafka`.
    :param metadata_partitions: as for :class:`~dev.broker.LocalKafka`.
    """

    def __init__(self, users: Mapping[str, str], data_dir: Path | None = None, *, metadata_partitions: int = 5) -> None:
        super().__init__(data_dir, metadata_partitions=metadata_partitions)
        self._secured_port, self._mutual_port = free_ports(2)
        self._users = dict(users)
        self._authority: CertificateAuthority | None = None
        self._key_store = self.data_dir / "broker.pem"
        self.ca_path = self.data_dir / "ca.pem"
        """Certificate of the authority that clients must trust."""

    @property
    def secured_servers(self) -> str:
        """``host:port`` of the listener with TLS."""
        return f"127.0.0.1:{self._secured_port}"

    def login(self, user: str) -> dict[str, str]:
        """
        Properties of a librdkafka client that is one of the users.

        :param user: one of the users.
        """
        return {
            "bootstrap.servers": self.secured_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": self._users[user],
            "ssl.ca.location": str(self.ca_path),
        }

    def token_login(self, user: str) -> dict[str, str]:
        """
        Properties of a client that logs in as a user by a token.

        :param user: any name.
        """
        return {
            "bootstrap.servers": self.secured_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={user}",
            "ssl.ca.location": str(self.ca_path),
        }

    def certificate_login(self, user: str) -> dict[str, str]:
        """
        Properties of a client that logs in by a certificate of its own.

        :param user: the common name in it.
        """
        assert self._authority is not None, "the broker was not started"
        path = self.data_dir / f"{user}.pem"
        path.touch(mode=0o600)
        path.write_bytes(self._authority.issue_pem(user, "127.0.0.1"))
        return {
            "bootstrap.servers": f"127.0.0.1:{self._mutual_port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca_path),
            "ssl.certificate.location": str(path),
            "ssl.key.location": str(path),
        }

    def start(self, timeout: float = 60.0) -> None:
        """
        Start as :class:`~dev.broker.LocalKafka` does; make the certificates first, if this has not been done.

        :param timeout: seconds.
        """
        if not self._key_store.exists():
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._authority = CertificateAuthority.make("rlmm test authority")
            self.ca_path.write_bytes(self._authority.certificate_pem())
            self._key_store.touch(mode=0o600)
            self._key_store.write_bytes(self._authority.issue_pem("rlmm test broker", "127.0.0.1"))
        super().start(timeout)

    def _default_properties(self) -> dict[str, str]:
        properties = super()._default_properties()
        addresses = f"{LISTENER}://{self.secured_servers},{MUTUAL_LISTENER}://127.0.0.1:{self._mutual_port}"
        protocols = f"{LISTENER}:SASL_SSL,{MUTUAL_LISTENER}:SSL"
        sasl, mutual = (f"listener.name.{name.lower()}." for name in (LISTENER, MUTUAL_LISTENER))
        package = "org.apache.kafka.common.security"
        token = f'{package}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        key_store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._key_store)}
        return properties | {
            "listeners": f"{properties['listeners']},{addresses}",
            "advertised.listeners": f"{properties['advertised.listeners']},{addresses}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}",
            f"{sasl}sasl.enabled.mechanisms": f"{MECHANISM},OAUTHBEARER",
            f"{sasl}{MECHANISM.lower()}.sasl.jaas.config": f"{package}.scram.ScramLoginModule required;",
            f"{sasl}oauthbearer.sasl.jaas.config": token,
            **{f"{listener}{name}": value for listener in (sasl, mutual) for name, value in key_store.items()},
            f"{mutual}ssl.client.auth": "required",
            f"{mutual}ssl.truststore.type": "PEM",
            f"{mutual}ssl.truststore.location": str(self.ca_path),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    def _format(self) -> None:
        configuration = str(self.data_dir / "server.properties")
        users = [f"--add-scram={MECHANISM}=[name={name},password={password}]" for name, password in self._users.items()]
        done = self.run_tool("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", configuration, *users)
        if done.returncode != 0:
            # The message of the base class would do, but for the passwords: the tool may repeat its arguments.
            raise BrokerError(f"the data folder {self.data_dir} could not be formatted (exit code {done.returncode})")


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    issuer: str,
    signed_with: ec.EllipticCurvePrivateKey,
    is_authority: bool = False,
    address: str | None = None,
    begins: datetime.timedelta = -_VALIDITY,
    ends: datetime.timedelta = _VALIDITY,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if address is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name_of(address)]), critical=False)
    return builder.sign(signed_with, hashes.SHA256())


def _name_of(address: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
