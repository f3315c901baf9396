#!/bin/bash
# Starts a display, a browser on it, a relay to its control port and, on request, a view of the
# display for people. Ends as soon as any of them ends, so that whoever started it notices.
set -euo pipefail

# Says whether a variable is switched on; the second argument is what it is if unset.
on() {
    case "${!1:-$2}" in
    1 | true | yes | on) return 0 ;;
    *) return 1 ;;
    esac
}

cdp_port="${OPENCLAW_BROWSER_CDP_PORT:-9222}"
vnc_port="${OPENCLAW_BROWSER_VNC_PORT:-5900}"
novnc_port="${OPENCLAW_BROWSER_NOVNC_PORT:-6080}"
source_range="${OPENCLAW_BROWSER_CDP_SOURCE_RANGE:-}"
token="${OPENCLAW_BROWSER_CDP_AUTH_TOKEN:-}"
# Not for the browser, nor for what it starts.
unset OPENCLAW_BROWSER_CDP_AUTH_TOKEN
renderers="${OPENCLAW_BROWSER_RENDERER_PROCESS_LIMIT:-2}"

# The root is read-only: everything that is written goes to memory.
export HOME="${TMPDIR:-/tmp}/openclaw-home"
export DISPLAY=:1
mkdir -p "$HOME/.chrome" "$HOME/.config" "$HOME/.cache"
export XDG_CONFIG_HOME="$HOME/.config" XDG_CACHE_HOME="$HOME/.cache"

Xvfb "$DISPLAY" -screen 0 1280x800x24 -ac -nolisten tcp &
# What follows needs a display that answers.
for _ in $(seq 100); do
    [[ -S /tmp/.X11-unix/X1 ]] && break
    sleep 0.1
done

# What a relay leads to listens on this machine only, on the port beside the relay's.
beside() {
    if (($1 >= 65535)); then echo $(($1 - 1)); else echo $(($1 + 1)); fi
}

# The relay is what others reach; with a range, only those in it.
relay() {
    local listen="TCP-LISTEN:$1,fork,reuseaddr,bind=0.0.0.0"
    [[ -n "$source_range" ]] && listen="$listen,range=$source_range"
    socat "$listen" "TCP:127.0.0.1:$2" &
}

# The same for the control port where there is a token: each connection must show it in its first request, as
# the password of HTTP's Basic scheme for the user `openclaw`.
guarded_relay() {
    RELAY_TOKEN="$token" python3 -I -c '
import asyncio, base64, hmac, ipaddress, os, sys

outer, inner, allowed = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
allowed = ipaddress.ip_network(allowed, strict=False) if allowed else None
wanted = b"Basic " + base64.b64encode(b"openclaw:" + os.environ["RELAY_TOKEN"].encode())
REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

async def pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def serve(reader, writer):
    try:
        peer = ipaddress.ip_address(writer.get_extra_info("peername")[0])
        if allowed and peer not in allowed:
            return
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        names = [line.split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line]
        shown = [value.strip() for name, value in names if name.lower() == b"authorization"]
        if len(shown) != 1 or not hmac.compare_digest(shown[0], wanted):
            writer.write(REFUSED)
            await writer.drain()
            return
        inside, to_inside = await asyncio.open_connection("127.0.0.1", inner)
        to_inside.write(head)
        await asyncio.gather(pipe(reader, to_inside), pipe(inside, writer))
    except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "0.0.0.0", outer)
    async with server:
        await server.serve_forever()

asyncio.run(main())
' "$1" "$2" "$source_range" &
}

inner_port=$(beside "$cdp_port")

flags=(
    --remote-debugging-address=127.0.0.1
    --remote-debugging-port="$inner_port"
    --user-data-dir="$HOME/.chrome"
    --no-first-run
    --no-default-browser-check
    --disable-dev-shm-usage
    --disable-background-networking
    --disable-features=TranslateUI
    --disable-breakpad
    --disable-crash-reporter
    --no-zygote
    --metrics-recording-only
    --password-store=basic
    --use-mock-keychain
)
on OPENCLAW_BROWSER_HEADLESS 0 && flags+=(--headless=new)
on OPENCLAW_BROWSER_DISABLE_GRAPHICS_FLAGS 1 &&
    flags+=(--disable-3d-apis --disable-gpu --disable-software-rasterizer)
on OPENCLAW_BROWSER_DISABLE_EXTENSIONS 1 && flags+=(--disable-extensions)
[[ "$renderers" =~ ^[1-9][0-9]*$ ]] && flags+=(--renderer-process-limit="$renderers")
on OPENCLAW_BROWSER_NO_SANDBOX 0 && flags+=(--no-sandbox --disable-setuid-sandbox)

chromium "${flags[@]}" about:blank &

if [[ -n "$token" ]]; then
    guarded_relay "$cdp_port" "$inner_port"
else
    relay "$cdp_port" "$inner_port"
fi

if on OPENCLAW_BROWSER_ENABLE_NOVNC 1 && ! on OPENCLAW_BROWSER_HEADLESS 0; then
    password="${OPENCLAW_BROWSER_NOVNC_PASSWORD:-}"
    if [[ -z "$password" ]]; then
        password=$(head -c 512 /dev/urandom | LC_ALL=C tr -dc 'a-zA-Z0-9' | cut -c 1-8)
    fi
    mkdir -p -m 0700 "$HOME/.vnc"
    x11vnc -storepasswd "$password" "$HOME/.vnc/passwd" >/dev/null
    unset password OPENCLAW_BROWSER_NOVNC_PASSWORD
    x11vnc -display "$DISPLAY" -rfbport "$vnc_port" -localhost -shared -forever \
        -rfbauth "$HOME/.vnc/passwd" >/dev/null 2>&1 &
    viewer_port=$(beside "$novnc_port")
    websockify --web /usr/share/novnc/ "127.0.0.1:$viewer_port" "127.0.0.1:$vnc_port" &
    relay "$novnc_port" "$viewer_port"
fi

wait -n
