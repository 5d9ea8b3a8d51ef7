#!/usr/bin/env bash
# The README's two commands on a Debian made for it, as an ordinary user with pip's own settings:
#   sudo tests/install/fresh_debian.sh FOLDER bookworm|trixie [nvidia] [hard]
# Needs root and debootstrap. The system is made in FOLDER/SUITE once and kept, the user's home is made anew.
#   nvidia   an nvidia-smi that sees no card is on the PATH
#   hard     a path with spaces, an active virtual environment made without pip, a first install that is
#            interrupted, a home that can't be written to, and no tests
# Where the index is reached through a certificate of one's own, SSL_CERT_FILE names it.
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mkdir -p "$1" && cd "$1" && pwd) suite=$2
shift 2
nvidia='' hard=''
for word in "$@"; do declare "$word=1"; done
root=$folder/$suite mirror=${MIRROR:-http://deb.debian.org/debian}
certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}

if [ ! -e "$root/made" ]; then
  rm -rf --one-file-system "$root"
  debootstrap --variant=minbase --include=ca-certificates,git,python3-venv "$suite" "$root" "$mirror" >"$root.log"
  touch "$root/made"
fi
cp "$certificates" "$root/etc/ssl/certs/ca-certificates.crt"
cp /etc/resolv.conf /etc/hosts "$root/etc/"

undo() { umount -R "$root/proc" "$root/dev" 2>/dev/null || true; }
trap undo EXIT
undo
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null zero random urandom tty; do
  touch "$root/dev/$node"
  mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"

chroot "$root" bash -c 'id visitor >/dev/null 2>&1 || useradd --create-home visitor; rm -rf /home/visitor; mkdir /home/visitor'
[ -z "$hard" ] && name=tableread || name='my table read'
git clone --quiet --no-local "$project" "$root/home/visitor/$name"
rm -f "$root/usr/local/bin/nvidia-smi"
if [ -n "$nvidia" ]; then
  printf '#!/bin/sh\necho "No devices were found"\nexit 6\n' >"$root/usr/local/bin/nvidia-smi"
  chmod +x "$root/usr/local/bin/nvidia-smi"
fi

cat >"$root/home/visitor/commands.sh" <<EOF
set -u
cd "/home/visitor/$name"
python3 --version
timed() { local begin=\$SECONDS; "\$@"; local rc=\$?; echo "== exit \$rc after \$((SECONDS - begin)) s: \$*"; [ \$rc = 0 ] || failed=1; }
failed=0
if [ -n "$hard" ]; then
  python3 -m venv --without-pip /tmp/own
  export VIRTUAL_ENV=/tmp/own
  setsid --fork bash -c 'echo \$\$ >/tmp/first.pid; exec ./run doctor' 2>&1 | sed 's/^/first: /' &
  sleep 45; kill -KILL -- -\$(cat /tmp/first.pid); wait
fi
timed ./run say "The door was open when I came home." --seed 7 --out /tmp/take.wav
timed ./run say "The door was open when I came home." --seed 7 --out /tmp/again.wav
cmp /tmp/take.wav /tmp/again.wav || failed=1
du -sh "\${VIRTUAL_ENV:-.venv}"
[ -n "$hard" ] || timed ./test -q
exit \$failed
EOF
chroot "$root" bash -c "rm -rf /tmp/*; chown -R visitor /home/visitor; [ -z '$hard' ] || { chown root /home/visitor; chmod 755 /home/visitor; }"
own=''
[ -z "${SSL_CERT_FILE:-}" ] || own="PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"
chroot "$root" su visitor -c "env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/visitor $own bash /home/visitor/commands.sh"
