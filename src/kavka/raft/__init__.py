"""The quorum that keeps the metadata log: a pull-based raft (KIP-595, KIP-853, KIP-996), with no I/O of its own."""
