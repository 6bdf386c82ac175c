"""SCRAM on a listener: the credentials are those of the cluster's metadata."""

from __future__ import annotations

import hmac
import secrets
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Final

from kavka.broker.sasl import MechanismSetup
from kavka.metadata.records.security import DelegationTokenRecord, UserScramCredentialRecord
from kavka.net.session import Session
from kavka.security.sasl.scram import KAFKAS_FORM, Credential, Credentials, Mechanism, SaltForm, ScramServer
from kavka.security.token import TokenLogins, TokenSecrets, no_tokens

NONCE_BYTES: Final = 24
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Scram:
    """One of the two hashes, on one listener."""

    def __init__(self, setup: MechanismSetup) -> None:
        self._mechanism = Mechanism[setup.mechanism.replace("-", "_")]
        self._security = setup.security
        self._secret = setup.secret
        self._cluster = setup.cluster
        self._formed: Mapping[Hashable, UserScramCredentialRecord] = {}
        self._form = KAFKAS_FORM
        keys = TokenSecrets.of(setup.settings)
        tokens = no_tokens if keys is None else TokenLogins(keys, self._mechanism, self._token, setup.clock.now_ms)
        self._credentials = Credentials(self._user, tokens, self._disguise, self._usual_form)

    def begin(self, session: Session) -> ScramServer:
        """Judge one login."""
        return ScramServer(self._mechanism, self._credentials, secrets.token_urlsafe(NONCE_BYTES))

    def _user(self, name: str) -> Credential | None:
        record = self._security().scram.get((name, int(self._mechanism)))
        if record is None:
            return None
        return Credential(record.salt, record.stored_key, record.server_key, record.iterations)

    def _disguise(self) -> bytes:
        """What strangers are made up by: of the cluster, as two nodes that differ about somebody know nobody."""
        cluster = self._cluster()
        return hmac.digest(b"strangers", cluster.encode(), "sha256") if cluster else self._secret

    def _usual_form(self) -> SaltForm:
        """What most users' credentials look like."""
        known = self._security().scram
        if known is not self._formed:
            forms = Counter(
                SaltForm.of(record.salt, record.iterations)
                for record in known.values()
                if record.mechanism == self._mechanism
            )
            self._formed, self._form = known, max(forms, key=lambda form: (forms[form], str(form)), default=KAFKAS_FORM)
        return self._form

    def _token(self, token_id: str) -> DelegationTokenRecord | None:
        return self._security().tokens.get(token_id)


def mechanism(setup: MechanismSetup) -> Scram:
    """SCRAM with the users of the metadata; a login module in the configuration is only what this node logs in with."""
    setup.jaas(MODULE)
    return Scram(setup)
