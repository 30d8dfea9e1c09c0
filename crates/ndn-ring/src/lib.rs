//! Packet-buffer pool, handles, rings between workers, prefetch.

