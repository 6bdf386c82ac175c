"""The settings of authentication, authorization and encryption."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.settings.types import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LONG,
    NO_BLANKS,
    PASSWORD,
    SET,
    SHORT,
    STRING,
    Check,
    Setting,
    Update,
    between,
    collect,
    one_of,
    one_of_any_case,
)

PER_BROKER: Final = Update.PER_BROKER
NO_LOOKUPS: Final = Check(
    "a login module that looks nothing up on other servers",
    lambda line: not any(module in line.value for module in ("JndiLoginModule", "LdapLoginModule")),
)
"""What Kafka refuses in sasl.jaas.config, whoever sets it (CVE-2025-27818, CVE-2025-27819)."""
# TLS
SSL_CLIENT_AUTH = STRING(
    "ssl.client.auth",
    "none",
    one_of("required", "requested", "none"),
    PER_BROKER,
    doc="Whether clients show a certificate; on SASL_SSL listeners only with `listener.name.<listener>.` before it.",
)
SSL_PRINCIPAL_MAPPING_RULES = STRING(
    "ssl.principal.mapping.rules",
    "DEFAULT",
    doc="Who a client is by the name in its certificate: RULE:pattern/replacement/[LU] or DEFAULT, first fit.",
)
SSL_ALLOW_DN_CHANGES = BOOLEAN(
    "ssl.allow.dn.changes", False, doc="Whether a certificate may be replaced by one for another name."
)
SSL_ALLOW_SAN_CHANGES = BOOLEAN(
    "ssl.allow.san.changes", False, doc="Whether a certificate may be replaced by one for other hosts."
)
SSL_PROTOCOL = STRING("ssl.protocol", "TLSv1.3", None, PER_BROKER, doc="The newest version of TLS: TLSv1.2 or TLSv1.3.")
SSL_PROVIDER = STRING.optional("ssl.provider", None, PER_BROKER, doc="A part of Java: refused where TLS is used.")
SSL_ENABLED_PROTOCOLS = SET(
    "ssl.enabled.protocols",
    ("TLSv1.2", "TLSv1.3"),
    NO_BLANKS,
    PER_BROKER,
    doc="The versions of TLS that are spoken; there are only these two.",
)
SSL_KEYSTORE_TYPE = STRING(
    "ssl.keystore.type",
    "JKS",
    None,
    PER_BROKER,
    doc="PEM, or PKCS12, which Kafka's own default stands for as well; what Java alone reads is refused with a hint.",
)
SSL_KEYSTORE_LOCATION = STRING.optional(
    "ssl.keystore.location",
    None,
    PER_BROKER,
    doc="The file with this node's private key and certificates; read again when it changes.",
)
SSL_KEYSTORE_PASSWORD = PASSWORD.optional("ssl.keystore.password", None, PER_BROKER, doc="What opens a PKCS12 file.")
SSL_KEY_PASSWORD = PASSWORD.optional("ssl.key.password", None, PER_BROKER, doc="What opens a private key in PEM.")
SSL_KEYSTORE_KEY = PASSWORD.optional(
    "ssl.keystore.key", None, PER_BROKER, doc="A private key in PEM, instead of a file (KIP-651)."
)
SSL_KEYSTORE_CERTIFICATE_CHAIN = PASSWORD.optional(
    "ssl.keystore.certificate.chain", None, PER_BROKER, doc="The certificates of that key in PEM, its own first."
)
SSL_TRUSTSTORE_TYPE = STRING("ssl.truststore.type", "JKS", None, PER_BROKER, doc="As ssl.keystore.type.")
SSL_TRUSTSTORE_LOCATION = STRING.optional(
    "ssl.truststore.location",
    None,
    PER_BROKER,
    doc="The file with the certificates of those who are believed; the system's own where there is none.",
)
SSL_TRUSTSTORE_PASSWORD = PASSWORD.optional(
    "ssl.truststore.password", None, PER_BROKER, doc="What opens a PKCS12 file."
)
SSL_TRUSTSTORE_CERTIFICATES = PASSWORD.optional(
    "ssl.truststore.certificates", None, PER_BROKER, doc="Those certificates in PEM, instead of a file (KIP-651)."
)
SSL_KEYMANAGER_ALGORITHM = STRING(
    "ssl.keymanager.algorithm", "SunX509", None, PER_BROKER, doc="A part of Java: another one than its own is refused."
)
SSL_TRUSTMANAGER_ALGORITHM = STRING(
    "ssl.trustmanager.algorithm", "PKIX", None, PER_BROKER, doc="A part of Java: another one than its own is refused."
)
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = STRING(
    "ssl.endpoint.identification.algorithm",
    "https",
    None,
    PER_BROKER,
    doc="Whether other nodes' certificates must be for the host that was connected to: https, or empty for no.",
)
SSL_SECURE_RANDOM_IMPLEMENTATION = STRING.optional("ssl.secure.random.implementation", None, PER_BROKER)
SSL_CIPHER_SUITES = SET(
    "ssl.cipher.suites",
    (),
    NO_BLANKS,
    PER_BROKER,
    doc="The cipher suites, by Java's names; without it those that are forward secret and authenticated.",
)
SSL_ENGINE_FACTORY_CLASS = CLASS.optional(
    "ssl.engine.factory.class", None, PER_BROKER, doc="A part of Java: refused where TLS is used."
)

# SASL
SASL_MECHANISM_CONTROLLER_PROTOCOL = STRING(
    "sasl.mechanism.controller.protocol", "GSSAPI", doc="How this node logs in to controllers."
)
SASL_SERVER_MAX_RECEIVE_SIZE = INT(
    "sasl.server.max.receive.size", 524_288, doc="The largest request of a client that has not logged in."
)
SASL_MECHANISM_INTER_BROKER_PROTOCOL = STRING(
    "sasl.mechanism.inter.broker.protocol", "GSSAPI", None, PER_BROKER, doc="How this node logs in to other brokers."
)
SASL_ENABLED_MECHANISMS = SET(
    "sasl.enabled.mechanisms",
    ("GSSAPI",),
    NO_BLANKS,
    PER_BROKER,
    doc="How clients log in on SASL listeners, also with `listener.name.<listener>.` before it.",
)
SASL_SERVER_CALLBACK_HANDLER_CLASS = CLASS.optional(
    "sasl.server.callback.handler.class",
    doc="Who judges bearer tokens: Kafka's OAuthBearerValidatorCallbackHandler, or a function as package.module:name;"
    " with `listener.name.<listener>.plain.` before it a function that judges names and passwords.",
)
SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES = SET(
    "sasl.kerberos.principal.to.local.rules",
    ("DEFAULT",),
    NO_BLANKS,
    PER_BROKER,
    doc="Which user a Kerberos principal is, by the first rule that matches; DEFAULT takes those of the own realm.",
)
SASL_JAAS_CONFIG = PASSWORD.optional(
    "sasl.jaas.config",
    NO_LOOKUPS,
    PER_BROKER,
    doc="The users of a mechanism and what this node logs in with; `listener.name.<listener>.<mechanism>.` before it.",
)
SASL_CLIENT_CALLBACK_HANDLER_CLASS = CLASS.optional(
    "sasl.client.callback.handler.class", doc="A part of Java: another one than Kafka's own is refused."
)
SASL_LOGIN_CLASS = CLASS.optional("sasl.login.class", doc="A part of Java: another one than Kafka's own is refused.")
SASL_LOGIN_CALLBACK_HANDLER_CLASS = CLASS.optional(
    "sasl.login.callback.handler.class", doc="A function that gives bearer tokens to log in with: package.module:name."
)
SASL_KERBEROS_SERVICE_NAME = STRING.optional(
    "sasl.kerberos.service.name",
    None,
    PER_BROKER,
    doc="The service part of the principal that this node is in Kerberos, usually kafka.",
)
SASL_KERBEROS_KINIT_CMD = STRING("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", None, PER_BROKER)
SASL_KERBEROS_TICKET_RENEW_WINDOW_FACTOR = DOUBLE("sasl.kerberos.ticket.renew.window.factor", 0.8, None, PER_BROKER)
SASL_KERBEROS_TICKET_RENEW_JITTER = DOUBLE("sasl.kerberos.ticket.renew.jitter", 0.05, None, PER_BROKER)
SASL_KERBEROS_MIN_TIME_BEFORE_RELOGIN = LONG("sasl.kerberos.min.time.before.relogin", 60_000, None, PER_BROKER)
SASL_LOGIN_REFRESH_WINDOW_FACTOR = DOUBLE("sasl.login.refresh.window.factor", 0.8, None, PER_BROKER)
SASL_LOGIN_REFRESH_WINDOW_JITTER = DOUBLE("sasl.login.refresh.window.jitter", 0.05, None, PER_BROKER)
SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS = SHORT("sasl.login.refresh.min.period.seconds", 60, None, PER_BROKER)
SASL_LOGIN_REFRESH_BUFFER_SECONDS = SHORT("sasl.login.refresh.buffer.seconds", 300, None, PER_BROKER)
SASL_LOGIN_CONNECT_TIMEOUT_MS = INT.optional("sasl.login.connect.timeout.ms")
SASL_LOGIN_READ_TIMEOUT_MS = INT.optional("sasl.login.read.timeout.ms")
SASL_LOGIN_RETRY_BACKOFF_MAX_MS = LONG("sasl.login.retry.backoff.max.ms", 10_000)
SASL_LOGIN_RETRY_BACKOFF_MS = LONG("sasl.login.retry.backoff.ms", 100)
SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS = CLASS(
    "sasl.oauthbearer.jwt.retriever.class",
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    doc="What bearer tokens are had by: of Kafka's own those for files and for client credentials; others are refused.",
)
SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS = CLASS(
    "sasl.oauthbearer.jwt.validator.class",
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    doc="What bearer tokens are judged by; Kafka's DefaultJwtValidator and BrokerJwtValidator mean the same here.",
)
SASL_OAUTHBEARER_SCOPE = STRING.optional("sasl.oauthbearer.scope", doc="The scope to ask bearer tokens for.")
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID = STRING.optional(
    "sasl.oauthbearer.client.credentials.client.id", doc="Who asks for bearer tokens to log in with."
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET = PASSWORD.optional(
    "sasl.oauthbearer.client.credentials.client.secret", doc="The secret of who asks for bearer tokens."
)
SASL_OAUTHBEARER_ASSERTION_ALGORITHM = STRING(
    "sasl.oauthbearer.assertion.algorithm", "RS256", one_of_any_case("ES256", "RS256")
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_AUD = STRING.optional("sasl.oauthbearer.assertion.claim.aud")
SASL_OAUTHBEARER_ASSERTION_CLAIM_EXP_SECONDS = INT(
    "sasl.oauthbearer.assertion.claim.exp.seconds", 300, between(0, 86_400)
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_ISS = STRING.optional("sasl.oauthbearer.assertion.claim.iss")
SASL_OAUTHBEARER_ASSERTION_CLAIM_JTI_INCLUDE = BOOLEAN("sasl.oauthbearer.assertion.claim.jti.include", False)
SASL_OAUTHBEARER_ASSERTION_CLAIM_NBF_SECONDS = INT("sasl.oauthbearer.assertion.claim.nbf.seconds", 60, between(0, 3600))
SASL_OAUTHBEARER_ASSERTION_CLAIM_SUB = STRING.optional("sasl.oauthbearer.assertion.claim.sub")
SASL_OAUTHBEARER_ASSERTION_FILE = STRING.optional("sasl.oauthbearer.assertion.file")
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE = STRING.optional("sasl.oauthbearer.assertion.private.key.file")
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE = PASSWORD.optional(
    "sasl.oauthbearer.assertion.private.key.passphrase"
)
SASL_OAUTHBEARER_ASSERTION_TEMPLATE_FILE = STRING.optional("sasl.oauthbearer.assertion.template.file")
SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = STRING(
    "sasl.oauthbearer.scope.claim.name", "scope", doc="The claim of a bearer token that has its scopes."
)
SASL_OAUTHBEARER_SUB_CLAIM_NAME = STRING(
    "sasl.oauthbearer.sub.claim.name", "sub", doc="The claim of a bearer token that names the user."
)
SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL = STRING.optional(
    "sasl.oauthbearer.token.endpoint.url",
    doc="Where bearer tokens to log in with are had from; the environment must allow it.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = STRING.optional(
    "sasl.oauthbearer.jwks.endpoint.url",
    doc="Where the keys of bearer tokens are: an https:// or file:// URL among the allowed ones.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = LONG(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000, doc="How often the keys of bearer tokens are loaded again."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = LONG(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    100,
    doc="How long to wait after the keys of bearer tokens could not be loaded, at first.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = LONG(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    10_000,
    doc="How long to wait at most after the keys of bearer tokens could not be loaded.",
)
SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = INT(
    "sasl.oauthbearer.clock.skew.seconds", 30, doc="How much the clock of who issues bearer tokens may differ."
)
SASL_OAUTHBEARER_EXPECTED_AUDIENCE = SET(
    "sasl.oauthbearer.expected.audience",
    (),
    NO_BLANKS,
    doc="Bearer tokens must be for one of these; if none is named, for nobody in particular.",
)
SASL_OAUTHBEARER_EXPECTED_ISSUER = STRING.optional(
    "sasl.oauthbearer.expected.issuer", doc="Bearer tokens must be of this issuer."
)

ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_URLS = SET(
    "org.apache.kafka.sasl.oauthbearer.allowed.urls",  # of Java's system properties in Kafka
    (),
    NO_BLANKS,
    doc="The URLs that keys of bearer tokens may be loaded from: no other setting can make a node ask elsewhere.",
    internal=True,
)
KAVKA_SASL_OAUTHBEARER_UNSECURED = BOOLEAN(
    "kavka.sasl.oauthbearer.unsecured",
    False,
    doc="Whether bearer tokens without a signature are believed, which lets everybody be anybody; for tests.",
    internal=True,
)

# Principals, authorization, tokens
AUTHORIZER_CLASS_NAME = STRING(
    "authorizer.class.name",
    "",
    doc="Who decides what clients may do: nobody, Kafka's StandardAuthorizer (its full name) or package.module:Class.",
)
SUPER_USERS = STRING(
    "super.users",
    "",
    internal=True,  # Kafka leaves it to its authorizer, and shows it where it is set
    doc="Principals that may do everything, separated by semicolons: User:admin;User:CN=kavka.",
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND = BOOLEAN(
    "allow.everyone.if.no.acl.found",
    False,
    internal=True,
    doc="Whether a resource without ACLs is open to all.",
)
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = INT(
    "connection.failed.authentication.delay.ms",
    100,
    AT_LEAST_0,
    doc="How long a client waits to be told that its log-in failed, and to be hung up on.",
)
CONNECTIONS_MAX_REAUTH_MS = LONG(
    "connections.max.reauth.ms",
    0,
    doc="How long a SASL log-in lasts, where the credentials do not end before (KIP-368); 0 for as long as they do.",
)
KAVKA_AUTHENTICATION_TIMEOUT_MS = INT(
    "kavka.authentication.timeout.ms",
    30_000,
    AT_LEAST_1,
    doc="How long a client may take from connecting to having logged in, TLS handshake included.",
    internal=True,  # not Kafka's: its tools are not shown it
)
KAVKA_MAX_UNAUTHENTICATED_CONNECTIONS = INT(
    "kavka.max.unauthenticated.connections",
    1_000,
    AT_LEAST_1,
    doc="How many connections of each secured listener may be on their way in at once; then the oldest gives way.",
    internal=True,
)
KAVKA_SASL_PLAIN_USERS_FILE = STRING.optional(
    "kavka.sasl.plain.users.file",
    doc="A file with a line name=password for each user of PLAIN, beside those of sasl.jaas.config.",
    internal=True,
)
SECURITY_PROVIDERS = STRING.optional("security.providers", doc="A part of Java: refused.")
PRINCIPAL_BUILDER_CLASS = CLASS(
    "principal.builder.class",
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    None,
    PER_BROKER,
    doc="A part of Java: another one than Kafka's own is refused.",
)
DELEGATION_TOKEN_SECRET_KEY = PASSWORD.optional(
    "delegation.token.secret.key",
    doc="What the secrets of delegation tokens are derived from, the same on all nodes; without it there are none.",
)
KAVKA_DELEGATION_TOKEN_ACCEPTED_SECRET_KEY = PASSWORD.optional(
    "kavka.delegation.token.accepted.secret.key",
    doc="A second key whose tokens are accepted too, while delegation.token.secret.key is being changed.",
    internal=True,
)
DELEGATION_TOKEN_MAX_LIFETIME_MS = LONG(
    "delegation.token.max.lifetime.ms", 604_800_000, AT_LEAST_1, doc="How long a delegation token lives at most."
)
DELEGATION_TOKEN_EXPIRY_TIME_MS = LONG(
    "delegation.token.expiry.time.ms",
    86_400_000,
    AT_LEAST_1,
    doc="How long a delegation token is valid till it is renewed.",
)
DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS = LONG(
    "delegation.token.expiry.check.interval.ms",
    3_600_000,
    AT_LEAST_1,
    doc="How often the controller deletes expired delegation tokens.",
)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())
