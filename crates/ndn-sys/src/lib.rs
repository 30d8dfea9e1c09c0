//! Kernel interfaces: batched UDP, epoll, vectored stream I/O, pinning, clock.

