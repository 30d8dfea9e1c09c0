/* A port has one receive and one transmit queue: one worker polls it. */
#include "shim.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

/* Room in a buffer for a frame of this MTU: header, VLAN tag, checksum. */
#define OVERHEAD (RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN + RTE_ETHER_CRC_LEN)
#define DATA_ROOM_MIN 2048
/* Frames that the caller holds: a burst received, and one to be sent. */
#define HELD 64

int namewire_dpdk_start(int count, char **arguments)
{
	int used = rte_eal_init(count, arguments);
	return used < 0 ? -rte_errno : 0;
}

static int failed(const char **step, const char *name, int result)
{
	*step = name;
	return result < 0 ? result : -EIO;
}

static int set_up(struct namewire_dpdk_port *port, const struct namewire_dpdk_options *options, const char **step)
{
	static const struct rte_ether_addr nobody;
	struct rte_eth_conf conf;
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac, group;
	uint16_t receive = options->descriptors, transmit = options->descriptors;
	int result;

	result = rte_eth_dev_info_get(port->port, &info);
	if (result != 0)
		return failed(step, "ask what it can do", result);
	memset(&conf, 0, sizeof(conf));
	port->mtu = options->mtu;
	if (info.max_mtu != 0 && port->mtu > info.max_mtu)
		port->mtu = info.max_mtu;
	conf.rxmode.mtu = port->mtu;
	result = rte_eth_dev_configure(port->port, 1, 1, &conf);
	if (result != 0) {
		/* Some virtual devices take no MTU here. */
		conf.rxmode.mtu = RTE_ETHER_MTU;
		port->mtu = RTE_MIN(port->mtu, RTE_ETHER_MTU);
		result = rte_eth_dev_configure(port->port, 1, 1, &conf);
	}
	if (result != 0)
		return failed(step, "configure it", result);
	result = rte_eth_dev_adjust_nb_rx_tx_desc(port->port, &receive, &transmit);
	if (result != 0)
		return failed(step, "choose the lengths of its queues", result);
	/* The driver may have made them longer, and full queues must leave frames to send. */
	if (options->buffers < (uint32_t)receive + transmit + HELD)
		return failed(step, "fill its queues with so few buffers", -EINVAL);
	result = rte_eth_rx_queue_setup(port->port, 0, receive, port->socket, NULL, port->pool);
	if (result != 0)
		return failed(step, "set its receive queue up", result);
	result = rte_eth_tx_queue_setup(port->port, 0, transmit, port->socket, NULL);
	if (result != 0)
		return failed(step, "set its transmit queue up", result);
	result = rte_eth_dev_start(port->port);
	if (result != 0)
		return failed(step, "start it", result);
	result = rte_eth_macaddr_get(port->port, &mac);
	if (result != 0)
		return failed(step, "read its address", result);
	memcpy(port->mac, mac.addr_bytes, sizeof(port->mac));
	memcpy(group.addr_bytes, options->group, sizeof(options->group));
	if (!rte_is_same_ether_addr(&group, &nobody) && rte_eth_dev_set_mc_addr_list(port->port, &group, 1) != 0)
		/* What has no filter hears all groups, and drivers without lists are told to. */
		(void)rte_eth_allmulticast_enable(port->port);
	snprintf(port->driver, sizeof(port->driver), "%s", info.driver_name ? info.driver_name : "");
	return 0;
}

int namewire_dpdk_open(const struct namewire_dpdk_options *options, struct namewire_dpdk_port *port,
		       const char **step)
{
	/* A pool whose buffers never came home keeps its name. */
	static atomic_uint pools;
	char name[RTE_MEMPOOL_NAMESIZE];
	uint32_t room = options->mtu + OVERHEAD;
	int result;

	*step = "find it";
	memset(port, 0, sizeof(*port));
	result = rte_eth_dev_get_port_by_name(options->name, &port->port);
	if (result != 0)
		return result;
	port->socket = rte_eth_dev_socket_id(port->port);
	snprintf(name, sizeof(name), "namewire-%u", atomic_fetch_add(&pools, 1));
	if (room < DATA_ROOM_MIN)
		room = DATA_ROOM_MIN;
	room += RTE_PKTMBUF_HEADROOM;
	if (room > UINT16_MAX)
		return failed(step, "have frames so long", -EINVAL);
	/* No cache per thread: it would be of threads of DPDK, and workers are none. */
	port->pool = rte_pktmbuf_pool_create(name, options->buffers, 0, 0, (uint16_t)room, port->socket);
	if (port->pool == NULL)
		return failed(step, "get memory for frames", -rte_errno);
	result = set_up(port, options, step);
	if (result != 0)
		namewire_dpdk_close(port);
	return result;
}

void namewire_dpdk_close(struct namewire_dpdk_port *port)
{
	(void)rte_eth_dev_stop(port->port);
	/* The device stays, to be opened again: its queues are set up anew then. Buffers that they still have
	 * go back when it is closed, so the memory may only be freed if all are home. */
	if (port->pool != NULL && rte_mempool_full(port->pool))
		rte_mempool_free(port->pool);
	port->pool = NULL;
}

uint16_t namewire_dpdk_receive(const struct namewire_dpdk_port *port, struct rte_mbuf **frames, uint16_t room)
{
	return rte_eth_rx_burst(port->port, 0, frames, room);
}

uint16_t namewire_dpdk_transmit(const struct namewire_dpdk_port *port, struct rte_mbuf **frames, uint16_t count)
{
	return rte_eth_tx_burst(port->port, 0, frames, count);
}

struct rte_mbuf *namewire_dpdk_allocate(const struct namewire_dpdk_port *port, uint16_t length, uint8_t **bytes)
{
	struct rte_mbuf *frame = rte_pktmbuf_alloc(port->pool);

	if (frame == NULL)
		return NULL;
	*bytes = (uint8_t *)rte_pktmbuf_append(frame, length);
	if (*bytes == NULL) {
		rte_pktmbuf_free(frame);
		return NULL;
	}
	return frame;
}

const uint8_t *namewire_dpdk_bytes(const struct rte_mbuf *frame, uint32_t *length)
{
	if (frame->nb_segs != 1) {
		*length = rte_pktmbuf_pkt_len(frame);
		return NULL;
	}
	/* What lies there, whatever a driver says of the whole. */
	*length = rte_pktmbuf_data_len(frame);
	return rte_pktmbuf_mtod(frame, const uint8_t *);
}

uint32_t namewire_dpdk_copy(const struct rte_mbuf *frame, uint8_t *to, uint32_t length)
{
	uint32_t done = 0;

	for (; frame != NULL && done < length; frame = frame->next) {
		uint32_t piece = RTE_MIN((uint32_t)frame->data_len, length - done);

		memcpy(to + done, rte_pktmbuf_mtod(frame, const uint8_t *), piece);
		done += piece;
	}
	return done;
}

void namewire_dpdk_free(struct rte_mbuf *frame)
{
	rte_pktmbuf_free(frame);
}

int namewire_dpdk_is_up(uint16_t port)
{
	struct rte_eth_link link;

	/* Who does not know is taken to be up. */
	if (rte_eth_link_get_nowait(port, &link) != 0)
		return 1;
	return link.link_status == RTE_ETH_LINK_UP;
}

uint64_t namewire_dpdk_lost(const struct namewire_dpdk_port *port)
{
	struct rte_eth_stats stats;

	if (rte_eth_stats_get(port->port, &stats) != 0)
		return 0;
	return stats.imissed + stats.rx_nombuf;
}
