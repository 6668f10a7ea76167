"""NeoMutt, driven through a terminal as a person would: open, tag, save elsewhere, delete, leave."""
import os, pty, select, subprocess, sys, time

folder, rc, keys = sys.argv[1], sys.argv[2], sys.argv[3]
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(TERM="xterm", LINES="24", COLUMNS="100", HOME=os.path.dirname(rc))
    os.execvp("neomutt", ["neomutt", "-n", "-F", rc, "-f", folder, "-e", f'push "{keys}"'])
seen, deadline = b"", time.monotonic() + 120
while time.monotonic() < deadline:
    ready, _, _ = select.select([terminal], [], [], 1)
    if ready:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
else:
    os.kill(pid, 9)
    print(seen[-4000:])
    sys.exit("neomutt did not finish")
_, status = os.waitpid(pid, 0)
print(seen.decode(errors="replace")[-4000:])
sys.exit(os.waitstatus_to_exitcode(status))
