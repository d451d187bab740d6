#!/usr/bin/env bash
# Several hosts on one machine: network namespaces with a link each to one bridge, a Ray head in the first and a worker in
# every other, token authentication on. A host has its own network, processes, hostname, /dev/shm and Ray folder; files are
# shared, as they are on a cluster with shared storage. Needs root, iproute2 and util-linux.
#
#   hosts.sh check             exits with 77 and a reason if it cannot work here
#   hosts.sh up N              N hosts, host 1 the head
#   hosts.sh run HOST CMD ...  run a command on a host, with the token
#   hosts.sh kill HOST         power loss: every process of the host is gone at once
#   hosts.sh add HOST          a host (again), as a worker
#   hosts.sh cut HOST, heal HOST     unplug its network cable, plug it in again
#   hosts.sh status, hosts.sh down
#
# State lies in $DISTRANK_HOSTS (default /tmp/dr-hosts; short, because Ray's socket paths end at 107 bytes). CPUS is the
# number of CPUs that a host has (default 1).
set -euo pipefail
state="${DISTRANK_HOSTS:-/tmp/dr-hosts}"
cpus="${CPUS:-1}"
tag="$(printf '%s' "$state" | cksum | cut -d' ' -f1)"
tag="dr$((tag % 10000))" # names of namespaces and links: several clusters can be up at a time
subnet="10.$((200 + ${tag#dr} % 50)).$((${tag#dr} / 50 % 250))"
ray="$(command -v ray || true)"

die() { echo "hosts.sh: $1" >&2; exit "${2:-1}"; }
address() { echo "$subnet.$((10 + $1))"; }

check() {
  [ "$(id -u)" = 0 ] || die "network namespaces need root" 77
  for program in ip unshare nsenter; do command -v "$program" > /dev/null || die "$program is not installed" 77; done
  [ -n "$ray" ] || die "ray is not in PATH" 77
  ip netns add "$tag-check" 2> /dev/null || die "this machine does not allow network namespaces" 77
  ip netns del "$tag-check"
}

environment() { # of everything that runs on host $1
  echo "HOME=$state/home RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(cat "$state/token") RAY_USAGE_STATS_ENABLED=0
    RAY_USAGE_STATS_REPORT_URL=http://127.0.0.1:9
    RAY_grpc_client_keepalive_time_ms=10000 RAY_grpc_client_keepalive_timeout_ms=10000 PATH=$PATH PYTHONPATH=${PYTHONPATH:-} LANG=C.UTF-8"
}

cable() { # a namespace with a link to the bridge
  ip netns add "$tag-$1"
  ip link add "$tag-$1" type veth peer name eth0 netns "$tag-$1"
  ip link set "$tag-$1" master "$tag" up
  ip -n "$tag-$1" addr add "$(address "$1")/24" dev eth0
  ip -n "$tag-$1" link set eth0 up
  ip -n "$tag-$1" link set lo up
}

boot() { # host $1 starts Ray with the remaining arguments
  local host="$1" && shift
  cable "$host"
  # `unshare` passes its own end on to the first process of the host, whose end is that of all the others
  ip netns exec "$tag-$host" env -i $(environment) unshare --pid --fork --kill-child --mount --uts --mount-proc \
    bash -c 'hostname "$0" && mount -t tmpfs -o size=1g tmpfs /dev/shm && mount -t tmpfs tmpfs "$1" && shift && exec "$@"' \
    "$tag-$host" "$state/ray" "$ray" start --block --disable-usage-stats --num-cpus="$cpus" \
    --object-store-memory=200000000 --node-ip-address="$(address "$host")" "$@" > "$state/host-$host.log" 2>&1 < /dev/null &
  echo $! > "$state/host-$host.pid"
}

inside() { # a command in all namespaces of host $1
  local host="$1" && shift
  local first
  first="$(pgrep -P "$(cat "$state/host-$host.pid")" | head -1)"
  [ -n "$first" ] || die "host $host is not up"
  nsenter --target "$first" --net --pid --mount --uts env -i $(environment) "$@"
}

up() {
  check
  [ ! -e "$state" ] || die "$state exists: hosts.sh down first"
  mkdir -p "$state/home" "$state/ray"
  echo '{}' > "$state/home/ray_bootstrap_config.yaml" # a starting head then looks for no cloud
  (umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > "$state/token")
  ip link add "$tag" type bridge
  ip link set "$tag" up
  boot 1 --head --port=6379 --dashboard-host=127.0.0.1 --temp-dir="$state/ray"
  local host
  for host in $(seq 2 "$1"); do boot "$host" --address="$(address 1):6379"; done
  for _ in $(seq 90); do
    [ "$(alive)" = "$1" ] && echo "$1 hosts are up" && return
    sleep 2
  done
  die "the hosts did not come up; see $state/host-*.log"
}

alive() { # how many nodes the head knows
  inside 1 "$(dirname "$ray")/python" -c "import ray
ray.init(address='$(address 1):6379', logging_level='ERROR', log_to_driver=False)
print(sum(node['Alive'] for node in ray.nodes()))" 2> /dev/null || echo 0
}

unplug() { # everything of host $1
  ip link set "$tag-$1" down 2> /dev/null || true # first, so that no dying process can say goodbye
  [ ! -f "$state/host-$1.pid" ] || kill -9 "$(cat "$state/host-$1.pid")" 2> /dev/null || true
  rm -f "$state/host-$1.pid"
  ip link del "$tag-$1" 2> /dev/null || true
  ip netns del "$tag-$1" 2> /dev/null || true
}

down() {
  [ -d "$state" ] || return 0
  local file
  for file in "$state"/host-*.pid; do
    [ -f "$file" ] || continue
    file="${file##*host-}"
    unplug "${file%.pid}"
  done
  ip link del "$tag" 2> /dev/null || true
  rm -rf "$state"
}

command="${1:-}"
[ $# -eq 0 ] || shift
case "$command" in
  check) check ;;
  up) up "${1:-3}" ;;
  run) inside "$@" ;;
  kill) unplug "$1" ;;
  add) boot "$1" --address="$(address 1):6379" ;;
  cut) ip link set "$tag-$1" down ;;
  heal) ip link set "$tag-$1" up ;;
  status) echo "$(alive) hosts are up" ;;
  down) down ;;
  *) sed -n '2,17p' "$0"; exit 2 ;;
esac
