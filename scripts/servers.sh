# For scripts that measure other systems: which servers are there, and how to install the others. The script sets $me.
say() { echo "$me: $*" >&2; }

# Debian keeps PostgreSQL's programs out of PATH.
postgres() { compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || type -P postgres >/dev/null; }
redis() { type -P redis-server >/dev/null; }
etcd() { type -P etcd >/dev/null; } # type -P finds programs only, and not this function

# install PACKAGE...: only if this user may
install() {
	local root=()
	[ "$(id -u)" -eq 0 ] || root=(sudo -n)
	if ! command -v apt-get >/dev/null; then
		say "can't install $*: this machine has no apt-get"
	elif [ ${#root[@]} -gt 0 ] && ! sudo -n true 2>/dev/null; then
		say "can't install $*: not root, and no sudo without a password"
	else
		say "installing $*"
		"${root[@]}" apt-get update -qq </dev/null >&2 || say "apt-get update failed; trying with the old list of packages"
		"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2 ||
			say "could not install $*"
	fi
}
