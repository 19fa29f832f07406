#!/usr/bin/env bash
# fresh.sh: installs a minimal Debian 12, clones HEAD into it, and runs there what a new user would run:
# ./dev run until it has printed something, then ./dev test.
#
#     fresh.sh [--keep]
#
# The system is in build/fresh/root. It is new for each run, and deleted at the end without --keep. Downloaded packages stay in
# build/fresh/debs. apt in the system uses the mirrors, proxies and credentials of this host. npm uses its registry.
set -euo pipefail

suite=bookworm
run_seconds=1200
test_seconds=7200

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$top/build/fresh
target=$place/root
proxies=(http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY)

say() {
	printf 'fresh: %s\n' "$*"
}

die() {
	say "$*" >&2
	exit 1
}

# start COMMAND...: runs it in its own mount and PID namespaces. They end with this shell, however it ends, so no mount and
# no process is left behind.
start() {
	setpriv --pdeathsig KILL -- \
		unshare --mount --propagation private --pid --fork --kill-child -- "$@" </dev/null &
	started=$!
}

# Waits for a background job, because bash handles signals only after a foreground command has ended.
isolated() {
	start "$@"
	wait "$started"
}

# Asks apt for the URL, because its sources can be in several formats.
mirror() {
	apt-get update --print-uris | sed -n "s|^'\(.*\)/dists/$suite/InRelease'.*|\1|p" | head -n 1
}

# debootstrap uses wget, which takes proxies only from the environment.
export_proxy_of_apt() {
	local proxy
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	if [[ -n ${proxy-} && -z ${http_proxy-} ]]; then
		export http_proxy=$proxy
	fi
}

make_system() {
	local from
	from=$(mirror)
	[[ -n $from ]] || die "this host's apt has no source for Debian 12 ($suite)"
	export_proxy_of_apt
	rm -rf --one-file-system "$target"
	mkdir -p "$place/debs/debootstrap" "$place/debs/apt"
	say "installing a minimal Debian 12"
	if ! isolated debootstrap --variant=minbase --include=git,ca-certificates \
		--cache-dir="$place/debs/debootstrap" "$suite" "$target" "$from" >"$place/debootstrap.log" 2>&1; then
		tail -n 20 "$place/debootstrap.log" >&2
		die "debootstrap failed; full log: build/fresh/debootstrap.log"
	fi
}

# Copies sources, keys, proxies and credentials of this host's apt. Clears its hooks, which call programs that the new system
# lacks.
copy_apt_configuration() {
	local item
	rm -rf "$target/etc/apt/sources.list"
	for item in sources.list sources.list.d apt.conf apt.conf.d preferences preferences.d \
		keyrings trusted.gpg trusted.gpg.d auth.conf auth.conf.d; do
		if [[ -e /etc/apt/$item ]]; then
			cp -a "/etc/apt/$item" "$target/etc/apt/"
		fi
	done
	mkdir -p "$target/usr/share/keyrings" "$target/debs"
	cp -an /usr/share/keyrings/. "$target/usr/share/keyrings/"
	cp -L /etc/resolv.conf "$target/etc/resolv.conf"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$target/etc/hosts" # as installers and containers write it
	cat >"$target/etc/apt/apt.conf.d/zz-fresh" <<-'CONF'
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		#clear DPkg::Pre-Invoke;
		#clear DPkg::Pre-Install-Pkgs;
		#clear DPkg::Post-Invoke;
		Dir::Cache::archives "/debs";
		APT::Keep-Downloaded-Packages "true";
	CONF
}

# Environment for in_system: how npm reaches its registry from this host.
npm_settings=()
copy_npm_configuration() {
	local registry authorities
	command -v npm >/dev/null || return 0
	registry=$(npm config get registry 2>/dev/null)
	authorities=$(npm config get cafile 2>/dev/null)
	npm_settings=("npm_config_registry=$registry")
	if [[ -f $authorities ]]; then
		cp -L "$authorities" "$target/etc/npm-authorities.pem"
		npm_settings+=(npm_config_cafile=/etc/npm-authorities.pem)
	fi
}

# Uses a bundle, because git does not clone from a directory of another user. Gives the clone to another user, because ./dev
# must work there, too.
clone_tree() {
	git -c safe.directory="$top" -C "$top" bundle create -q "$target/weir.bundle" HEAD
	in_system git -c advice.detachedHead=false clone -q /weir.bundle /weir
	chown -R 12345:12345 "$target/weir"
	say "cloned $(git -c safe.directory="$top" -C "$top" log -1 --format='%h %s')"
}

# in_system COMMAND...: runs it in the new system; with how=start does not wait for it.
in_system() {
	local name environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 TERM=dumb "${npm_settings[@]}")
	for name in "${proxies[@]}"; do
		if [[ -n ${!name-} ]]; then
			environment+=("$name=${!name}")
		fi
	done
	# shellcheck disable=SC2016 # expanded by the inner shell
	"${how-isolated}" bash -c '
		set -e
		target=$1 debs=$2
		shift 2
		mount --rbind /dev "$target/dev"
		mount -t tmpfs tmpfs "$target/dev/shm"
		mount -t proc proc "$target/proc"
		mount --bind "$debs" "$target/debs"
		exec chroot "$target" env -i "$@"' \
		in_system "$target" "$place/debs/apt" "${environment[@]}" "$@"
}

in_tree() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	in_system sh -c 'cd /weir && exec "$@"' in_tree "$@"
}

# ./dev run does not end by itself, so it is killed after its first output.
prove_run() {
	local deadline=$((SECONDS + run_seconds)) out=$place/run.out
	say "./dev run"
	how=start in_tree stdbuf -oL ./dev run >"$out" 2>"$place/run.err"
	while [[ ! -s $out ]] && kill -0 "$started" 2>/dev/null && ((SECONDS < deadline)); do
		sleep 0.2
	done
	sleep 1
	kill -KILL "$started" 2>/dev/null || true
	wait "$started" 2>/dev/null || true
	if [[ ! -s $out ]]; then
		tail -n 20 "$place/run.err" >&2
		say "./dev run printed nothing"
		return 1
	fi
	sed 's/^/    /' "$place/run.err"
	say "./dev run printed: $(tail -n 1 "$out")"
}

prove_test() {
	local status=0 out=$place/test.out
	say "./dev test"
	in_tree timeout "$test_seconds" ./dev test >"$out" 2>&1 || status=$?
	((status == 0)) || tail -n 60 "$out"
	say "./dev test ended with status $status and printed: $(tail -n 1 "$out")"
	return "$status"
}

main() {
	local keep=false status=0
	case ${1-} in
	'') ;;
	--keep) keep=true ;;
	*) die "unknown argument $1; use --keep or nothing" ;;
	esac
	((EUID == 0)) || die "must run as root"
	trap 'exit 130' INT TERM
	mkdir -p "$place"
	make_system
	copy_apt_configuration
	copy_npm_configuration
	clone_tree
	prove_run || status=1
	prove_test || status=1
	if $keep; then
		say "left in build/fresh/root"
	else
		rm -rf --one-file-system "$target"
	fi
	return "$status"
}

main "$@"
