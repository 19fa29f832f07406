#!/bin/sh
# compare.sh VECTORS ALGORITHM STEPS SEED [--redis]: random traces of the model through the engine that VECTORS plays them on.
set -eu
here=$(dirname "$0")
fifo=$(mktemp -u)
mkfifo "$fifo"
trap 'rm -f "$fifo"' EXIT
python3 "$here/generate.py" --algorithm "$2" --steps "$3" --seed "$4" ${5+"$5"} >"$fifo" &
"$1" "$fifo"
wait $!
