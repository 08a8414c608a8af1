#!/usr/bin/env bash
# Installs the programs that the tests need on Debian and Ubuntu, if this user may. Then says what is still missing,
# and what that means. Prints the names of missing programs on stdout, everything else on stderr.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }

browser() {
	local b
	for b in chromium chromium-browser google-chrome; do
		command -v "$b" >/dev/null && return 0
	done
	return 1
}

# The race detector needs a C compiler and the C library's headers; the check of the model needs the compiler.
compiler() { echo 'int main(void){return 0;}' | "${CC:-gcc}" -x c -include stdlib.h -o /dev/null - >/dev/null 2>&1; }

# The model checker. Another program has the same name.
checker() { [[ "$(spin -V 2>/dev/null || true)" == "Spin Version"* ]]; }

# Azurite runs on Node.js 18 or newer, although it asks for another version. npm is a package of its own in Debian.
nodejs() { command -v npm >/dev/null && [ "$(node -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 18 ]; }

# npm is slow even if there is nothing to do. So the lock file of the last installation is kept beside the packages.
installed=node_modules/.installed-lock.json
package() { nodejs && cmp -s "scripts/$1/package-lock.json" "scripts/$1/$installed"; }
fetch_package() (
	say "installing $1 by npm"
	cd "scripts/$1" && npm ci </dev/null >&2 && cp package-lock.json $installed
)

updated=
install() {
	local root=()
	if ! command -v apt-get >/dev/null; then
		say "can't install $*: this machine has no apt-get"
		return 1
	fi
	if [ "$(id -u)" -ne 0 ]; then
		if ! sudo -n true 2>/dev/null; then
			say "can't install $*: not root, and no sudo without a password"
			return 1
		fi
		root=(sudo -n)
	fi
	say "installing $*"
	if [ -z "$updated" ]; then
		"${root[@]}" apt-get update -qq </dev/null >&2 || say "apt-get update failed; trying with the old list of packages"
		updated=yes
	fi
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

if ! compiler && ! { install gcc libc6-dev && compiler; }; then
	say "no C compiler: the tests run WITHOUT the race detector, and the check of the model is SKIPPED"
	echo gcc
fi
if ! checker && ! { install spin && checker; }; then
	say "no spin: the check of the model is SKIPPED"
	echo spin
fi
# The tests start servers of their own. Debian's package starts one for the whole machine where systemd runs.
server() { command -v redis-server >/dev/null; }
if ! server && install redis-server && [ -d /run/systemd/system ]; then
	root=()
	[ "$(id -u)" -eq 0 ] || root=(sudo -n)
	"${root[@]}" systemctl disable --now redis-server </dev/null >&2 || say "the machine's own Redis server could not be stopped"
fi
if ! server; then
	say "no redis-server: the tests of Redis are SKIPPED"
	echo redis
fi
# Each is for some tests: shells for the completion, the tool that erases a person's data by hand, and one that sets
# clocks. Only CI installs them.
for tool in ${CI:+zsh fish sqlite3 faketime}; do
	if ! command -v $tool >/dev/null && ! install $tool; then
		say "no $tool: its test is SKIPPED"
		echo $tool
	fi
done
if [ -n "${CI:-}" ] && ! command -v promtool >/dev/null && ! install prometheus; then
	say "no promtool: the test of the alerts is SKIPPED"
	echo promtool
fi
if [ -n "${CI:-}" ] && [ ! -e /usr/share/bash-completion/bash_completion ] && ! install bash-completion; then
	say "no bash-completion: the test of the completion in bash is SKIPPED"
	echo bash-completion
fi
if ! browser && ! { install chromium && browser; }; then
	say "no Chromium: the tests of the pages in a real browser are SKIPPED"
	echo chromium
fi
packages() {
	local name why
	while read -r name why; do
		if ! package "$name" && ! { nodejs && fetch_package "$name"; }; then
			say "no $name, which needs npm, Node.js 18 and npm's registry: $why"
			echo "$name"
		fi
	done
}
absent=$(command -v node >/dev/null || echo nodejs; command -v npm >/dev/null || echo npm)
if [ -n "$absent" ]; then
	install $absent || true
fi
packages <<'END'
azurite the tests of Azure Storage are SKIPPED
axe the tests of who can use the operators' pages are SKIPPED
END
