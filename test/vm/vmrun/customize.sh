#!/bin/sh
# Makes a Debian root folder the guest's: a user called dev who lingers, and
# nothing that slows a boot down or that a guest without a network can't have.
set -e
r=$1
chroot "$r" useradd -m -u 1000 -s /bin/bash dev
mkdir -p "$r/var/lib/systemd/linger"
: >"$r/var/lib/systemd/linger/dev"
echo 6d5f0e0f3c0e4c5d9a4b5a0c7e1d2f31 >"$r/etc/machine-id"
echo vmrun >"$r/etc/hostname"
printf '127.0.0.1 localhost vmrun\n::1 localhost\n' >"$r/etc/hosts"
: >"$r/etc/fstab"
mkdir -p "$r/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n' >"$r/etc/systemd/journald.conf.d/vmrun.conf"
for unit in getty@.service serial-getty@.service console-getty.service \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
	e2scrub_all.timer e2scrub_reap.service fstrim.timer \
	systemd-update-utmp.service systemd-update-utmp-runlevel.service \
	systemd-random-seed.service systemd-pcrphase.service systemd-pcrphase-sysinit.service \
	systemd-udev-trigger.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount \
	dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
	modprobe@.service systemd-modules-load.service; do
	ln -sf /dev/null "$r/etc/systemd/system/$unit"
done
ln -sf /lib/systemd/system/multi-user.target "$r/etc/systemd/system/default.target"
rm -rf "$r"/usr/share/doc/* "$r"/usr/share/man/* "$r"/usr/share/info/* \
	"$r"/usr/share/locale/* "$r"/var/lib/apt/lists/*
