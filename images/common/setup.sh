#!/bin/sh
# Makes the base image into the common one. Takes the parameters of the Dockerfile beside it as
# variables. Debian packages that are installed already need no network; the parts that Debian does
# not have (a newer Node, pnpm, bun, Homebrew) do, and say so before anything is fetched.
set -eu

unreachable() {
    echo "clawpen: part $1 needs $2, which cannot be reached from here; leave it out with $3=0" >&2
    exit 70
}

# PART ADDRESS PARAMETER [WHAT TO CALL IT]: an address of the user's own may hold a password.
reach() {
    curl --fail --silent --location --max-time 30 --output /dev/null "$2" ||
        unreachable "$1" "${4:-$2}" "$3"
}

packages="${PACKAGES:-}"
[ "${INSTALL_GH:-0}" = 1 ] && packages="$packages gh"
missing=""
for package in $packages; do
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

registry="${NPM_CONFIG_REGISTRY:-$(npm config get registry 2>/dev/null || true)}"
[ "${INSTALL_NODE:-0}" = 1 ] && reach node https://nodejs.org/dist/index.json INSTALL_NODE
[ "${INSTALL_PNPM:-1}" = 1 ] && reach pnpm "$registry" INSTALL_PNPM 'the npm registry'
[ "${INSTALL_BUN:-1}" = 1 ] && reach bun https://bun.sh/install INSTALL_BUN
[ "${INSTALL_BREW:-1}" = 1 ] && reach brew https://github.com/Homebrew/brew INSTALL_BREW

if [ "${INSTALL_NODE:-0}" = 1 ]; then
    case "$(dpkg --print-architecture)" in
    amd64) machine=x64 ;;
    *) machine=$(dpkg --print-architecture) ;;
    esac
    place="https://nodejs.org/dist/latest-v${NODE_MAJOR:-24}.x"
    name=$(curl -fsSL "$place/SHASUMS256.txt" | awk '{print $2}' | grep "linux-$machine.tar.gz$")
    curl -fsSL "$place/$name" -o "/tmp/$name"
    # The archive is the one that its own list names.
    (cd /tmp && curl -fsSL "$place/SHASUMS256.txt" | grep " $name$" | sha256sum --check -)
    tar -xzf "/tmp/$name" -C /usr/local --strip-components=1 --no-same-owner
    rm "/tmp/$name"
fi
if [ "${INSTALL_PNPM:-1}" = 1 ]; then
    npm install --global --registry "$registry" pnpm
fi
if [ "${INSTALL_BUN:-1}" = 1 ]; then
    curl -fsSL https://bun.sh/install | BUN_INSTALL="${BUN_INSTALL_DIR:-/opt/bun}" bash
fi
if [ "${INSTALL_BREW:-1}" = 1 ]; then
    prefix="${BREW_INSTALL_DIR:-/home/linuxbrew/.linuxbrew}"
    # Homebrew refuses to be root's.
    id linuxbrew >/dev/null 2>&1 || useradd --create-home --shell /bin/bash linuxbrew
    mkdir -p "$prefix/bin"
    git clone --depth 1 https://github.com/Homebrew/brew "$prefix/Homebrew"
    ln -sf ../Homebrew/bin/brew "$prefix/bin/brew"
    chown -R linuxbrew: "$prefix"
fi
exit 0
