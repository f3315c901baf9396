#!/bin/sh
# Makes a Debian into the base image: its packages, and the user that commands run as.
# Takes PACKAGES; what is installed already is left alone, so no network is needed for it.
set -eu

missing=""
for package in ${PACKAGES:-}; do
    state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    # shellcheck disable=SC2086 # a list of names
    apt-get install --yes --no-install-recommends $missing
    rm -rf /var/lib/apt/lists/*
fi

if ! id sandbox >/dev/null 2>&1; then
    useradd --create-home --shell /bin/bash sandbox
fi
