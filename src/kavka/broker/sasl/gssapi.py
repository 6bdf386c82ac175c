"""GSSAPI on a listener: Kerberos tickets for a principal whose key is in a keytab (extra `gssapi`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.broker.sasl import MechanismSetup
from kavka.model.settings import (
    SASL_ENABLED_MECHANISMS,
    SASL_JAAS_CONFIG,
    SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES,
    SASL_KERBEROS_SERVICE_NAME,
)
from kavka.net.session import Session
from kavka.security.kerberos import PrincipalToLocal
from kavka.security.sasl.gssapi import ContextError, GssapiServer
from kavka.security.sasl.jaas import JaasError

if TYPE_CHECKING:
    from kavka.net.kerberos import KerberosService

MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"


class Gssapi:
    """Who may log in with a ticket."""

    def __init__(self, service: KerberosService, rules: PrincipalToLocal) -> None:
        self._service = service
        self._rules = rules

    def begin(self, session: Session) -> GssapiServer:
        """Judge one login."""
        return GssapiServer(self._service.context(), self._rules)


def mechanism(setup: MechanismSetup) -> Gssapi:
    """GSSAPI with a listener's keytab; raises SettingError for one that cannot be used."""
    try:
        from kavka.net.kerberos import KerberosService
    except ImportError as error:
        why = f"it needs pip install 'kavka[gssapi]' ({error})"
        raise setup.refusal(SASL_ENABLED_MECHANISMS.name, why) from None
    key = f"listener.name.{setup.listener.lower()}.gssapi.{SASL_JAAS_CONFIG.name}"
    entry = setup.jaas(MODULE)
    if entry is None:
        raise setup.refusal(key, f"it must name the keytab and the principal of {MODULE}")
    try:
        principal, keytab = entry.option("principal"), entry.option("keyTab")
    except JaasError as error:
        raise setup.refusal(key, str(error)) from None
    named = setup.settings[SASL_KERBEROS_SERVICE_NAME] or entry.options.get("serviceName")
    if named is None:
        raise setup.refusal(SASL_KERBEROS_SERVICE_NAME.name, "it must name the service that this node is")
    if principal.partition("/")[0] != named:
        raise setup.refusal(SASL_KERBEROS_SERVICE_NAME.name, f"{named} is not the service of {principal}")
    try:
        service = KerberosService(principal, keytab)
    except ContextError as error:
        raise setup.refusal(key, f"{principal} in {keytab}: {error}") from None
    realm = service.principal.rpartition("@")[2]
    try:
        rules = PrincipalToLocal(setup.settings[SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES], realm)
    except ValueError as error:
        raise setup.refusal(SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES.name, str(error)) from None
    return Gssapi(service, rules)
