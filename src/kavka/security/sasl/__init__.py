"""SASL exchanges without a socket: tokens in, tokens out, for the side that asks and the side that judges."""
