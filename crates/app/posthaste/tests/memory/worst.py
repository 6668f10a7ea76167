# Opens sessions over TLS and brings each into one state. Prints by how many bytes of its own
# memory the server has grown for each. The functions of `PYTHON_SESSIONS` are before this.
import base64, os, sys, time, zlib

pid, port, state, count, user, password = sys.argv[1:]
plain = base64.b64encode(b"\0%s\0%s" % (user.encode(), password.encode())).decode()
# The longest domain has 253 octets, and the longest ORCPT 500.
domain = ".".join(["d" * 63] * 3 + ["d" * 61])
orcpt = "rfc822;" + "x" * 493


def flood(stream, octets):
    # Until nothing more is taken: input, output and the buffers of the kernel are full.
    stream.settimeout(1)
    try:
        stream.sendall(octets)
    except socket.timeout:
        pass


class Imap:
    def __init__(self):
        self.stream = connect(port, True, receive_buffer=4096)
        for text in ['LOGIN %s "%s"' % (user, password), "SELECT Large", "COMPRESS DEFLATE"]:
            command(self.stream, text)
        self.packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        self.send(b"u NOOP\r\n")

    def send(self, octets):
        self.stream.sendall(self.packer.compress(octets) + self.packer.flush(zlib.Z_SYNC_FLUSH))

    def worsen(self):
        if state == "fetch":
            # Nothing is read any more: output, input and a part of a message stay where they are.
            self.send(b"f FETCH 1:* BODY.PEEK[]\r\n" + b"n NOOP\r\n" * 30000)
        elif state == "fields":
            # A thousand times nearly all of a long header, from its summary.
            items = b" ".join(b"BODY.PEEK[HEADER.FIELDS.NOT (Z%d)]" % n for n in range(1000))
            self.send(b"f FETCH 51 (" + items + b")\r\n" + b"n NOOP\r\n" * 30000)
        elif state == "append":
            # Cancelled by its empty message (RFC 3502). An octet follows in the same packet.
            size = 8000000
            self.send(b"a APPEND INBOX {%d+}\r\n%s {0+}\r\n\r\nx" % (size, b"x" * size))
        else:
            # A command that never ends, as long as one may be.
            keys = b"s SEARCH " + b"OR SEEN " * 2000
            for _ in range(60):
                keys += b"TEXT {4000+}\r\n" + b"x" * 4000 + b" "
            self.send(keys)


class Pop3:
    def __init__(self):
        self.stream = connect(port, True, receive_buffer=4096, greeting=b"+OK")
        for text in ["USER " + user, "PASS " + password]:
            self.stream.sendall(text.encode() + b"\r\n")
            line(self.stream, b"+OK")

    def worsen(self):
        # Nothing is read any more: output and a part of a message stay where they are.
        self.stream.sendall(b"".join(b"RETR %d\r\n" % n for n in range(1, 51)) * 20)


def quoted(local):
    # RFC 5321 §4.1.2: twice as long as it needs to be.
    return '"%s"' % "".join("\\" + letter for letter in local)


def of_user(number):
    # Local parts have at most 128 octets.
    name, at = user.split("@")
    return "%s@%s" % (quoted("%s+%0*d" % (name, 127 - len(name), number)), at)


def elsewhere(number):
    return "%s@%s" % (quoted("%0128d" % number), domain)


class Mail:
    """Submission with a login, or another host that begins TLS."""

    def __init__(self):
        self.is_user = state == "recipients"
        self.stream = connect(port, self.is_user, receive_buffer=4096, greeting=b"220")
        if not self.is_user:
            self.ask("EHLO a.example", b"250 ")
            self.ask("STARTTLS", b"220")
            self.stream = context.wrap_socket(self.stream)
        self.ask("EHLO a.example", b"250 ")
        if self.is_user:
            self.ask("AUTH PLAIN " + plain, b"235")

    def ask(self, text, answer):
        self.stream.sendall(text.encode() + b"\r\n")
        line(self.stream, answer)

    def is_full(self, addresses):
        # Names recipients, and reads the answers. Whether the envelope takes no more of them.
        for first in range(0, len(addresses), 50):
            some = addresses[first:first + 50]
            rcpt = ["RCPT TO:<%s> NOTIFY=SUCCESS ORCPT=%s\r\n" % (to, orcpt) for to in some]
            self.stream.sendall("".join(rcpt).encode())
            answers = b""
            while answers.count(b"\r\n") < len(some):
                got = self.stream.recv(65536)
                assert got, answers
                answers += got
            codes = {answer[:3] for answer in answers.split(b"\r\n")[:-1]}
            assert codes <= {b"250", b"452"}, answers
            if b"452" in codes:
                return True
        return False

    def worsen(self):
        self.ask("MAIL FROM:<%s>" % (user if self.is_user else "bo@b.example"), b"250")
        if self.is_user:
            # Those elsewhere take more. The others share an account.
            assert not self.is_full([of_user(n) for n in range(100)])
            assert self.is_full([elsewhere(n) for n in range(1000)])
        else:
            assert self.is_full([of_user(n) for n in range(1001)])
        self.ask("BDAT 1000\r\n" + "x" * 998, b"250")
        if self.is_user:
            # VRFY has a longer answer than NOOP.
            flood(self.stream, b"VRFY x\r\n" * 50000)
        else:
            # Commands before a login wait, so that the output stays short. This is no whole line.
            flood(self.stream, b"NOOP " + b"x" * 12000)


class Sieve:
    # 256 KiB: as long as a script may be.
    script = (b"#" + b"x" * 77 + b"\r\n") * 3276

    def __init__(self):
        self.stream = connect(port, False, receive_buffer=4096, greeting=b"OK")
        self.ask(b"STARTTLS\r\n")
        self.stream = context.wrap_socket(self.stream)
        line(self.stream, b"OK")
        self.ask(b'AUTHENTICATE "PLAIN" "%s"\r\n' % plain.encode())

    def ask(self, text):
        self.stream.sendall(text)
        line(self.stream, b"OK")

    def store(self):
        self.ask(b'PUTSCRIPT "large" {%d+}\r\n%s\r\n' % (len(self.script), self.script))

    def worsen(self):
        # The input has held a long command, and the answers to those behind it are not read. The
        # last one is not whole.
        long = b"{%d+}\r\n%s" % (len(self.script), self.script)
        get = b'GETSCRIPT "large"\r\n' * 500
        part = b'PUTSCRIPT "other" ' + long[:100000]
        flood(self.stream, b"CHECKSCRIPT " + long + b"\r\n" + get + part)


kinds = {"retr": Pop3, "recipients": Mail, "smtp": Mail, "sieve": Sieve}
Session = kinds.get(state, Imap)


def all_sleep():
    # Each thread waits for something, and not for a processor: it has read all that it will.
    for thread in os.listdir("/proc/%s/task" % pid):
        try:
            with open("/proc/%s/task/%s/stat" % (pid, thread)) as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] not in "SI":
                    return False
        except FileNotFoundError:
            return False
    return True


def at_rest():
    # Until the server grows no more: it may still be reading.
    last, same = -1, 0
    while same < 5:
        time.sleep(0.2)
        now = anonymous(pid)
        same = same + 1 if abs(now - last) < 65536 and all_sleep() else 0
        last = now
    return last


def worst(number):
    sessions = [Session() for _ in range(number)]
    for session in sessions:
        session.worsen()
    return sessions


if state == "sieve":
    Session().store()
# The first ones fill the allocator's free lists, open the mailbox and start threads.
warm = worst(10)
before = at_rest()
sessions = worst(int(count))
print((at_rest() - before) // int(count))
