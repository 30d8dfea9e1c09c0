#!/bin/sh
# Installs a release of Namewire, after its signature was verified.
set -eu

usage() {
	cat <<'END'
Usage: install.sh --key FILE [--prefix DIRECTORY] SOURCE

Installs the release in SOURCE, a URL or a directory, if InRelease there has a signature
by a key in FILE and the digest of the archive is the one that InRelease states.

  --key FILE           OpenPGP public keys, as "gpg --export" writes them
  --prefix DIRECTORY   where to install [default: /usr/local]

Requires gpgv, tar, gzip, sha256sum, and curl or wget for a URL.
END
}

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

prefix=/usr/local
key=
source=
while [ $# -gt 0 ]; do
	case $1 in
	--help | -h) usage; exit 0 ;;
	--key | --prefix)
		[ $# -ge 2 ] || fail "$1 needs a value"
		if [ "$1" = --key ]; then key=$2; else prefix=$2; fi
		shift 2
		;;
	-*) fail "$1: unknown option; --help lists all" ;;
	*)
		[ -z "$source" ] || fail "$1: only one SOURCE"
		source=$1
		shift
		;;
	esac
done
[ -n "$source" ] || { usage >&2; exit 2; }
[ -n "$key" ] || fail "--key is missing: the public key of the releases, from a place that you trust"
[ -r "$key" ] || fail "$key: cannot be read"
case $prefix in
*[!A-Za-z0-9._/+-]*) fail "$prefix: the prefix may have letters, digits and ._/+- only" ;;
/*) ;;
*) fail "$prefix: the prefix has to begin with /" ;;
esac
for tool in gpgv tar gzip sha256sum sed; do
	command -v $tool >/dev/null || fail "$tool is missing"
done
[ "$(uname -s)" = Linux ] || fail "the forwarder is for Linux, and this is $(uname -s)"

umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

get() { # FILE
	case $source in
	http://* | https://*)
		if command -v curl >/dev/null; then
			curl --fail --silent --show-error --location --output "$work/$1" "${source%/}/$1"
		elif command -v wget >/dev/null; then
			wget --quiet --output-document="$work/$1" "${source%/}/$1"
		else
			fail "neither curl nor wget is there"
		fi
		;;
	*) cp "$source/$1" "$work/$1" ;;
	esac || fail "$source/$1: cannot be fetched"
}

get InRelease
# gpgv looks for keyrings without a slash in the user's own directory.
case $key in */*) ;; *) key=./$key ;; esac
gpgv --keyring "$key" --output "$work/Release" "$work/InRelease" 2>"$work/gpgv" \
	|| fail "$source/InRelease: no valid signature by a key in $key
$(cat "$work/gpgv")"

archive=$(sed -n "s/^ [0-9a-f]\{64\} [0-9]* \(namewire-[0-9][^ /]*-linux-$(uname -m)\.tar\.gz\)\$/\1/p" "$work/Release")
[ -n "$archive" ] || fail "$source: there is no archive for $(uname -m)"
get "$archive"
expected=$(sed -n "s/^ \([0-9a-f]\{64\}\) [0-9]* $archive\$/\1/p" "$work/Release")
[ "$(sha256sum "$work/$archive" | cut -d' ' -f1)" = "$expected" ] \
	|| fail "$source/$archive: its digest is not the one in InRelease; nothing was installed"

mkdir -p "$prefix" 2>/dev/null && [ -w "$prefix" ] || fail "$prefix: cannot be written to; run this as root, or choose --prefix"
tar -xzf "$work/$archive" -C "$work" -o
cd "$work/${archive%.tar.gz}"
bin/namewire --version >/dev/null || fail "the program of $archive does not run on this machine; nothing was installed"
unit=lib/systemd/system/namewire.service
sed "s#^ExecStart=/bin/#ExecStart=$prefix/bin/#" $unit >"$work/unit"
mv "$work/unit" $unit
# Each file takes the place of its former version at once; directories that are links stay so.
find . -type f | while IFS= read -r file; do
	mkdir -p "$prefix/$(dirname "$file")"
	cp "$file" "$prefix/$file.new"
	mv -f "$prefix/$file.new" "$prefix/$file"
done
echo "installed ${archive%.tar.gz} into $prefix"
