# A machine of its own as far as systemd is concerned: processes, mounts, control groups, names. Arguments: the program, the
# home, `user` or `system`. Prints one fact a line; the test judges them.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
program=$1 home=$2 kind=$3

if [ "${4-}" = "" ]; then
  # Outside the processes, so that somebody is left to clean up.
  mount -t tmpfs none /run && mount -t cgroup2 none /sys/fs/cgroup || exit 1
  group=/sys/fs/cgroup/clawpen-test-$$
  mkdir "$group" && echo $$ > "$group/cgroup.procs" || exit 1
  unshare --mount --pid --fork --cgroup --mount-proc --kill-child sh "$0" "$program" "$home" "$kind" inside &
  machine=$!
  tries=0
  while [ ! -e /run/over ] && kill -0 $machine && [ $tries -lt 1200 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  kill -KILL $machine
  wait
  echo $$ > /sys/fs/cgroup/cgroup.procs
  echo 1 > "$group/cgroup.kill"
  # Whoever was killed may take a moment to be gone.
  tries=0
  while [ -d "$group" ] && [ $tries -lt 200 ]; do
    find "$group" -depth -type d -exec rmdir {} + 2> /dev/null || sleep 0.05
    tries=$((tries + 1))
  done
  exit 0
fi

facts() {
  ctl() { systemctl $scope "$@"; }
  value() { ctl show clawpen.service --property="$1" --value; }
  settled() {
    tries=0
    while ! as "$program" status > /dev/null && [ $tries -lt 200 ]; do
      sleep 0.05
      tries=$((tries + 1))
    done
  }
  one_line() { tr -d '\n'; }
  tries=0
  while [ ! -S "$private" ] && [ $tries -lt 200 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  ctl daemon-reload
  ctl start clawpen.service
  echo "start $?"
  settled
  echo "status $(as "$program" status --json | one_line)"
  echo "state $(value ActiveState)"
  echo "wrote $(as "$program" exec -- sh -c 'echo penned > kept; cat kept')"
  ctl reload clawpen.service
  settled
  echo "reloaded $(value ActiveState) $(value NRestarts)"
  kill -KILL "$(value MainPID)"
  tries=0
  while [ "$(value NRestarts)" = 0 ] && [ $tries -lt 200 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  settled
  echo "restarted $(value ActiveState) $(value NRestarts)"
  ctl stop clawpen.service
  echo "stopped $(value ActiveState) $(value Result)"
  echo "kept $(as "$program" exec -- cat kept)"
  echo "after $(as "$program" status --json | one_line)"
  echo "config $(as sh -c 'cat "$HOME/.openclaw/openclaw.json"' | grep 'backend:' | tr -d ' ')"
  touch /run/over
}

# The same once more: its root is now where we are.
umount /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
case $kind in
user)
  export HOME=$home XDG_RUNTIME_DIR=/run/user-test
  mkdir -p /run/systemd/system
  mkdir -m 700 $XDG_RUNTIME_DIR
  scope=--user private=$XDG_RUNTIME_DIR/systemd/private
  as() { "$@"; }
  /usr/lib/systemd/systemd --user &
  facts
  wait
  ;;
system)
  # Its own /etc, where the machine's services are not, and which has the user that the note of `install` asks for.
  cp -a /etc /run/etc
  rm -rf /run/etc/systemd/system
  mkdir -p /run/etc/systemd/system
  mount --bind /run/etc /etc
  mount -t tmpfs none /var/lib
  echo 'clawpen:x:987:987::/var/lib/clawpen:/usr/sbin/nologin' >> /etc/passwd
  echo 'clawpen:x:987:' >> /etc/group
  echo 'clawpen:300000:65536' >> /etc/subuid
  echo 'clawpen:300000:65536' >> /etc/subgid
  mkdir /run/bin
  install -m 755 "$program" /run/bin/clawpen
  program=/run/bin/clawpen
  $program service install --system --no-docker > /dev/null
  for target in sysinit basic network network-online multi-user shutdown; do
    printf '[Unit]\nDefaultDependencies=no\n' > /etc/systemd/system/$target.target
  done
  scope=--system private=/run/systemd/private
  as() { setpriv --reuid=clawpen --regid=clawpen --init-groups env HOME=/var/lib/clawpen "$@"; }
  facts &
  export container=test SYSTEMD_UNIT_PATH=/etc/systemd/system
  exec /usr/lib/systemd/systemd --system --unit=basic.target
  ;;
esac
