#!/usr/bin/env bash
# Builds the browser image with Docker. On a machine that can pull nothing, use
# `clawpen image build browser` instead: it makes the same image from Debian packages.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
image="${TARGET_IMAGE:-openclaw-sandbox-browser:bookworm-slim}"

docker build --tag "$image" "$here/images/browser"
echo "made $image"
