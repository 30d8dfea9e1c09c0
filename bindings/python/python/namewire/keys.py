"""The key chain: identities, keys and certificates, as those of ndn-cxx, python-ndn and ``namewire key``.

>>> chain = namewire.KeyChain()
>>> chain.generate("/lab/alice")
>>> client.publish("/lab/alice/result", content, sign=chain.signer("/lab/alice"))
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ._namewire import NativeKeyChain, Signer, Verifier

__all__ = ["KeyChain", "KeyChainEntry", "Signer", "Verifier"]


@dataclass(frozen=True)
class KeyChainEntry:
    """An identity, a key of an identity, or a certificate of a key; and whether it is the default of these."""

    name: str
    is_default: bool


class KeyChain:
    """A key chain: that of the environment (``NDN_CLIENT_PIB``, ``NDN_CLIENT_TPM``, ``client.conf``, or ``~/.ndn``), or one in a
    directory.

    It is created by the first key. Where a method takes the ``name`` of an identity, of a key or of a certificate, None stands
    for the default identity. Errors raise :class:`namewire.KeyChainError`.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._native = NativeKeyChain(None if directory is None else os.fspath(directory))
        self._directory = directory

    @property
    def path(self) -> str:
        """The database."""
        return os.fspath(self._native.path)

    def identities(self) -> list[KeyChainEntry]:
        """All identities, the oldest first."""
        return [KeyChainEntry(*entry) for entry in self._native.identities()]

    def keys(self, identity: str) -> list[KeyChainEntry]:
        """The keys of an identity, the oldest first."""
        return [KeyChainEntry(*entry) for entry in self._native.keys(identity)]

    def certificates(self, key: str) -> list[KeyChainEntry]:
        """The certificates of a key, the oldest first."""
        return [KeyChainEntry(*entry) for entry in self._native.certificates(key)]

    def certificate(self, name: str | None = None) -> str:
        """The certificate, or the default one of an identity or key: Base64, as ``namewire cert dump`` prints it."""
        return self._native.certificate(name)[1]

    def certificate_name(self, name: str | None = None) -> str:
        """The name of the certificate, or of the default one of an identity or key."""
        return self._native.certificate(name)[0]

    def generate(self, identity: str, *, key_type: str = "ecdsa", default: bool = True) -> str:
        """Make a key with a self-signed certificate, and its identity if there is none; return the name of the key.

        ``key_type`` is ``"ecdsa"``, ``"ed25519"`` or ``"rsa"``; ``default`` makes it the default key of its identity, and this
        the default identity.
        """
        return self._native.generate(identity, key_type, default)

    def request(self, name: str | None = None) -> str:
        """A request for a certificate, in Base64, for an issuer (``namewire cert sign``)."""
        return self._native.request(name)

    def install(self, certificate: str, *, default: bool = True) -> str:
        """Add a certificate (Base64) of a key of this key chain; return its name."""
        return self._native.install(certificate, default)

    def export(self, name: str | None, passphrase: str) -> str:
        """A certificate with its private key, which the passphrase encrypts: a SafeBag in Base64, as ``ndnsec export`` writes."""
        return self._native.export(name, passphrase)

    def restore(self, safe_bag: str, passphrase: str) -> str:
        """Add an exported key and certificate; return the name of the key."""
        return self._native.restore(safe_bag, passphrase)

    def set_default(self, name: str) -> None:
        """Make an identity, a key or a certificate the default of its kind."""
        self._native.set_default(name)

    def delete(self, name: str) -> None:
        """Delete a certificate, a key with its certificates, or an identity with its keys. A private key cannot be recovered."""
        self._native.delete(name)

    def signer(self, name: str | None = None) -> Signer:
        """A key for the argument ``sign``. Its KeyLocator is the name of its certificate."""
        return self._native.signer(name)

    def verifier(self, name: str | None = None) -> Verifier:
        """For the argument ``verify``: demands signatures by the key of a certificate, while that is valid."""
        return Verifier(text=self.certificate(name))

    def __reduce__(self) -> tuple[type[KeyChain], tuple[str | os.PathLike[str] | None]]:
        return (KeyChain, (self._directory,))

    def __repr__(self) -> str:
        return f"<namewire.KeyChain {self.path}>"
