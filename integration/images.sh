#!/usr/bin/env bash
# Makes one Redis and one Postgres image from the binaries of this machine, with
# the libraries they are linked with, for engines that cannot pull:
#
#	images.sh REDIS_IMAGE POSTGRES_IMAGE
#
# Both behave as the official ones do, as far as this module asks: Redis listens
# for everybody, Postgres takes POSTGRES_PASSWORD. What is missing is installed
# where that can be done. It needs the command docker, and no rights.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
redis_image=$1 postgres_image=$2

found=$(cd .. && GOWORK=off go run ./internal/testenv/servers)
redis=$(awk '$1 == "Redis" { print $2 }' <<<"$found")
postgres=$(awk '$1 == "Postgres" { print $2 }' <<<"$found")

roots=$(mktemp -d)
trap 'rm -rf "$roots"' EXIT

# copy ROOT FILE... copies programs and their libraries to where they are.
copy() {
	local root=$1 file lib
	shift
	for file in "$@"; do
		mkdir -p "$root$(dirname "$file")"
		cp -L "$file" "$root$file"
		while read -r lib; do
			[ -e "$root$lib" ] || { mkdir -p "$root$(dirname "$lib")" && cp -L "$lib" "$root$lib"; }
		done < <(ldd "$file" 2>/dev/null | grep -o '/[^ )]*' || true)
	done
}

# image ROOT NAME CHANGE... imports a folder. What is in it belongs to root.
image() {
	local root=$1 name=$2 change changes=()
	shift 2
	for change in "$@"; do changes+=(--change "$change"); done
	tar -C "$root" --owner=0 --group=0 --numeric-owner -c . | docker import "${changes[@]}" - "$name" >/dev/null
	echo "made $name"
}

mkdir -p "$roots/redis" "$roots/postgres"
chmod 755 "$roots/redis" "$roots/postgres"

root=$roots/redis
copy "$root" "$redis"
mkdir -m 1777 "$root/data"
image "$root" "$redis_image" 'WORKDIR /data' 'EXPOSE 6379' "ENTRYPOINT [\"$redis\", \"--protected-mode\", \"no\"]"

root=$roots/postgres bin=$(dirname "$postgres")
prefix=$(dirname "$bin")
copy "$root" /bin/sh "$bin/postgres" "$bin/initdb"
for lib in "$prefix/lib/"*.so; do
	case $lib in *llvmjit*) continue ;; esac # its libraries are larger than all the rest
	copy "$root" "$lib"
done
# Debian keeps what is shared by version, others under the prefix.
for share in "/usr/share/postgresql/${prefix##*/}" "$prefix/share/postgresql" "$prefix/share"; do
	if [ -e "$share/postgres.bki" ]; then
		mkdir -p "$root$share"
		cp -RL "$share/." "$root$share/"
		break
	fi
done
mkdir -p "$root/etc" "$root/usr/share/zoneinfo"
echo 'postgres:x:999:999::/data:/bin/sh' >"$root/etc/passwd"
for zone in UTC GMT; do
	[ ! -e "/usr/share/zoneinfo/$zone" ] || cp -L "/usr/share/zoneinfo/$zone" "$root/usr/share/zoneinfo/$zone"
done
mkdir -m 1777 "$root/data" "$root/tmp"
cat >"$root/entrypoint.sh" <<'EOF'
#!/bin/sh
set -eu
if [ ! -e "$PGDATA/PG_VERSION" ]; then
	echo "$POSTGRES_PASSWORD" >/data/password
	initdb -D "$PGDATA" -U "${POSTGRES_USER:-postgres}" -A scram-sha-256 --pwfile=/data/password -E UTF8 --locale=C --no-sync
	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories= "$@"
EOF
chmod 755 "$root/entrypoint.sh"
image "$root" "$postgres_image" "ENV PATH=$bin:/bin" 'ENV PGDATA=/data/db' 'ENV TZ=UTC' 'USER 999:999' 'EXPOSE 5432' \
	'ENTRYPOINT ["/entrypoint.sh"]'
