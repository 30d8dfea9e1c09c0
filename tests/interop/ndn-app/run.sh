#!/bin/sh
# Runs producer or consumer of this package against the forwarder that NDN_CLIENT_TRANSPORT names.
# The ndn-app crate connects to /var/run/nfd/nfd.sock and nothing else, so the program gets a mount
# namespace of its own in which that path leads to the wanted socket. With NDN_APP_BY_LINK=yes the
# path leads there already, for want of namespaces.
#
# usage: run.sh PROGRAM ARGUMENT...
set -eu

transport=${NDN_CLIENT_TRANSPORT:-unix:///run/nfd/nfd.sock}
case $transport in
unix:///*) socket=${transport#unix://} ;;
*)
	echo "$0: ndn-app has no transport for $transport" >&2
	exit 2
	;;
esac

if [ "${NDN_APP_BY_LINK:-}" = yes ]; then
	exec "$@"
fi
if [ "$(id -u)" = 0 ]; then as_root=; else as_root=--map-root-user; fi
# shellcheck disable=SC2016,SC2086 # expanded by the inner shell; an empty option must vanish
exec unshare $as_root --mount --propagation private sh -eu -c '
	socket=$1
	shift
	mount --bind "$(dirname "$socket")" /mnt
	mount -t tmpfs none /run
	mkdir /run/nfd
	ln -s "/mnt/$(basename "$socket")" /run/nfd/nfd.sock
	exec "$@"' sh "$socket" "$@"
