"""Object stores: one port, a local directory and the clouds behind it, and the segments that are kept in them."""
