/* What Namewire uses of DPDK: ports, bursts of frames, memory for them. Everything that DPDK does in headers. */
#ifndef NAMEWIRE_DPDK_SHIM_H
#define NAMEWIRE_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;

/* A port in use. */
struct namewire_dpdk_port {
	struct rte_mempool *pool;
	uint16_t port;
	uint16_t mtu;
	uint8_t mac[6];
	int socket;
	char driver[32];
};

/* What is asked of a port. A multicast group of zeros is none. */
struct namewire_dpdk_options {
	const char *name;
	uint16_t mtu;
	uint16_t descriptors;
	uint32_t buffers;
	uint8_t group[6];
};

/* All return 0, or a negative number of errno.h, unless it says otherwise. */
int namewire_dpdk_start(int count, char **arguments);
/* Which step has failed is in `step`, a string that lives as long as the program. */
int namewire_dpdk_open(const struct namewire_dpdk_options *options, struct namewire_dpdk_port *port,
		       const char **step);
void namewire_dpdk_close(struct namewire_dpdk_port *port);
/* Frames received, at most `room`. */
uint16_t namewire_dpdk_receive(const struct namewire_dpdk_port *port, struct rte_mbuf **frames, uint16_t room);
/* Frames taken: those in front. */
uint16_t namewire_dpdk_transmit(const struct namewire_dpdk_port *port, struct rte_mbuf **frames, uint16_t count);
/* A frame of `length` bytes to write to, or NULL if none is free; its bytes are at `bytes`. */
struct rte_mbuf *namewire_dpdk_allocate(const struct namewire_dpdk_port *port, uint16_t length, uint8_t **bytes);
/* The bytes of a frame that lies in one piece, else NULL; `length` is that of all pieces. */
const uint8_t *namewire_dpdk_bytes(const struct rte_mbuf *frame, uint32_t *length);
/* Copies a frame in pieces, `length` bytes at most. Returns how many. */
uint32_t namewire_dpdk_copy(const struct rte_mbuf *frame, uint8_t *to, uint32_t length);
void namewire_dpdk_free(struct rte_mbuf *frame);
/* 1 if frames can go out, 0 if not. */
int namewire_dpdk_is_up(uint16_t port);
/* Frames that the device or the driver had no room for. */
uint64_t namewire_dpdk_lost(const struct namewire_dpdk_port *port);

#endif
