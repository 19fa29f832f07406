#!/bin/sh
# compare.sh PLAYER ALGORITHM STEPS SEED [--redis | --nodes | --leases]: plays random traces of the model, made by
# generate.py, or by nodes.py or leases.py, with the program PLAYER.
set -eu
here=$(dirname "$0")
fifo=$(mktemp -u)
mkfifo "$fifo"
trap 'rm -f "$fifo"' EXIT
if [ "${5-}" = --nodes ] || [ "${5-}" = --leases ]; then
	python3 "$here/${5#--}.py" --algorithm "$2" --steps "$3" --seed "$4" >"$fifo" &
else
	python3 "$here/generate.py" --algorithm "$2" --steps "$3" --seed "$4" ${5+"$5"} >"$fifo" &
fi
"$1" "$fifo"
wait $!
