package launcher

const usage = `Usage: shofer-sandbox [options] <worktree-dir> [--] command [arg...]

Confines what the command may change, and runs it in the present folder. By
default it may read everything, and write only in the worktree, in the git
metadata that a commit there needs, in /tmp and $TMPDIR, in a cache folder of
its own, and to a few devices. Options end at the worktree directory.

What may be written and read:
  --mode MODE            read-only, workspace-write (default) or unconfined
  --rw PATH              make PATH writable, with everything beneath
  --rw-create PATH       the same, and make the directory if it is missing
  --read PATH            read and execute nothing but PATH and what is writable;
                         "system" stands for the system's directories
  --allow-broad          allow / and the home directory to be made writable
  --no-cache             leave the tools' caches where they are (read-only)
  --no-protect           don't protect git's hooks, configuration and pointers
  --protect PATH         keep PATH as it is, inside something writable
  --restore              put back what git executes or follows, if it changed
  --hide PATH            let PATH look empty
  --private-tmp          give the command its own /tmp, /dev/shm and /dev/pts
  --strict-metadata      keep mode, owner and times of what isn't writable

Network and other processes:
  --net MODE             all (default), or none: no sockets but Unix ones
  --connect-tcp PORTS    connect by TCP to these ports only (or "none")
  --bind-tcp PORTS       bind TCP sockets to these ports only (or "none")
  --connect-udp PORTS    send by UDP to these ports only (or "none")
  --bind-udp PORTS       bind UDP sockets to these ports only (or "none")
  --unix PATH            allow this socket: a path, ssh-agent or gpg-agent
  --allow-signals        allow signals to processes outside
  --allow-abstract-sockets
                         allow abstract Unix sockets of processes outside

What the command gets:
  --env NAME=VALUE       set a variable
  --unsetenv NAME        remove a variable
  --clear-env            start from an empty environment
  --keep-git-env         keep GIT_DIR and the like, which are dropped otherwise
  --chdir DIR            run the command in DIR
  --keep-fd N            hand descriptor N on; above 2 only pipes are otherwise
  --caps LIST            as root, keep these capabilities (or all, or none)
  --new-session          run it in a new session, without the terminal
  --supervise            end whatever is left of it when it ends, or when this
                         program or the one that started it is killed
  --parent PID           with --supervise, the process whose end is that of all:
                         by default the one that started this program
  --linger TIME          with --supervise, what is left may go on for so long,
                         such as 500ms, to end by itself; not at all by default

What it and its descendants may use:
  --memory SIZE          memory; when it is used up, all of them are killed
  --swap SIZE            swap space besides (default none with --memory), or max
  --pids N               processes and threads at a time
  --cpus N               processor time, in processors, as in 1.5
  --cpu-weight N         their share when others want the processors too: 1 to
                         10000, where 100 is usual
  --io-read [DEVICE:]RATE
                         bytes a second read from the device that DEVICE is, or
                         is on; without one, from that of the worktree
  --io-write [DEVICE:]RATE
                         bytes a second written
  --nofile N             open files of each process
  --fsize SIZE           size of each file that is written
  --core SIZE            size of each core dump
  --nice N               added to the niceness
  --oom-score-adj N      how soon each is killed when the machine's memory is
                         used up, -1000 to 1000
  --limits CHOICE        required (default) refuses to run unless these hold;
                         best-effort runs all the same
  --cgroup PATH          run it in this control group, whose limits stay
  --cgroup-parent PATH   make control groups in this one

What must hold:
  --require PROMISE      refuse to run unless PROMISE is held: write, protect,
                         hide, private-tmp, metadata, device-ioctl, signals,
                         abstract-sockets, path-sockets, network, read or limits
  --best-effort          run even if what is required can't be held
  --backend NAME         auto (default), landlock, landlock+mountns or bwrap
  --bwrap FILE           the bubblewrap to use, where that is the backend

Policy and reports:
  --policy FILE          read the policy (JSON) from FILE; options add to it
  --status-fd N          write a status record, lines of JSON, to descriptor N
  --quiet                say no warnings; the status record has them
  --trace-denials        watch what the command tries to change, and say at the
                         end what of it was refused, and which option allows it;
                         with this, what is left of it ends as with --supervise
  --explain              say what would be granted and enforced, run nothing
  --why PATH             say whether the command could write to PATH, and why;
                         after the worktree directory another operation can be
                         named: read, execute, create, mkdir, remove, rename or
                         connect
  --doctor               say what this machine holds, and what would mend it;
                         alone, or with a worktree directory
  --verify               say what git in the worktree directory would execute or
                         follow that a command could have put there
  --json                 with one of the four above: as JSON
  --version, -h, --help

Lists of ports and capabilities are separated by commas. Options that take a
path, a port list, a rate or a variable can be given more than once. Sizes are
bytes, or have a unit: K, M, G (of 1024; KiB, MiB, GiB are the same), kB, MB, GB
(of 1000).

Exit status:
  the command's own, or 128 + n if signal n killed it
  125  the command was not run: bad usage, or the confinement or the limits
       can't be had
  126  the command was found and can't be executed
  127  the command was not found
  1    of --doctor: this machine doesn't hold every promise of every run; of
       --verify: something suspicious was found; of --why: it is refused

Example:
  cd ~/src/project && shofer-sandbox . -- make -j4 test
`
