#!/usr/bin/env bash
# Builds the common sandbox image with Docker, on top of the base image, which is built first if it is
# missing. Each parameter of images/common/Dockerfile may be set as a variable; so may BASE_IMAGE,
# TARGET_IMAGE and those of buildx (OPENCLAW_DOCKER_BUILD_USE_BUILDX, …_CACHE_FROM, …_CACHE_TO).
# On a machine that can pull nothing, use `clawpen image build common --offline` instead.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
base="${BASE_IMAGE:-openclaw-sandbox:bookworm-slim}"
image="${TARGET_IMAGE:-openclaw-sandbox-common:bookworm-slim}"

if ! docker image inspect "$base" >/dev/null 2>&1; then
    TARGET_IMAGE="$base" "$here/scripts/sandbox-setup.sh"
fi

arguments=(--build-arg "BASE_IMAGE=$base")
for name in PACKAGES INSTALL_GH INSTALL_NODE NODE_MAJOR INSTALL_PNPM INSTALL_BUN BUN_INSTALL_DIR \
    INSTALL_BREW BREW_INSTALL_DIR FINAL_USER; do
    if [[ -n "${!name+set}" ]]; then
        arguments+=(--build-arg "$name=${!name}")
    fi
done

if [[ "${OPENCLAW_DOCKER_BUILD_USE_BUILDX:-0}" == 1 ]]; then
    build=(docker buildx build --load)
    [[ -n "${OPENCLAW_DOCKER_BUILD_CACHE_FROM:-}" ]] &&
        build+=(--cache-from "$OPENCLAW_DOCKER_BUILD_CACHE_FROM")
    [[ -n "${OPENCLAW_DOCKER_BUILD_CACHE_TO:-}" ]] &&
        build+=(--cache-to "$OPENCLAW_DOCKER_BUILD_CACHE_TO")
else
    build=(docker build)
fi

"${build[@]}" --tag "$image" "${arguments[@]}" "$here/images/common"
echo "made $image; use it with agents.defaults.sandbox.docker.image"
