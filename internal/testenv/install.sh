#!/bin/sh
# Installs Debian packages for tests, without a question and without starting
# the services they bring: install.sh PACKAGE...
#
# One at a time: test processes that miss the same package wait for the first.
# A process that is killed meanwhile leaves this script to finish its work, so
# that no package stays half installed and the policy below does not stay.
set -eu
lock=${IDEM_TEST_APT_LOCK:-/tmp/idem-test-apt.lock}
policy=${IDEM_TEST_POLICY_RC_D:-/usr/sbin/policy-rc.d}
patience=${IDEM_TEST_APT_PATIENCE:-300} # seconds for whoever holds the package system
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C

exec 9>"$lock"
flock 9
missing=
for p in "$@"; do
	case $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) in
	*' ok installed') ;;
	*) missing="$missing $p" ;;
	esac
done
[ -n "$missing" ] || exit 0

# invoke-rc.d and deb-systemd-invoke ask this program whether to start a service.
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

# apt COMMAND... waits for other users of the package system: the option covers
# dpkg's lock, the loop that of the lists.
apt() {
	begin=$(date +%s)
	while :; do
		if said=$(apt-get -q -y -o "DPkg::Lock::Timeout=$patience" -o Acquire::Retries=3 "$@" 2>&1 9>&-); then
			echo "$said"
			return 0
		fi
		case $said in
		*'Could not get lock'* | *'Unable to acquire'* | *'Unable to lock'*)
			if [ $(($(date +%s) - begin)) -lt "$patience" ]; then
				sleep 1
				continue
			fi
			;;
		esac
		echo "$said"
		return 1
	done
}

# Without a network the lists that are there may do.
apt update || echo "apt-get update failed; trying with the lists there are"
# shellcheck disable=SC2086 # a list of names
apt install --no-install-recommends -o Dpkg::Options::=--force-confold $missing
