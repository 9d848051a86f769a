#!/usr/bin/env bash
# Runs this module on the two images that images.sh makes, on the engine that
# answers, or else on one of its own: dockerd in a temporary folder, stopped again
# when this ends. Debian and Ubuntu get the package docker.io if it is missing and
# the user is root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

fail() {
	echo "integration: $*" >&2
	exit 1
}

# One at a time: engines share the machine's bridge.
exec 8>"/tmp/idem-test-engine-$(id -u).lock"
flock -w 900 8 || fail "another run holds /tmp/idem-test-engine-$(id -u).lock for too long"

state=
stop() {
	[ -n "$state" ] || return 0
	if [ -n "${engine:-}" ]; then
		kill "$engine" 2>/dev/null || true # its containers end with it
		wait "$engine" 2>/dev/null || true
	fi
	remove "$state"
}

# remove removes an engine's folder, and its bridge if there was none before. What
# is still mounted there is the engine's, and must not be removed.
remove() {
	[ ! -e "$1/bridge" ] || ip link del docker0 2>/dev/null || true
	grep -qs " $1/" /proc/mounts || rm -rf "$1"
}

# sweep removes what a run left behind that was killed: this one is alone. Its
# engine is ending by itself, or is told to.
sweep() {
	local left pid
	for left in /tmp/idem-engine-*; do
		pid=$(cat "$left/pid" 2>/dev/null) || pid=
		for n in $(seq 300); do
			grep -qs "$left" "/proc/$pid/cmdline" || break
			[ "$n" -ne 150 ] || kill "$pid" 2>/dev/null || true
			sleep 0.2
		done
		remove "$left"
	done
}

# answers says whether an engine answers in time.
answers() { command -v docker >/dev/null && timeout 20 docker version >/dev/null 2>&1; }

# start starts one. The short path is for the sockets below it. Nothing of the
# machine's network is changed but that there is a bridge meanwhile.
start() {
	command -v dockerd >/dev/null || install docker.io
	command -v docker >/dev/null || install docker-cli
	command -v dockerd >/dev/null && command -v docker >/dev/null || fail "no container engine answers, and there is no dockerd: install Docker (Debian, Ubuntu: apt-get install docker.io)"
	[ "$(id -u)" = 0 ] || fail "no container engine answers, and only root can start one: start Docker or set DOCKER_HOST"
	state=$(mktemp -d /tmp/idem-engine-XXXXXX)
	mkdir "$state/config"
	export DOCKER_HOST=unix://$state/docker.sock DOCKER_CONFIG=$state/config
	unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH
	[ -e /sys/class/net/docker0 ] || touch "$state/bridge"
	# If this script is killed, the kernel asks the engine to end.
	setpriv --pdeathsig TERM dockerd --host "$DOCKER_HOST" --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/pid" \
		--iptables=false --ip6tables=false --ip-forward=false --ip-masq=false >"$state/log" 2>&1 </dev/null 8>&- &
	engine=$!
	for _ in $(seq 600); do
		! answers || return 0
		if ! kill -0 "$engine" 2>/dev/null; then break; fi
		sleep 0.2
	done
	tail -n 20 "$state/log" >&2
	fail "dockerd does not run on this machine; its last words are above"
}

# install has apt-get install a package, as testenv does.
install() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
	sh ../internal/testenv/install.sh "$1" >&2 || true
}

sweep
trap stop EXIT
trap 'exit 1' INT TERM HUP
if answers; then
	echo "integration: using the engine that answers"
else
	start
	echo "integration: started an engine in $state"
fi
export TESTCONTAINERS_RYUK_DISABLED=true # its image cannot be pulled
export TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1
redis=idem-local/redis:test postgres=idem-local/postgres:test
./images.sh "$redis" "$postgres"
GOWORK=off IDEM_TEST_REDIS_IMAGES=$redis IDEM_TEST_POSTGRES_IMAGES=$postgres "${GO:-go}" test -count=1 -timeout=15m "$@" ./...
