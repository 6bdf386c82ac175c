"""The catalogue of remote segments (KIP-405): the events of `__remote_log_metadata`, and the machine they rebuild."""
