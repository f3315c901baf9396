#!/usr/bin/env bash
# Builds the base sandbox image with Docker. On a machine that can pull nothing, use
# `clawpen image build base` instead: it makes the same image from Debian packages.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
image="${TARGET_IMAGE:-openclaw-sandbox:bookworm-slim}"

docker build --tag "$image" "$here/images/base"
echo "made $image"
