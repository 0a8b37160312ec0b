#!/bin/bash
# guest.sh DIRECTORY SCRIPT: runs a shell script as root in an emulated machine whose kernel has soft RoCE, with devices rxe0 and rxe1 over
# Ethernet interfaces of MTU 9000 (ports 10.9.0.1 and 10.9.1.1). The machine sees the files of this one; what it writes is lost, but for
# $OUT, which is DIRECTORY/out. Exit status: that of the script; 125 if the machine has not come so far. $LIMIT: seconds at most.
set -euo pipefail
directory=$(mkdir -p "$1/out" && cd "$1" && pwd)
script=$2

# Unpacks the distribution's kernel, and makes a root file system in memory that loads the modules and enters this machine's files.
make_machine() {
    cd "$directory"
    local package release
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    release=${package#linux-image-}
    ls "$package"*.deb >/dev/null 2>&1 || apt-get -q -o APT::Sandbox::User=root download "$package" >/dev/null
    rm -rf kernel root
    mkdir kernel root
    dpkg-deb --fsys-tarfile "$package"*.deb | tar -x -C kernel ./boot ./lib/modules
    depmod -b kernel "$release"
    mkdir -p root/{bin,modules,proc,sys,dev,lower,upper,host}
    cp /bin/busybox root/bin/
    local wanted number=100 file
    for wanted in virtio_pci 9pnet_virtio 9p crc32_generic ib_uverbs rdma_rxe dummy overlay; do
        modprobe -d kernel -S "$release" --show-depends "$wanted"
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r file; do
        number=$((number + 1))
        cp "$file" "root/modules/$number-${file##*/}"
    done
    cat >root/init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm
mount -t tmpfs none /dev/shm
dmesg -n 1
for module in /modules/*; do insmod $module; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /lower
mount -t tmpfs none /upper
mkdir /upper/changes /upper/work
mount -t overlay none -o lowerdir=/lower,upperdir=/upper/changes,workdir=/upper/work /host
mount -t tmpfs none /host/run
mount -t proc none /host/proc
mount -t sysfs none /host/sys
mount -o bind /dev /host/dev
mkdir /host/run/out
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 out /host/run/out
hostname guest
ip link set lo up
for i in 0 1; do
    ip link add dummy$i type dummy
    ip link set dummy$i mtu 9000 up
    ip addr add 10.9.$i.1/24 dev dummy$i
done
cp /host/run/out/script /host/run/script
chroot /host /bin/bash -c '
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root OUT=/run/out
    for i in 0 1; do rdma link add rxe$i type rxe netdev dummy$i; done
    bash /run/script; echo $? >/run/out/status'
poweroff -f
INIT
    chmod +x root/init
    (cd root && find . | cpio -o -H newc 2>/dev/null | gzip -1) >root.gz
    cp kernel/boot/vmlinuz-* kernel.image
    rm -rf kernel root
    touch complete
}

if [ ! -e "$directory/complete" ]; then
    # Behind `||` it would go on after a command that fails.
    set +e
    (set -e; make_machine)
    made=$?
    set -e
    [ $made = 0 ] || exit 125
fi
rm -f "$directory/out/status"
cp "$script" "$directory/out/script"
timeout "${LIMIT:-600}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -nographic -no-reboot -nic none \
    -kernel "$directory/kernel.image" -initrd "$directory/root.gz" -append "console=ttyS0 quiet panic=-1" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$directory/out,mount_tag=out,security_model=none" </dev/null || true
exit "$(cat "$directory/out/status" 2>/dev/null || echo 125)"
