#!/usr/bin/env bash
# Everything of a release but the upload: wheel and sdist in dist/, tried in clean environments. Needs PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "== build"
rm -rf dist build/release
"$python" -m venv "$work/build"
"$work/build/bin/pip" install --quiet build
"$work/build/bin/python" -m build --outdir dist . >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; exit 1; }
ls dist

try() { # NAME PACKAGE [VARIABLE=VALUE...]: install into a clean environment, and write and read through a node
	local name=$1 package=$2
	shift 2
	echo "== $name: $package"
	"$python" -m venv "$work/$name"
	env "$@" "$work/$name/bin/pip" install --quiet "$package"
	local kavka=$work/$name/bin/kavka
	(cd "$work" && "$kavka" version)
	"$kavka" serve --data-dir "$work/$name-data" --listen 127.0.0.1:0 --ready-file "$work/$name.json" 2>"$work/$name.log" &
	local node=$!
	for _ in $(seq 600); do [ -e "$work/$name.json" ] && break; kill -0 $node; sleep 0.1; done
	local at
	at=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["bootstrap"])' "$work/$name.json")
	seq 1000 | "$kavka" produce numbers --bootstrap "$at"
	[ "$("$kavka" consume numbers --bootstrap "$at" | wc -l)" = 1000 ]
	kill -TERM $node
	wait $node
}

try wheel "$(ls "$PWD"/dist/*.whl)"
try sdist "$(ls "$PWD"/dist/*.tar.gz)" CC=/bin/false CXX=/bin/false
echo "== ready: tag the commit, then twine upload dist/*"
