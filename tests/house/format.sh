#!/usr/bin/env bash
# The C files are formatted as .clang-format says.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! git -c safe.directory="$PWD" ls-files -z -- '*.c' '*.h' | xargs -0 -r clang-format --dry-run --Werror; then
	echo "format: ./dev format mends this"
	exit 1
fi
echo "format: all as .clang-format says"
